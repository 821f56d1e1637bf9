# frozen_string_literal: true

require_relative "../errors"
require_relative "json"

module Pelton
  # Decodes keys in a format of `decode`, such as `key_deserializer :avro, registry: …`. Keys are small and few are
  # read, so native threads do not decode them. Callable from every thread. The first key with an Avro schema waits for
  # the registry.
  class KeyFormat
    # :json, :msgpack, :avro, :utf8 or :bytes
    #: () -> Symbol
    attr_reader :name
    # The format as `decode` takes it, frozen: {format: :avro, decoder: …}
    #: () -> (Symbol | Hash[Symbol, untyped])
    attr_reader :format

    #: (Symbol | Hash[Symbol, untyped]) -> void
    def initialize(format)
      @format = format
      @name, @options = format.is_a?(Hash) ? [format[:format], format.except(:format).freeze] : [format, nil]
      freeze
    end

    # The value of the key of a message that has a key. Raises DecodeError.
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

    # Valid UTF-8 keys already have this encoding.
    def text(key)
      key.encoding == Encoding::UTF_8 ? key : raise(DecodeError.new(nil, nil, nil, "it is not valid UTF-8", :key))
    end
  end
end
