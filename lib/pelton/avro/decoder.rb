# frozen_string_literal: true

require "date"
require_relative "../errors"
require_relative "../registry"

module Pelton
  module Avro
    # The Avro of a topic: schemas that its messages were written with, read as one. Made by `decode :avro` in routes;
    # by itself it decodes payloads from elsewhere:
    #   decoder = Pelton::Avro::Decoder.new(registry: registry, schema: File.read("order.avsc"))
    #   decoder.decode(payload) # => {"id" => 7, …}
    # Payloads are decoded natively. A server has schemas looked up that a batch names and nobody knows, when it arrives
    # (LookUps); who reads such a message sooner (`payload`, `dig`) waits for that. What comes after it is decoded
    # ahead. Thread-safe.
    class Decoder
      FLAGS = %i[symbolize_names freeze].freeze
      private_constant :FLAGS

      # For the native side.
      #: () -> untyped
      attr_reader :native

      # registry: a Registry or its URL. schema: what readers want (JSON, or a Registry::Schema); nil: what was written.
      # framing: :confluent (with a registry), :single_object or :none (without). writer: with :none, what was written,
      # if that is not `schema`. Raises ConfigError.
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
        @native.learn(nil, Registry::Schema.of(writer || schema).native) if @framing == :none
        freeze
      end

      # The value of a payload. header: what the message's `__value_schema_id` says, if it has one. Raises DecodeError;
      # SchemaUnavailable for want of its schema.
      #: (String, ?String?) -> untyped
      def decode(payload, header = nil)
        2.times do
          unknown = @native.unknown(payload, header) or break
          look_up(unknown)
        end
        @native.decode(payload, header, @flags)
      rescue EncodingError => e
        # Of a name that is to be a Symbol and is no UTF-8.
        raise DecodeError.new(nil, nil, nil, "a name in it is no UTF-8", excerpt: e.message), cause: nil
      end

      # For the native side: learns the schema with this id, an Integer, [fingerprint] or a GUID, which a message names.
      #: ((Integer | [Integer] | String), ?String?, ?Integer?, ?Integer?) -> void
      def look_up(id, topic = nil, partition = nil, offset = nil)
        @native.learn(id, schema(id).native)
      rescue RegistryError => e
        raise SchemaUnavailable.new(topic, partition, offset, e.message)
      end

      # Is there a registry to look schemas up in?
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
          refuse(:schema, nil, "is missing: without a registry all payloads have one schema") unless @reader || writer
        elsif writer then refuse(:writer, writer, "is for framing :none: otherwise each message names its schema")
        elsif !@registry then refuse(:registry, nil, "is missing: who knows the schemas that messages name?")
        end
        # Not the value: URLs have passwords.
        refuse(:registry, @registry.class, "expected a Pelton::Registry or its URL") unless registry?
        return if @flags.all? { |flag| [true, false].include?(flag) }

        refuse(:symbolize_names, @flags, "expected true or false, as `freeze`")
      end

      def registry? = @registry.nil? || %i[schema guid fingerprint].all? { |method| @registry.respond_to?(method) }

      def refuse(option, value, reason) = raise(ConfigError.new("decode :avro, #{option}", value, reason))
    end
  end
end
