# frozen_string_literal: true

require "json"
require_relative "../errors"

module Pelton
  # A key as somebody types it: the bytes of a key, or what a key_deserializer makes of them, as text or as JSON.
  #   KeyText.new("7").match?(message)                # the key "7", or an Avro key with the Integer 7
  #   KeyText.new('{"tenant":"a"}').match?(message)   # the key with this text, or an Avro key with this record
  class KeyText
    NONE = Object.new.freeze
    private_constant :NONE

    #: (String) -> void
    def initialize(text)
      @bytes = text.b.freeze
      @value = parsed(text.dup.force_encoding(Encoding::UTF_8))
    end

    # Raises SchemaUnavailable if the registry does not answer. A key that cannot be decoded is compared as bytes only.
    #: (Message) -> bool
    def match?(message)
      raw = message.raw_key
      !raw.nil? && (raw.b == @bytes || value?(message.key))
    rescue SchemaUnavailable => e
      e.missing? ? false : raise
    rescue DecodeError
      false
    end

    private

    def parsed(text)
      JSON.parse(text)
    rescue JSON::ParserError, EncodingError
      NONE
    end

    def value?(key)
      return key.b == @bytes if key.is_a?(String)

      key == @value || (!@value.equal?(NONE) && JSON.parse(JSON.generate(key)) == @value)
    rescue JSON::JSONError, EncodingError
      false
    end
  end
end
