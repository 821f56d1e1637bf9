# frozen_string_literal: true

require_relative "../errors"
require_relative "matching"

module Pelton
  class Routing
    # Conditions of `where`, as frozen trees of plain values, and Ruby's evaluation of them. The native side
    # (ext/core/src/filter.rs) evaluates the same trees, before a message becomes a Ruby object. Ruby decides the rest:
    # a payload that only JSON.parse reads, a pattern that only Regexp supports.
    #   [:all, tree, …]  [:any, tree, …]  [:not, tree]  [:is, subject, check, value]
    #   subject  [:field, step, …]  [:key]  [:header, name]  [:payload] (its bytes)
    #   check    :exists (nil), :in (a list), :gt :gteq :lt :lteq, :starts_with, :contains, :matches
    module Condition
      # A field that does not exist, as opposed to one that is null. Checks treat it as nil; only `exists` tells the two
      # apart.
      MISSING = Object.new.freeze
      # Whether it is a Date or a BigDecimal, without loading either library.
      DATE = ->(value) { defined?(::Date) && value.is_a?(::Date) }
      DECIMAL = ->(value) { defined?(::BigDecimal) && value.is_a?(::BigDecimal) }
      private_constant :MISSING

      module_function

      # true: consume gets the message, unless the condition is certainly false. So it gets a message whose payload
      # cannot be decoded, and reading that raises its DecodeError. It also gets one whose text takes a pattern too
      # long; the block gets that PatternTimeout.
      #: (Array[untyped], Message) ?{ (PatternTimeout) -> void } -> bool
      def admits?(tree, message, &late) = answer(tree, message, &late) != false

      #: (Array[untyped]) -> bool
      def fields?(tree)
        kind, *parts = tree
        kind == :is ? parts.first.first == :field : parts.any? { |part| fields?(part) }
      end

      # What it asks of fields: [[["customer", "id"], :in, [7]], …]
      #: (Array[untyped]) -> Array[[Array[String | Integer], Symbol, untyped]]
      def of_fields(tree)
        kind, *parts = tree
        return parts.flat_map { |part| of_fields(part) } unless kind == :is

        (subject, *path), check, value = parts
        subject == :field ? [[path, check, value]] : []
      end

      # true, false, or nil for undecided: the payload cannot be decoded, or a pattern takes too long.
      #: (Array[untyped], Message) ?{ (PatternTimeout) -> void } -> bool?
      def answer(tree, message, &late)
        kind, *parts = tree
        case kind
        when :all then decided(parts, false, message, &late)
        when :any then decided(parts, true, message, &late)
        when :not then (found = answer(parts.first, message, &late)).nil? ? nil : !found
        else given(parts.first, message).any? { |value| holds?(*parts.drop(1), value) }
        end
      rescue SchemaUnavailable => e
        # The next attempt may know: what is undecided now would reach a consumer that does not want it.
        e.missing? ? nil : raise
      rescue DecodeError
        nil
      rescue PatternTimeout => e
        yield e.of(message) if late
        nil
      end

      # `ending` as soon as one part says so, and none of them may be undecided for the other. Fields are asked last:
      # they may want a schema from its registry.
      def decided(parts, ending, message, &late)
        undecided = false
        parts.partition { |part| !fields?(part) }.each do |some|
          some.each do |part|
            found = answer(part, message, &late)
            return ending if found == ending

            undecided ||= found.nil?
          end
        end
        undecided ? nil : !ending
      end

      # What the subject is in this message: one value, or those of a header that has several.
      def given(subject, message)
        kind, *path = subject
        case kind
        when :field then [path.inject(message.decoded) { |value, step| step_into(value, step) }]
        when :key then [message.raw_key.nil? ? MISSING : message.raw_key]
        when :payload then [message.raw_payload.nil? ? MISSING : message.raw_payload]
        else message.raw_headers.key?(path.first) ? many(message.raw_headers[path.first]) : [MISSING]
        end
      end

      def many(values) = values.is_a?(Array) ? values : [values]

      def step_into(value, step)
        case value
        when Hash then step.is_a?(String) ? value.fetch(step) { value.fetch(step.to_sym, MISSING) } : MISSING
        when Array then step.is_a?(Integer) ? value.fetch(step, MISSING) : MISSING
        else MISSING
        end
      end

      def holds?(check, wanted, value)
        return !value.equal?(MISSING) if check == :exists

        value = nil if value.equal?(MISSING)
        case check
        when :in then one_of?(wanted, value)
        when :starts_with then value.is_a?(String) && value.b.start_with?(wanted.b)
        when :contains then value.is_a?(String) && value.b.include?(wanted.b)
        when :matches then value.is_a?(String) && text?(value) && Matching.match?(wanted, value)
        else comparable?(value, wanted) && ordered?(check, value <=> wanted)
        end
      end

      # A Date compares itself with numbers, as its astronomical Julian day, and raises for NaN.
      def one_of?(wanted, value)
        date = DATE.call(value)
        wanted.any? { |allowed| DATE.call(allowed) == date && allowed == value }
      end

      def text?(value) = value.valid_encoding? && [Encoding::UTF_8, Encoding::US_ASCII].include?(value.encoding)

      def comparable?(value, wanted)
        case wanted
        when String then value.is_a?(String)
        when Time then value.is_a?(Time)
        when DATE then DATE.call(value)
        else value.is_a?(Numeric)
        end
      end

      def ordered?(check, order)
        case check
        when :gt then order == 1
        when :gteq then [0, 1].include?(order)
        when :lt then order == -1
        else [-1, 0].include?(order)
        end
      end
      private_class_method :decided, :given, :many, :step_into, :holds?, :one_of?, :text?, :comparable?, :ordered?
    end
  end
end
