# frozen_string_literal: true

require_relative "../avro"
require_relative "../errors"
require_relative "json"

module Pelton
  # Makes keys in the way that a format, as `decode` takes it, makes payloads: `key_deserializer :avro, registry: …`.
  # Keys are small and few are read, so native threads have no part in it. Any thread; the first key of an Avro schema
  # waits for the registry.
  class KeyFormat
    # :json, :msgpack, :avro, :utf8 or :bytes
    #: () -> Symbol
    attr_reader :name

    #: (Symbol | Hash[Symbol, untyped]) -> void
    def initialize(format)
      @format = format
      @name, @options = format.is_a?(Hash) ? [format[:format], format.except(:format).freeze] : [format, nil]
      freeze
    end

    # The value of a message's key, which has one. Raises DecodeError.
    #: (Message) -> untyped
    def call(message)
      key = message.raw_key
      case @name
      when :json then Json.parse(key, nil, nil, nil, @options)
      when :avro then @format[:decoder].decode(key, message.raw_headers[Avro::KEY_HEADER])
      when :msgpack then Native.decode(@format, key)
      when :utf8 then text(key)
      else key.b
      end
    end

    def inspect = "#<#{self.class} #{@name}>"

    private

    # Keys are UTF-8 where they can be.
    def text(key)
      key.encoding == Encoding::UTF_8 ? key : raise(DecodeError.new(nil, nil, nil, "it is not valid UTF-8", :key))
    end
  end
end
