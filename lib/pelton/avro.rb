# frozen_string_literal: true

require_relative "errors"
require_relative "registry"
require_relative "avro/decoder"
require_relative "avro/serializer"

module Pelton
  # Avro: what `decode :avro` makes of payloads (Decoder), and payloads for topics (Serializer).
  module Avro
    # What comes before a document: :confluent (0 and a registry's number of the schema; read also where a header tells
    # it), :single_object (C3 01 and the schema's fingerprint), :none.
    FRAMINGS = %i[confluent single_object none].freeze
    # Where Confluent's clients tell a schema that is not told by the payload: 0 and its number (4 bytes), or 1 and its
    # GUID (16 bytes, as it is read), which is what their own serializers write. Readers look here first, then at the
    # payload. As in confluent-kafka-dotnet's SchemaId and in HeaderSchemaIdSerializer, DualSchemaIdDeserializer.
    HEADER = "__value_schema_id"
    # The same for keys.
    KEY_HEADER = "__key_schema_id"

    # For the native side: the BigDecimal of "-1207e-2". From Ruby 3.4 on that is a gem, which only those need who have
    # decimals.
    #: (String) -> BigDecimal
    def self.decimal(text)
      require "bigdecimal" unless defined?(::BigDecimal)
      BigDecimal(text)
    rescue LoadError
      raise ConfigError.new("decode :avro", nil, "a schema has decimals: add the gem bigdecimal to the Gemfile")
    end
  end
end
