# frozen_string_literal: true

require "json"
require "time"
require_relative "../../errors"
require_relative "plain"

module Pelton
  class CLI
    # Reads a line as JsonLine writes it. Fields with exact bytes win: payload_base64, payload_hex, payload_text, and
    # the same for the key. Raises ConfigError, which names the field.
    #   JsonInput.new('{"key":"7","payload":{"total":12.5}}').message # => { payload: '{"total":12.5}', key: "7" }
    class JsonInput
      # Endings of the names of fields with exact bytes, and what makes the bytes.
      EXACT = { "base64" => ->(text) { text.unpack1("m0") },
                "hex" => ->(text) { text.match?(/\A(\h\h)*\z/) ? [text].pack("H*") : raise(ArgumentError) },
                "text" => ->(text) { text.b } }.freeze
      # topic, offset and errors only say what was read.
      FIELDS = [*%w[topic offset key_error payload_error partition timestamp headers headers_base64],
                *%w[key payload].flat_map { |part| [part, *EXACT.keys.map { |ending| "#{part}_#{ending}" }] }].freeze
      OBJECT = 'expected a JSON object, such as {"key":"7","payload":{"total":12.5}}'
      HEADERS = "expected an object of Strings, nulls or Arrays of those"
      TIME = "expected ISO 8601, such as 2026-11-23T08:00:00.123Z, milliseconds since 1970, or null"
      # A payload of 100 levels, the most that JSON.parse reads by default, is one level deeper here.
      LEVELS = 110
      private_constant :EXACT, :FIELDS, :LEVELS, :OBJECT, :HEADERS, :TIME

      # decimal_class: of numbers that are no Integer; nil: Float.
      #: (String, ?decimal_class: Class?) -> void
      def initialize(line, decimal_class: nil)
        text = Plain.utf8(line) or raise ConfigError.new("the line", nil, "is not valid UTF-8")
        @fields = JSON.parse(text, max_nesting: LEVELS, decimal_class: decimal_class)
        raise ConfigError.new("the line", nil, OBJECT) unless @fields.is_a?(Hash)

        unknown = @fields.keys.find { |name| !FIELDS.include?(name) }
        raise ConfigError.unknown(unknown, FIELDS, what: "field of the line") if unknown
      rescue JSON::JSONError
        raise ConfigError.new("the line", nil, "is not valid JSON: #{OBJECT}")
      end

      # The keywords of Producer#produce_async, without the topic.
      #: () -> Hash[Symbol, untyped]
      def message
        more = { key: bytes("key"), partition: partition, timestamp: timestamp, headers: headers }.compact
        { payload: bytes("payload"), **more }
      end

      # The decoded payload.
      #: () -> untyped
      def value = @fields.fetch("payload") { raise ConfigError.new("payload", nil, "is missing") }

      # The decoded key; nil: there is none, or it is given as bytes.
      #: () -> untyped
      def key = EXACT.keys.any? { |ending| @fields.key?("key_#{ending}") } ? nil : @fields["key"]

      private

      def bytes(part)
        exact = EXACT.keys.find { |ending| @fields.key?("#{part}_#{ending}") }
        return decoded("#{part}_#{exact}", exact, @fields["#{part}_#{exact}"]) if exact
        return plain(part) if part == "key" || @fields.key?(part)

        raise ConfigError.new(part, nil, "is missing: use null for a tombstone")
      end

      # A number beyond Float, or half a character, has no JSON text.
      def plain(part)
        value = @fields[part]
        value.nil? || value.is_a?(String) ? value&.b : JSON.generate(value, max_nesting: 0).b
      rescue JSON::GeneratorError, EncodingError
        raise ConfigError.new(part, nil, "has a number or text that JSON cannot express: use #{part}_text")
      end

      def decoded(field, kind, text)
        raise ConfigError.new(field, nil, "expected a String") unless text.is_a?(String)

        EXACT.fetch(kind).call(text)
      rescue ArgumentError
        raise ConfigError.new(field, nil, "is not valid #{kind}")
      end

      def partition
        value = @fields["partition"]
        return value if value.nil? || (value.is_a?(Integer) && value >= 0)

        raise ConfigError.new("partition", value, "expected an Integer >= 0, or null")
      end

      def timestamp
        value = @fields["timestamp"]
        value.is_a?(String) ? Time.iso8601(value) : value
      rescue ArgumentError
        raise ConfigError.new("timestamp", value, TIME)
      end

      def headers
        encoded = map_headers("headers_base64") { |text| decoded("headers_base64", "base64", text) }
        map_headers("headers", &:b).merge(encoded)
      end

      def map_headers(field, &convert)
        given = @fields[field]
        raise ConfigError.new(field, nil, HEADERS) unless given.nil? || given.is_a?(Hash)

        given.to_h.transform_values do |value|
          value.is_a?(Array) ? value.map { |nested| header(field, nested, &convert) } : header(field, value, &convert)
        end
      end

      def header(field, value)
        return yield value if value.is_a?(String)

        value.nil? ? nil : raise(ConfigError.new(field, nil, HEADERS))
      end
    end
  end
end
