# frozen_string_literal: true

require_relative "../admin"
require_relative "../background"
require_relative "../errors"
require_relative "../runtime/clock"
require_relative "../subscription"
require_relative "status_log"

module Pelton
  class DeadLetters
    # What a run asks Kafka about topics. It opens a client of its own at its first use. One thread uses it.
    class Topics
      # Kafka's answers about a topic that does not exist, or whose name is not allowed.
      MISSING = [3, 17].freeze
      EXISTS = 36
      # Seconds that a change may take until all of Kafka knows it, and between two looks.
      TIMEOUT = 30
      PAUSE = 0.05
      # Characters of a name.
      LONGEST = 249
      TOO_LONG = "has too long a name: the topic with the status of its letters has .status behind it, and Kafka " \
                 "allows #{LONGEST} characters".freeze
      private_constant :MISSING, :LONGEST, :TOO_LONG, :EXISTS, :TIMEOUT, :PAUSE

      #: (Config, bus: Notifications, native: Module?, kafka: Hash[String, untyped]) -> void
      def initialize(config, bus:, native:, kafka:)
        @config = config
        @clients = { bus: bus, native: native, kafka: kafka }
        @client = nil
        # {"orders" => 4}; nil for a topic that does not exist.
        @counts = {}
      end

      # The number of a topic's partitions; nil: it does not exist.
      #: (String) -> Integer?
      def partitions(topic)
        @counts.fetch(topic) { @counts[topic] = count(topic) }
      end

      # {partition => offset of its oldest message}
      #: (String) -> Hash[Integer, Integer]
      def oldest(topic)
        Array.new(partitions(topic).to_i) { |number| [number, client.watermarks(topic, number).first] }.to_h
      end

      # Creates the topic for the status of these dead letters, unless it exists, with as many replicas as they have.
      #: (String) -> void
      def create_status_topic(dead_letters)
        name = StatusLog.topic(dead_letters)
        return if partitions(name)
        raise ConfigError.new("topic", dead_letters, TOO_LONG) if name.size > LONGEST

        create(name, dead_letters)
        # Brokers learn about a new topic a moment later.
        await("the creation of a topic", name) { @counts[name] = count(name) }
      end

      # Waits until readers see a message: a commit returns before they do.
      #: (String, Integer, Integer) -> void
      def await_visible(topic, partition, offset)
        await("the end of a transaction", topic) { client.watermarks(topic, partition).last > offset }
      end

      #: () -> void
      def close = @client&.close(TIMEOUT)

      private

      def client
        @client ||= Subscription.new(@config, group_id: nil, **@clients)
      end

      def create(name, dead_letters)
        admin = Admin.new(@config, **@clients)
        replicas = admin.topics(dead_letters).fetch(dead_letters).partitions.first.replicas.size
        admin.create_topic(name, partitions: 1, replicas: replicas, config: { "cleanup.policy" => "compact" })
      rescue KafkaError => e
        raise e.about(name) unless e.code == EXISTS
      ensure
        admin&.close
      end

      def count(topic)
        client.partition_count(topic)
      rescue KafkaError => e
        raise unless MISSING.include?(e.code)
      rescue InvalidMessageError
        nil # a name that is no topic's, in a header that Pelton did not write
      end

      def await(what, topic)
        deadline = Clock.deadline(TIMEOUT)
        until yield
          raise WaitTimeout.new(what, topic, TIMEOUT) if Clock.left(deadline).zero?

          Background::Stop.new.wait(PAUSE)
        end
      end
    end
  end
end
