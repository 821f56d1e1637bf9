# frozen_string_literal: true

require_relative "../errors"
require_relative "condition"
require_relative "matching"

module Pelton
  class Routing
    # What `where(…)` returns in the block of a topic: a part of a message. Its methods make a condition of it. They run
    # while routes are declared, and raise ConfigError for a value that cannot be compared.
    # A missing field counts as nil. Values are not converted: 1 equals 1.0, but not "1". Numbers compare with numbers
    # only, strings with strings, Times with Times, and Dates with Dates.
    #   where("type").in("order.created", "order.paid")
    #   where("customer", "address", 0, "country").eq("PL").or(where.key.starts_with("pl-"))
    class Where
      POSITION_BITS = 63
      # Days since the Julian day 0.
      DAY_BITS = 32
      LITERALS = "a String (UTF-8), an Integer of 64 bits, a finite Float or BigDecimal, a Time, a Date, true, false " \
                 "or nil"
      NOTHING = "nothing to compare: use where(\"field\"), where.key or where.header(\"name\")"

      # A condition in the list of its topic. All conditions of a topic must hold. `&`, `|` and `!` replace two (or one)
      # of them by a combined one. (Ruby's own `||` would not see the second side.)
      class Clause
        # How deep conditions may be nested. A chain of one operator is one level. Each level costs the native threads
        # some stack.
        LEVELS = 100
        private_constant :LEVELS

        # A frozen tree (see Condition).
        #: () -> Array[untyped]
        attr_reader :tree

        #: (Array[untyped], Array[untyped], ?Integer) -> void
        def initialize(list, tree, levels = 1)
          raise ConfigError.new("where", levels, "conditions nest deeper than #{LEVELS} levels") if levels > LEVELS

          @list = list
          @tree = tree.freeze
          @levels = levels
          list << self
          freeze
        end

        # Both conditions hold.
        #   where("type").eq("order.paid").and(where("total").gt(100))
        #: (Clause) -> Clause
        def &(other) = combine(:all, other)
        # At least one of the two holds.
        #   where("total").gt(100).or(where("vip").eq(true))
        #: (Clause) -> Clause
        def |(other) = combine(:any, other)
        # The condition does not hold.
        #   where("test").exists.not
        #: () -> Clause
        def ! = combine(:not)

        # The names that Arel uses. With `a | b` alone in a line, `ruby -w` would warn about an unused value.
        alias and &
        alias or |
        alias not !

        def inspect = "#<#{self.class} #{@tree.inspect}>"

        private

        def combine(kind, *others)
          others.each do |other|
            next if Clause === other # rubocop:disable Style/CaseEquality -- `!` is ours

            raise ConfigError.new("where", other, "expected a condition on both sides of & and |, like where(…).eq(1)")
          end
          parts = [self, *others]
          parts.each { |part| @list.delete_if { |listed| listed.equal?(part) } }
          levels = 1 + parts.map { |part| part.levels(kind) }.max
          Clause.new(@list, [kind, *parts.flat_map { |part| part.parts(kind) }], levels)
        end

        protected

        # A chain of the same operator is one flat list.
        def parts(kind) = chain?(kind) ? @tree.drop(1) : [@tree]
        def levels(kind) = chain?(kind) ? @levels - 1 : @levels
        def chain?(kind) = kind != :not && @tree.first == kind
      end

      # scope: for errors, "topic orders". list: the topic's conditions. path: field names and positions, outermost
      # first.
      #: (String, Array[untyped], Array[String | Integer]) -> void
      def initialize(scope, list, path)
        @scope = scope
        path.each do |step|
          next if step.is_a?(String) || (step.is_a?(Integer) && step.bit_length < POSITION_BITS)

          raise refusal(step, "expected names (String) and positions (Integer of #{POSITION_BITS} bits) of fields")
        end
        @list = list
        # [:field, "customer", 0], [:key], [:header, "source"]; nil: not known yet.
        @subject = [:field, *path.map { |step| step.is_a?(String) ? text(step) : step }].freeze unless path.empty?
        # Stays in the list until a condition is made of it: an incomplete one is found there.
        list << self
      end

      # The message's key, as it came.
      #   where.key.starts_with("pl-")
      #: () -> self
      def key = subject(:key)

      # A header. If it has several values, one that fits is enough.
      #   where.header("source").eq("shop")
      #: (String) -> self
      def header(name)
        raise refusal(name, "expected a header's name, a String") unless name.is_a?(String)

        subject(:header, text(name))
      end

      # Equals this value: a String, Integer, Float, BigDecimal, Time, Date, true, false or nil.
      #   where("type").eq("order.paid")
      #: (untyped) -> Clause
      def eq(value) = clause(:in, [literal(value)].freeze)
      # Does not equal this value. Holds for a missing field, too, unless the value is nil.
      #   where("type").not_eq("test")
      #: (untyped) -> Clause
      def not_eq(value) = !eq(value)

      # Equals one of these values.
      #   where("type").in("order.created", "order.paid")
      #: (*untyped) -> Clause
      def in(*values)
        values = values.flatten(1)
        raise refusal(nil, "`in` needs at least one value") if values.empty?

        clause(:in, values.map { |value| literal(value) }.freeze)
      end

      # Equals none of these values.
      #   where("country").not_in("PL", "DE")
      #: (*untyped) -> Clause
      def not_in(*values) = !self.in(*values)

      # Greater than, greater or equal, less than, less or equal; of numbers, strings, Times or Dates.
      #   where("total").gteq(100)
      #   where("at").lt(Time.utc(2026, 1, 1))
      #: (untyped) -> Clause
      %i[gt gteq lt lteq].each { |check| define_method(check) { |value| clause(check, ordered(value)) } }

      # A string in which the regular expression is found. Native threads match plain expressions: letters, sets,
      # groups, alternatives, repetitions, anchors. Look-around and properties need Ruby's Regexp, which has a second
      # per text. Back-references raise ConfigError.
      #   where("email").matches(/@example\.com\z/)
      #: (Regexp) -> Clause
      def matches(pattern)
        expected = "expected a Regexp for UTF-8"
        raise refusal(pattern, expected) unless pattern.is_a?(Regexp)
        raise refusal(pattern, expected) if pattern.options.anybits?(Regexp::NOENCODING) ||
                                            ![Encoding::UTF_8, Encoding::US_ASCII].include?(pattern.encoding)

        clause(:matches, Matching.bounded(pattern, inspect))
      end

      # A string that starts with this one.
      #   where.key.starts_with("pl-")
      #: (String) -> Clause
      def starts_with(prefix)
        raise refusal(prefix, "expected a String") unless prefix.is_a?(String)

        clause(:starts_with, text(prefix))
      end

      # The field, key or header exists, also if it is null.
      #   where("coupon").exists
      #: () -> Clause
      def exists = clause(:exists, nil)

      # `where("type")`, `where.key`
      def inspect
        kind, *path = @subject
        words = path.map(&:inspect).join(", ")
        case kind
        when nil then "where"
        when :field then "where(#{words})"
        else "where.#{kind}#{"(#{words})" unless path.empty?}"
        end
      end

      private

      def subject(*subject)
        raise refusal(nil, "names more than one of field, key and header: use one") if @subject

        @subject = subject.freeze
        self
      end

      def clause(check, value)
        raise refusal(nil, NOTHING) unless @subject

        @list.delete_if { |listed| listed.equal?(self) }
        Clause.new(@list, [:is, @subject, check, value])
      end

      def literal(value)
        return text(value) if value.is_a?(String)
        return value if value.nil? || (field? && plain?(value))

        found = rare(value) if field?
        found || raise(refusal(value, "expected #{field? ? LITERALS : "a String (UTF-8) or nil"}"))
      end

      def plain?(value)
        case value
        when Integer then value.bit_length < 64
        when Float then value.finite?
        when true, false then true
        end
      end

      # A frozen copy of a value that JSON has not, as Avro decodes it. nil: it is none.
      def rare(value)
        case value
        # Also of ActiveSupport::TimeWithZone.
        when Time then Time.at(value.to_r).utc.freeze if value.to_i.bit_length < 64
        when Condition::DATE then Date.jd(value.jd, Date::GREGORIAN).freeze if date?(value)
        when Condition::DECIMAL then value.dup.freeze if value.finite?
        end
      end

      def date?(value) = value.instance_of?(Date) && value.jd.bit_length < DAY_BITS

      def ordered(value)
        return literal(value) if value.is_a?(String) || (field? && (value.is_a?(Numeric) || rare(value)))

        raise refusal(value, "expected #{"a number, a Time, a Date or " if field?}a String")
      end

      def field? = @subject.nil? || @subject.first == :field

      # A frozen copy in UTF-8.
      def text(value)
        copy = String.new(value.encode(Encoding::UTF_8))
        copy.valid_encoding? ? copy.freeze : raise(refusal(value, "expected valid UTF-8"))
      rescue EncodingError
        raise refusal(value, "expected valid UTF-8")
      end

      def refusal(value, reason) = ConfigError.new("#{@scope}: #{inspect}", value, reason)
    end
  end
end
