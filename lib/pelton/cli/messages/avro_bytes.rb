# frozen_string_literal: true

require "json"
require_relative "../../avro"
require_relative "../../errors"
require_relative "avro_values"

module Pelton
  class CLI
    # The payloads or keys of lines, written with the latest schema of a subject, as the topic's decoder reads them.
    #   AvroBytes.new(decoder, "orders-value").of({ "id" => 7 })
    #   AvroBytes.new(decoder, "orders-key").of_text("7") # the text "7" or the number 7, as the schema says
    class AvroBytes
      #: (Avro::Decoder, String) -> void
      def initialize(decoder, subject)
        @decoder = decoder
        @subject = subject
        @serializer = decoder.serializer(subject: subject)
      end

      # value: of JSON, with AvroValues::Number for numbers with a fraction. Raises EncodeError and RegistryError.
      #: (untyped) -> String
      def of(value) = @serializer.serialize(values.of(value))

      # A text that does not fit the schema is read as JSON.
      #: (String) -> String
      def of_text(text)
        of(text)
      rescue EncodeError => e
        json = json(text)
        json ? of(json.first) : raise(e)
      end

      private

      def json(text)
        [JSON.parse(text, decimal_class: AvroValues::Number)]
      rescue JSON::JSONError
        nil
      end

      # The subject may have another schema after a while.
      def values
        schema = @decoder.asks? ? @decoder.registry.latest(@subject) : @decoder.value_schema
        @values = AvroValues.new(@schema = schema) unless schema.equal?(@schema)
        @values
      end
    end
  end
end
