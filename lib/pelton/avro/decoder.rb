# frozen_string_literal: true

require "date"
require_relative "../errors"
require_relative "../registry"

module Pelton
  module Avro
    # Reads the Avro payloads of a topic, each with the schema that it was written with. `decode :avro` in routes
    # creates one. You can also use it to decode payloads from elsewhere:
    #   decoder = Pelton::Avro::Decoder.new(registry: registry, schema: File.read("order.avsc"))
    #   decoder.decode(payload) # => {"id" => 7, …}
    # Payloads are decoded natively. A server looks up unknown schemas when a batch arrives (SchemaPrefetcher). A thread
    # that reads such a message earlier waits for that. Thread-safe.
    class Decoder
      FLAGS = %i[symbolize_names freeze].freeze
      MISSING_SCHEMA = "is missing: without a registry, give the schema of all payloads"
      MISSING_REGISTRY = "is missing: with this framing, each message names its schema, which a registry provides"
      NEEDLESS_WRITER = "works only with framing :none; with others, each message names its schema"
      private_constant :FLAGS, :MISSING_SCHEMA, :MISSING_REGISTRY, :NEEDLESS_WRITER

      # For the native side.
      #: () -> untyped
      attr_reader :native

      # For Pelton: nil without one.
      #: () -> untyped
      attr_reader :registry

      # registry: a Registry or its URL. schema: the shape that readers want (JSON or Registry::Schema); nil: as
      # written. framing: :confluent (default with a registry), :single_object or :none (default without). writer: with
      # :none, the schema of the payloads, if it is not `schema`. symbolize_names: Symbols as keys. freeze: frozen
      # values. Raises ConfigError.
      #   Pelton::Avro::Decoder.new(schema: File.read("order.avsc")) # without a registry
      #: (?registry: untyped, ?schema: untyped, ?writer: untyped, ?framing: Symbol?, ?symbolize_names: bool,
      #:  ?freeze: bool) -> void
      def initialize(registry: nil, schema: nil, writer: nil, framing: nil, **flags)
        unknown = flags.keys - FLAGS
        unless unknown.empty?
          known = %i[registry schema writer framing] + FLAGS
          raise ConfigError.unknown(unknown.first, known, what: "option of decode :avro")
        end

        @registry = registry.is_a?(String) ? Registry.new(registry) : registry
        @framing = framing || (@registry ? :confluent : :none)
        @reader = Registry::Schema.of(schema) if schema
        @flags = FLAGS.map { |flag| flags.fetch(flag, false) }
        check(writer)
        @native = Native::AvroTopic.new(@framing, @reader&.native)
        # The schema of all payloads; nil: each message names its own.
        @writer = Registry::Schema.of(writer || schema) if @framing == :none
        @native.learn(nil, @writer.native) if @writer
        freeze
      end

      # The value of a payload. header: the message's `__value_schema_id`, if it has one.
      #   decoder.decode(message.raw_payload) # => {"id" => 7}
      # Raises DecodeError, and SchemaUnavailable if the registry cannot provide the schema. May wait for the registry.
      # Callable from every thread.
      #: (String, ?String?) -> untyped
      def decode(payload, header = nil)
        2.times do
          unknown = @native.unknown(payload, header) or break
          look_up(unknown)
        end
        @native.decode(payload, header, @flags)
      rescue EncodingError => e
        # A name that should become a Symbol is not UTF-8.
        raise DecodeError.new(nil, nil, nil, "a name in it is not valid UTF-8", excerpt: e.message), cause: nil
      end

      # For tests: writes as a producer of the topic would, with the subject's latest schema. Readers have their own.
      # subject: :topic, or :topic_key for keys.
      #: (?subject: Symbol) -> Serializer
      def serializer(subject: :topic)
        require_relative "serializer"
        Serializer.new(registry: @registry, schema: @writer, framing: @framing, subject: subject)
      end

      # The value of a message's payload: so a decoder can be a topic's `deserializer`. Raises as `decode` does.
      #   Pelton.each("orders", deserializer: decoder) { |message| puts message.payload["id"] }
      #: (Message) -> untyped
      def call(message) = decode(message.raw_payload, message.raw_headers[HEADER])

      # For Pelton: the same decoder without the reader schema, for payloads that it refuses; nil: there is none.
      #: () -> Decoder?
      def as_written
        Decoder.new(registry: @registry, schema: @writer, framing: @framing, **flags) if @reader
      end

      # For Pelton: the flags that were set, as options of a format: {freeze: true}.
      #: () -> Hash[Symbol, bool]
      def flags = FLAGS.zip(@flags).to_h.select { |_, set| set }

      # For the native side: loads the schema with this id (an Integer, [fingerprint] or a GUID), which a message names.
      #: ((Integer | [Integer] | String), ?String?, ?Integer?, ?Integer?) -> void
      def look_up(id, topic = nil, partition = nil, offset = nil)
        @native.learn(id, schema(id).native)
      rescue RegistryError => e
        raise SchemaUnavailable.new(topic, partition, offset, e.message)
      end

      # For Pelton: the schema of the values that it returns; nil: each has the schema that it was written with.
      #: () -> Registry::Schema?
      def value_schema = @reader || @writer

      # For Pelton: is there a registry to ask?
      #: () -> bool
      def asks? = !@registry.nil? && @framing != :none

      def inspect = "#<#{self.class} #{[@framing, @reader&.name, @registry&.inspect].compact.join(" ")}>"

      private

      def schema(id)
        case id
        when Integer then @registry.schema(id)
        when String then @registry.guid(id)
        else @registry.fingerprint(id.last)
        end
      end

      def check(writer)
        refuse(:framing, @framing, "expected one of #{FRAMINGS.join(", ")}") unless FRAMINGS.include?(@framing)
        if @framing == :none
          refuse(:schema, nil, MISSING_SCHEMA) unless @reader || writer
        elsif writer then refuse(:writer, writer, NEEDLESS_WRITER)
        elsif !@registry then refuse(:registry, nil, MISSING_REGISTRY)
        end
        # Does not show the value, because URLs may have passwords.
        refuse(:registry, @registry.class, "expected a Pelton::Registry or its URL") unless registry?
        return if @flags.all? { |flag| [true, false].include?(flag) }

        refuse(:symbolize_names, @flags, "expected true or false, for `freeze`, too")
      end

      def registry? = @registry.nil? || %i[schema guid fingerprint].all? { |method| @registry.respond_to?(method) }

      def refuse(option, value, reason) = raise(ConfigError.new("decode :avro, #{option}", value, reason))
    end
  end
end
