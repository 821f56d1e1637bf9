# frozen_string_literal: true

require "json"
require "time"

module Pelton
  class CLI
    # Makes plain JSON values of what decoders and deserializers return: Hashes with Strings as keys, Arrays, Strings of
    # UTF-8, numbers, true, false and nil.
    #   Plain.of({ at: Time.at(0), id: "\xFF".b })
    #   # => {"at" => "1970-01-01T00:00:00.000Z", "id" => {"base64" => "/w=="}}
    module Plain
      # The decimals of a second, where it has more than milliseconds.
      DIGITS = [3, 6, 9].freeze
      # How deep values are shown: one that contains itself has no end, and JsonInput reads 110 levels.
      LEVELS = 100
      TOO_DEEP = "(nested too deeply)"
      private_constant :DIGITS, :LEVELS, :TOO_DEEP

      module_function

      #: (untyped, ?Integer) -> untyped
      def of(value, level = 0)
        return TOO_DEEP if level > LEVELS

        case value
        when nil, true, false, Integer then value
        when String, Symbol then text(value.to_s)
        when Float then value.finite? ? value : value.to_s
        when Hash then value.to_h { |key, nested| [name(key), of(nested, level + 1)] }
        when Array then value.map { |nested| of(nested, level + 1) }
        when Time then time(value)
        else other(value, level)
        end
      end

      # The JSON text of a value, on one line.
      #: (untyped) -> String
      def json(value)
        JSON.generate(value, max_nesting: 0)
      rescue JSON::GeneratorError, EncodingError
        JSON.generate(of(value), max_nesting: 0)
      end

      # The bytes that a plain value stands for: those of a String, otherwise its JSON text; nil of nil.
      #: (untyped) -> String?
      def bytes(value)
        return if value.nil?

        value.is_a?(String) ? value.b : json(value).b
      end

      # The bytes as text; nil if they are not UTF-8.
      #: (String) -> String?
      def utf8(bytes)
        text = bytes.encoding == Encoding::UTF_8 ? bytes : bytes.dup.force_encoding(Encoding::UTF_8)
        text if text.valid_encoding?
      end

      # ISO 8601 in UTC, with as many decimals as it needs, at least three.
      #: (Time) -> String
      def time(value)
        value.utc.iso8601(DIGITS.find { |digits| (value.nsec % (10**(9 - digits))).zero? })
      end

      def text(bytes) = utf8(bytes) || { "base64" => [bytes].pack("m0") }

      # A key of a Hash.
      def name(key) = key.is_a?(String) || key.is_a?(Symbol) ? utf8(key.to_s) || key.to_s.inspect : key.inspect

      # A BigDecimal, a Date, a Set, a Struct, or any other object, also one whose methods raise.
      def other(value, level)
        return value.to_s("F") if defined?(::BigDecimal) && value.is_a?(::BigDecimal)
        return value.iso8601 if defined?(::Date) && value.is_a?(::Date)

        return of(value.to_a, level) if defined?(::Set) && value.is_a?(::Set)

        # Enumerable#to_h expects pairs.
        fields = value.is_a?(Struct) || (value.respond_to?(:to_h) && !value.is_a?(Enumerable))
        fields ? of(value.to_h, level + 1) : text(value.to_s)
      rescue StandardError
        "#<#{value.class}>"
      end
      private_class_method :text, :name, :other
    end
  end
end
