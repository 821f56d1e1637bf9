# frozen_string_literal: true

require_relative "../errors"
require_relative "condition"
require_relative "matching"

module Pelton
  class Routing
    # What `where(…)` gives inside of `topic … do`: something of a message, about which one of these words says what it
    # has to be. A field that is not there is taken for nil, values are not converted: 1 equals 1.0 and not "1"; only
    # numbers compare with numbers and texts with texts.
    #   where("type").in("order.created", "order.paid")
    #   where("customer", "address", 0, "country").eq("PL").or(where.key.starts_with("pl-"))
    class Where
      POSITION_BITS = 63
      LITERALS = "a String (UTF-8), an Integer of 64 bits, a finite Float, true, false or nil"

      # A condition in the list of its topic. Several of a topic must all hold; `&`, `|` and `!` make one of two (or of
      # one), which takes their place. (Ruby's own `||` would not see the second.)
      class Clause
        # Of conditions in each other. A chain of one word is one level; each level costs the asking threads some stack.
        LEVELS = 100
        private_constant :LEVELS

        # A frozen tree (see Condition).
        #: () -> Array[untyped]
        attr_reader :tree

        #: (Array[untyped], Array[untyped], ?Integer) -> void
        def initialize(list, tree, levels = 1)
          raise ConfigError.new("where", levels, "more than #{LEVELS} levels of conditions") if levels > LEVELS

          @list = list
          @tree = tree.freeze
          @levels = levels
          list << self
          freeze
        end

        #: (Clause) -> Clause
        def &(other) = combine(:all, other)
        #: (Clause) -> Clause
        def |(other) = combine(:any, other)
        #: () -> Clause
        def ! = combine(:not)

        # As Arel says it; a line that ends with `|` would have `ruby -w` warn of a value that nobody uses.
        alias and &
        alias or |
        alias not !

        def inspect = "#<#{self.class} #{@tree.inspect}>"

        private

        def combine(kind, *others)
          others.each do |other|
            next if Clause === other # rubocop:disable Style/CaseEquality -- `!` is ours

            raise ConfigError.new("where", other, "expected a condition on both sides of & and |, as where(…).eq(1)")
          end
          parts = [self, *others]
          parts.each { |part| @list.delete_if { |one| one.equal?(part) } }
          levels = 1 + parts.map { |part| part.levels(kind) }.max
          Clause.new(@list, [kind, *parts.flat_map { |part| part.parts(kind) }], levels)
        end

        protected

        # One list for a chain of the same word, however long.
        def parts(kind) = chain?(kind) ? @tree.drop(1) : [@tree]
        def levels(kind) = chain?(kind) ? @levels - 1 : @levels
        def chain?(kind) = kind != :not && @tree.first == kind
      end

      # place: for errors, "topic orders". list: its conditions. path: field names and positions, from the outermost in.
      #: (String, Array[untyped], Array[String | Integer]) -> void
      def initialize(place, list, path)
        @place = place
        path.each do |step|
          next if step.is_a?(String) || (step.is_a?(Integer) && step.bit_length < POSITION_BITS)

          raise refusal(step, "expected names (String) and positions (Integer of #{POSITION_BITS} bits) of fields")
        end
        @list = list
        # [:field, step, …], [:key], [:header, name], or nil: not said yet.
        @subject = [:field, *path.map { |step| step.is_a?(String) ? text(step) : step }].freeze unless path.empty?
        # Until something is said of it.
        list << self
      end

      # Of the message's key.
      #: () -> self
      def key = subject(:key)

      # Of a header; where it has several values, one of them is enough.
      #: (String) -> self
      def header(name)
        raise refusal(name, "expected a header's name, a String") unless name.is_a?(String)

        subject(:header, text(name))
      end

      #: (untyped) -> Clause
      def eq(value) = clause(:in, [literal(value)].freeze)
      #: (untyped) -> Clause
      def not_eq(value) = !eq(value)

      # One of these.
      #: (*untyped) -> Clause
      def in(*values)
        values = values.flatten(1)
        raise refusal(nil, "in needs a value at least") if values.empty?

        clause(:in, values.map { |value| literal(value) }.freeze)
      end

      #: (*untyped) -> Clause
      def not_in(*values) = !self.in(*values)

      #: (Numeric | String) -> Clause
      %i[gt gteq lt lteq].each { |check| define_method(check) { |value| clause(check, ordered(value)) } }

      # It is a text in which the regular expression is found. Plain ones are answered natively: letters, sets, groups,
      # alternatives, repetitions, anchors; look-around, back-references and properties need Ruby, and time.
      #: (Regexp) -> Clause
      def matches(pattern)
        expected = "expected a Regexp for UTF-8"
        raise refusal(pattern, expected) unless pattern.is_a?(Regexp)
        raise refusal(pattern, expected) if pattern.options.anybits?(Regexp::NOENCODING) ||
                                            ![Encoding::UTF_8, Encoding::US_ASCII].include?(pattern.encoding)

        clause(:matches, Matching.bounded(pattern, inspect))
      end

      #: (String) -> Clause
      def starts_with(prefix)
        raise refusal(prefix, "expected a String") unless prefix.is_a?(String)

        clause(:starts_with, text(prefix))
      end

      # It is there, be it null.
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
        raise refusal(nil, "a field, the key or a header: one of them") if @subject

        @subject = subject.freeze
        self
      end

      def clause(check, value)
        raise refusal(nil, "of what? where(\"field\"), where.key or where.header(\"name\")") unless @subject

        @list.delete_if { |one| one.equal?(self) }
        Clause.new(@list, [:is, @subject, check, value])
      end

      def literal(value)
        case value
        when String then return text(value)
        when nil then return nil
        when Integer then return value if field? && value.bit_length < 64
        when Float then return value if field? && value.finite?
        when true, false then return value if field?
        end
        raise refusal(value, "expected #{field? ? LITERALS : "a String (UTF-8) or nil"}")
      end

      def ordered(value)
        return literal(value) if value.is_a?(String) || (field? && value.is_a?(Numeric))

        raise refusal(value, "expected #{"a number or " if field?}a String")
      end

      def field? = @subject.nil? || @subject.first == :field

      # Its UTF-8.
      def text(value)
        copy = String.new(value.encode(Encoding::UTF_8))
        copy.valid_encoding? ? copy.freeze : raise(refusal(value, "expected valid UTF-8"))
      rescue EncodingError
        raise refusal(value, "expected valid UTF-8")
      end

      def refusal(value, reason) = ConfigError.new("#{@place}: #{inspect}", value, reason)
    end
  end
end
