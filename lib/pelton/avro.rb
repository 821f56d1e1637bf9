# frozen_string_literal: true

module Pelton
  # Named before its parts are loaded: otherwise its autoload would load this file again.
  module Avro
  end
end

require_relative "errors"
require_relative "registry"
require_relative "avro/decoder"
require_relative "avro/serializer"

module Pelton
  # Avro: Decoder reads payloads (for `decode :avro`), Serializer writes them.
  module Avro
    autoload :FieldTypes, File.expand_path("avro/field_types", __dir__)

    # What stands before a document. :confluent: byte 0 and the schema's number (when reading, a header may name the
    # schema instead). :single_object: bytes C3 01 and the schema's fingerprint. :none: nothing.
    FRAMINGS = %i[confluent single_object none].freeze
    # The header in which Confluent's clients name a schema: byte 0 and its number (4 bytes), or byte 1 and its GUID (16
    # bytes). Their own serializers write the GUID. Readers look here first, then at the payload. Like SchemaId in
    # confluent-kafka-dotnet, and HeaderSchemaIdSerializer and DualSchemaIdDeserializer in Java.
    HEADER = "__value_schema_id"
    # The same for keys.
    KEY_HEADER = "__key_schema_id"

    # For the native side: the BigDecimal of "-1207e-2". From Ruby 3.4 on, bigdecimal is a gem, which only users of
    # decimals need. Raises ConfigError if it is missing.
    #: (String) -> BigDecimal
    def self.decimal(text)
      require "bigdecimal" unless defined?(::BigDecimal)
      BigDecimal(text)
    rescue LoadError
      reason = "a schema has decimals, so add the gem bigdecimal to the Gemfile"
      raise ConfigError.new("decode :avro", nil, reason)
    end
  end
end
