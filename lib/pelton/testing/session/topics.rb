# frozen_string_literal: true

require "json"
require_relative "../../decoding/formats"

module Pelton
  module Testing
    # The topics of a test, as an app's routes know them: produces to them, and reads their messages with the formats of
    # the routes.
    class Topics
      # format: as the native side takes it; decode: as the route says; key_format: of keys, or nil; broker: where the
      # topic is.
      Known = Struct.new(:format, :decode, :key_format, :broker)
      private_constant :Known

      #: (Session, App) -> void
      def initialize(session, app)
        @session = session
        @app = app
        # {"orders" => Known}
        @known = {}
      end

      # Appends a message of the test itself. Returns it, as a consumer gets it.
      #: (String, untyped, Hash[Symbol, untyped], ?String?) -> Message
      def produce(topic, payload, facts, group = nil)
        known = known(topic, group)
        message = serialized({ topic: topic, payload: payload, **facts }, known)
        Native::Producer.check(message.except(:offset))
        partition = facts[:partition] || chosen(message, known.broker.partition_count(topic))
        check(partition, facts[:offset], known.broker.create(topic, partition.to_i + 1)[partition])
        message_of(known.broker.append(message, partition, helper: true), known)
      end

      # Messages that clients produced, of one topic or of all.
      #: (?String?) -> Array[Message]
      def produced(topic = nil)
        entries = @session.brokers.flat_map { |broker| broker.produced(topic) }.sort_by(&:position)
        entries.map { |entry| message_of(entry, known(entry.topic)) }
      end

      # The broker of a topic: that of the groups that read it.
      #: (String, ?String?) -> Memory::Kafka
      def broker(topic, group = nil) = known(topic, group).broker

      # Names of topics that the routes name.
      #: () -> Array[String]
      def names = groups.flat_map { |group| group.names + group.topics.keys }.uniq

      # Does the app declare it, or do its routes name it? Then it exists for readers before its first message.
      #: (String) -> bool
      def exist?(topic) = @app.topics.declare?(topic) || names.include?(topic)

      # A test of code that only produces needs no routes.
      #: () -> Array[Routing::Group]
      def groups = @app.routes.empty? ? [] : @session.consumers(@app).groups

      private

      def known(topic, group = nil)
        @known[[topic, group]] ||= begin
          owner = groups.find { |candidate| (group.nil? || candidate.name == group) && reads?(candidate, topic) }
          owner ||= groups.find { |candidate| letters(candidate, topic) }
          of_group(topic, owner)
        end
      end

      def reads?(group, topic) = group.topics.each_value.any? { |route| route.match?(topic) }

      # The route whose dead letters they are.
      def letters(group, topic) = group.topics.each_value.find { |route| route.dead_letter_topics.include?(topic) }

      def of_group(topic, group)
        return Known.new(nil, nil, nil, @session.broker(address({}))) unless group

        formats = Formats.with(group.decode, group.deserializers, group.key_deserializers,
                               group.headers_deserializers)
        route = reads?(group, topic) ? group.topic(topic) : letters(group, topic)
        key = route.pattern || !formats.key?(route.name) ? "*" : route.name
        Known.new(formats[key], route.decode, key_format(route), @session.broker(address(group.kafka)))
      end

      # An object of the user's own says nothing about how a key is written.
      def key_format(route)
        made = route.key_deserializer && Formats.key_maker(route.key_deserializer)
        made.format if made.is_a?(KeyFormat)
      end

      def address(own) = { **@app.config.kafka, **own }["bootstrap.servers"]

      def message_of(entry, known)
        batches = Native::GivenPartition.new(entry.topic, entry.partition, known.format, nil)
        batches.batch([entry.row], (Clock.wall * 1000).floor).messages.first
      end

      # Kafka never appends before the end of a log.
      def check(partition, offset, log)
        raise InvalidMessageError.new(:partition, partition, "an Integer >= 0") if partition.negative?
        return if offset.nil? || (offset.is_a?(Integer) && offset >= log.end_offset)

        raise InvalidMessageError.new(:offset, offset, "an Integer >= #{log.end_offset}, the partition's next offset")
      end

      # Without a key, the first partition, so that a test knows it.
      def chosen(message, count)
        message[:key] ? Native::Producer.partition("murmur2_random", message[:key], count) || 0 : 0
      end

      # A payload or key that is no String is written in the format that the route reads. By default, payloads are JSON.
      def serialized(message, known)
        part(part(message, :payload, known.decode || :json, :topic), :key, known.key_format, :topic_key)
      end

      def part(message, name, format, subject)
        value = message[name]
        return message if value.nil? || value.is_a?(String)

        case Formats.name(format)
        when :json then { **message, name => JSON.generate(value) }
        when :avro then format.fetch(:decoder).serializer(subject: subject).call(message)
        when :msgpack then { **message, name => msgpack(name, value) }
        else raise InvalidMessageError.new(name, value, "a String, because the route does not decode it")
        end
      end

      def msgpack(name, value)
        return value.to_msgpack if value.respond_to?(:to_msgpack)

        raise InvalidMessageError.new(name, value, "a String, or an object with to_msgpack (gem msgpack)")
      end
    end
  end
end
