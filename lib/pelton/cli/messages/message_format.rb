# frozen_string_literal: true

require_relative "../../decoding/formats"
require_relative "../../errors"
require_relative "message_part"

module Pelton
  class CLI
    # How a command decodes the messages of a topic: as the user says, as the app's route says, or as JSON where that is
    # possible.
    #   format = MessageFormat.new("json")
    #   app.each("orders", **format.options) { |message| puts format.payload(message).line }
    class MessageFormat
      NAMES = %w[json avro msgpack string hex raw].freeze
      # Formats for which nothing is decoded ahead.
      TEXTS = %w[string hex raw].freeze
      NO_REGISTRY = "needs --registry URL, or -r with a file whose route has decode :avro"
      NO_FIELDS = "the route's payloads have no fields: add --format json, or use where.key and where.header"
      private_constant :TEXTS, :NO_REGISTRY, :NO_FIELDS

      # name: one of NAMES; nil: the route's format. registry: a URL. route: see `route_of`. fields: the fields of
      # payloads are filtered. Raises ConfigError.
      #: (String?, ?registry: String?, ?route: Routing::Topic?, ?fields: bool) -> void
      def initialize(name, registry: nil, route: nil, fields: false)
        @name = name || ("avro" if registry)
        @route = route
        @registry = registry
        @fields = fields
        raise ConfigError.new("--registry", nil, "works only with --format avro") if registry && @name != "avro"
      end

      # The route of a topic in the app, also of its retry topics and dead letters; nil without one.
      #: (App, String) -> Routing::Topic?
      def self.route_of(app, topic)
        return if app.routes.empty?

        routes = app.routes.groups(app.config).flat_map { |group| group.topics.values }
        routes.find { |route| route.match?(topic) } ||
          routes.find { |route| route.dead_letter_topics.include?(topic) || route.retry_topic?(topic) }
      end

      # The Avro decoder of a topic's route, by `route_of`; nil without one.
      #: (App, String) -> Avro::Decoder?
      def self.decoder_of(app, topic)
        given = route_of(app, topic)&.decode
        given[:decoder] if given.is_a?(Hash) && Formats.name(given) == :avro
      end

      # The Avro decoder of the keys of a topic's route, by `route_of`; nil without one.
      #: (App, String) -> Avro::Decoder?
      def self.key_decoder_of(app, topic)
        given = route_of(app, topic)&.key_deserializer
        made = Formats.key_maker(given) if given
        made.format[:decoder] if made.is_a?(KeyFormat) && made.name == :avro
      end

      # Options of Pelton.each.
      #: () -> Hash[Symbol, untyped]
      def options
        keys = { key_deserializer: @route.key_deserializer } if keys?
        return { decode: decode, **keys.to_h } if @name || !routed?

        { decode: routed_decode, deserializer: @route.deserializer, **keys.to_h }
      end

      # Are keys decoded, as the route says? A format that shows a payload's bytes shows those of the key, too.
      #: () -> bool
      def keys? = !TEXTS.include?(@name) && !@route&.key_deserializer.nil?

      #: (Message) -> MessagePart
      def payload(message)
        raw = message.raw_payload
        case @name
        when "raw" then MessagePart.new(raw)
        when "hex" then MessagePart.new(raw, value: raw&.unpack1("H*"))
        when "string" then MessagePart.new(raw, error: ("is not UTF-8" if raw && !Plain.utf8(raw)))
        else raw ? MessagePart.new(raw, value: message.payload) : MessagePart.new(nil)
        end
      rescue DecodeError => e
        part = as_written(message) unless e.is_a?(SchemaUnavailable)
        MessagePart.new(raw, error: (e.message if @name || routed?), **part.to_h)
      end

      #: (Message) -> MessagePart
      def key(message)
        raw = message.raw_key
        keys? && raw ? MessagePart.new(raw, value: message.key) : MessagePart.new(raw)
      rescue DecodeError => e
        MessagePart.new(raw, error: e.message)
      end

      private

      # A payload that the route's reader schema refuses, with the schema of its writer: {value: {"id" => 7}}
      def as_written(message)
        decoder = routed_decoder or return
        @as_written ||= decoder.as_written
        { value: @as_written.call(message) } if @as_written
      rescue DecodeError
        nil
      end

      def routed_decoder
        given = @route&.decode unless @registry || ![nil, "avro"].include?(@name)
        given[:decoder] if given.is_a?(Hash) && Formats.name(given) == :avro
      end

      def routed? = @route && (@route.decode || @route.deserializer)

      # Conditions on fields need decoded payloads.
      def routed_decode
        given = @route.decode
        return given unless @fields
        raise ConfigError.new("--where", nil, NO_FIELDS) if Formats::STRINGS.include?(Formats.name(given))

        given || :json
      end

      def decode
        case @name
        when "avro" then @registry ? { format: :avro, registry: @registry } : routed_avro
        when "msgpack" then :msgpack
        when *TEXTS then @fields ? :json : :bytes
        else :json
        end
      end

      def routed_avro
        given = @route&.decode
        Formats.name(given) == :avro ? given : raise(ConfigError.new("--format", "avro", NO_REGISTRY))
      end
    end
  end
end
