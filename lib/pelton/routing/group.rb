# frozen_string_literal: true

require_relative "../errors"
require_relative "topic"

module Pelton
  class Routing
    # The topics of one consumer group. A group has one subscription and one listener. Frozen; any thread may use it.
    class Group
      # Options that name the cluster and the credentials.
      CONNECTING = /\A(bootstrap|metadata\.broker|broker\.address|client\.dns|security|(enable\.)?(ssl|sasl))/

      # topics: {"orders" => Topic}; patterns under their source.
      attr_reader :name, :topics

      #: (String, Array[Topic], ?Hash[String, untyped]) -> void
      def initialize(name, topics, kafka = {})
        @name = name
        @topics = topics.to_h { |topic| [topic.name, topic] }.freeze
        @patterns = topics.select(&:pattern).freeze
        @kafka = { **kafka, **reset(kafka) }.freeze
        # {"logs.web" => Topic}: topics that a pattern has matched so far; guarded by @lock.
        @named = {}
        @lock = Mutex.new
        check_patterns
        check_partitions
        freeze
      end

      # The route of a topic: the one with its name, otherwise the first declared pattern that matches. Always the same
      # object for a name, because workers are shared out by it. From any thread. Raises ConfigError if there is none.
      #: (String) -> Topic
      def topic(name)
        route = @topics[name] unless @topics[name]&.pattern
        route ||= @patterns.find { |pattern| pattern.match?(name) }
        raise ConfigError.new("topic", name, "has no route in group #{@name}") unless route

        route.pattern ? @lock.synchronize { @named[name] ||= route.named(name) } : route
      end

      # Names and patterns, in the form that librdkafka expects.
      #: () -> Array[String]
      def subscription = @topics.each_value.map(&:to_s)

      # [["orders", 0, :committed], …] if its topics name their partitions; nil: Kafka assigns them.
      #: () -> Array[[String, Integer, Symbol]]?
      def assignment
        return if @topics.each_value.none?(&:partitions)

        @topics.each_value.flat_map { |topic| topic.partitions.map { |number| [topic.name, number, :committed] } }
      end

      # Raises ConfigError for partitions that do not exist; librdkafka would wait for them without a message.
      #: (String, Integer) -> void
      def check_partition_count(topic, count)
        missing = topic(topic).partitions.select { |partition| partition >= count }
        return if missing.empty?

        raise ConfigError.new("topic #{topic}: partitions", missing, "does not exist, there are 0 to #{count - 1}")
      end

      # librdkafka's options for its subscription.
      #: () -> Hash[String, untyped]
      def kafka = @topics.each_value.any?(&:reached_end?) ? { "enable.partition.eof" => true, **@kafka } : @kafka

      # The part of them that names the cluster and the credentials.
      #: () -> Hash[String, untyped]
      def connection = @kafka.select { |name, _| CONNECTING.match?(name.to_s) }

      # All topics that it names: those that it reads, and those for failed messages.
      #: () -> Array[String]
      def names
        routes = @topics.each_value.to_a
        [*(routes - @patterns).map(&:name), *routes.flat_map(&:dead_letter_topics)].uniq
      end

      # The largest `max_messages` of its topics. Coordinators cut batches for the others.
      #: () -> Integer
      def max_messages = @topics.each_value.map(&:max_messages).max

      # How payloads are decoded as they arrive: {"orders" => :json, "*" => :json}; "*" is for topics of patterns.
      #: () -> Hash[String, Symbol?]
      def decode = native(:decode)

      # Deserializers, in the same form: {"orders" => Decoder.new}
      #: () -> Hash[String, ^(Message) -> untyped]
      def deserializers = native(:deserializer)

      # Deserializers of keys and headers, in the same form.
      #: () -> Hash[String, ^(Message) -> untyped]
      def key_deserializers = native(:key_deserializer)
      #: () -> Hash[String, ^(Message) -> untyped]
      def headers_deserializers = native(:headers_deserializer)

      # Where deserializers run, in the same form: {"orders" => :ractor}
      #: () -> Hash[String, Symbol]
      def parallel = native(:parallel)

      # Conditions of `where`, in the same form: {"orders" => tree}
      #: () -> Hash[String, Array[untyped]?]
      def where = native(:where)

      def inspect = "#<#{self.class} #{@name}: #{@topics.keys.join(", ")}>"

      private

      # A client either gets its partitions assigned or names them, for all topics.
      def check_partitions
        without = @topics.each_value.reject(&:partitions)
        return if without.empty? || without.size == @topics.size

        raise ConfigError.new("group #{@name}: partitions", without.first.name,
                              "has none, but another topic of the group has: name them for all topics, or use a " \
                              "second group")
      end

      # librdkafka has one auto.offset.reset for all topics of a client.
      def reset(kafka)
        wanted = @topics.transform_values(&:from).compact
        return {} if wanted.empty?

        scope = "group #{@name}: from"
        if wanted.size < @topics.size || wanted.values.uniq.size > 1
          raise ConfigError.new(scope, wanted, "must be the same for all topics of a group: use a second group")
        end
        raise ConfigError.new(scope, wanted.values[0], "is also set by auto.offset.reset") if kafka.key?(RESET)

        { RESET => RESETS.fetch(wanted.values[0]) }
      end

      RESET = "auto.offset.reset"
      RESETS = { beginning: "earliest", end: "latest", error: "error" }.freeze
      private_constant :RESET, :RESETS

      # A setting of all topics for the native side, which knows names and "*" for all others.
      def native(setting)
        return @topics.transform_values(&setting).compact if @patterns.empty?

        named = (@topics.values - @patterns).to_h { |topic| [topic.name, topic.public_send(setting)] }
        { **named, "*" => @patterns.first.public_send(setting) }
      end

      def check_patterns
        %i[decode deserializer key_deserializer headers_deserializer parallel where].each do |setting|
          values = @patterns.to_h { |pattern| [pattern.name, pattern.public_send(setting)] }
          next if values.values.uniq.size < 2

          raise ConfigError.new("group #{@name}: #{setting}", values,
                                "must be the same for all patterns of a group: use a second group")
        end
      end
    end
  end
end
