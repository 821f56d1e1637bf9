# frozen_string_literal: true

require_relative "../errors"
require_relative "../settings/settings"
require_relative "declaration"

module Pelton
  class Topics
    # The words in the block of Pelton.topics. Each raises ConfigError for a value that is not allowed, and so does an
    # unknown word.
    class Words
      WORDS = %i[topic defaults retry_topics dead_letters deleted].freeze

      #: (Topics) -> void
      def initialize(topics)
        @topics = topics
        @defaults = {}
      end

      # Declares a topic. partitions, replication: numbers; without them, a new topic gets the broker's default, and an
      # existing one keeps what it has. config: Kafka's topic configs by their own names. A value is as Kafka has it,
      # and so an Integer for a time is in ms. A duration of ActiveSupport (7.days) is that duration. nil as a value is
      # the broker's default. kafka: librdkafka's options of another cluster. Without it, the topic belongs to the
      # cluster of its route, else to that of config.kafka.
      #   topic "orders", partitions: 12, replication: 3, config: { "retention.ms" => 7.days }
      #   topic "audit", partitions: 1, kafka: { "bootstrap.servers" => "audit:9092" }
      #: (String, ?partitions: Integer?, ?replication: Integer?, ?config: Hash[String | Symbol, untyped],
      #:  ?kafka: Hash[String | Symbol, untyped]) -> void
      def topic(name, kafka: nil, **options)
        name = checked(name)
        add(name, kafka, **Declaration.options(options, "topic #{name}", over: @defaults))
      end

      # Sets options for the topics after it in this block.
      #   defaults replication: 3, config: { "min.insync.replicas" => 2 }
      #: (?partitions: Integer?, ?replication: Integer?, ?config: Hash[String | Symbol, untyped]) -> void
      def defaults(**options)
        @defaults = Declaration.options(options, "defaults")
      end

      # Sets options for the retry topics of all routes. Without it, a new retry topic has the partitions and the
      # replication of its main topic, and keeps messages for 7 days more than its delay.
      #   retry_topics partitions: 3
      #: (?partitions: Integer?, ?replication: Integer?, ?config: Hash[String | Symbol, untyped]) -> void
      def retry_topics(**options) = @topics.derive(:retry_topics, Declaration.options(options, "retry_topics"))

      # Sets options for the dead-letter topics of all routes. Without it, a new one has the partitions and the
      # replication of its main topic, and keeps messages for 30 days.
      #   dead_letters partitions: 1, config: { "retention.ms" => 90.days }
      #: (?partitions: Integer?, ?replication: Integer?, ?config: Hash[String | Symbol, untyped]) -> void
      def dead_letters(**options) = @topics.derive(:dead_letters, Declaration.options(options, "dead_letters"))

      # Declares that these topics do not exist any more. `pelton topics apply --allow-delete` deletes them, with all
      # their messages. kafka: as for `topic`.
      #   deleted "orders.old"
      #: (*String, ?kafka: Hash[String | Symbol, untyped]) -> void
      def deleted(*names, kafka: nil)
        raise ConfigError.new("deleted", nil, "needs the name of a topic: deleted \"orders.old\"") if names.empty?

        names.each { |name| add(checked(name), kafka, deleted: true) }
      end

      private

      def add(name, kafka, **options)
        kafka &&= cluster(name, kafka)
        @topics.add(Declaration.new(name, location: Declaration.caller_location, kafka: kafka, **options))
      end

      def cluster(name, kafka)
        options = Settings::KafkaOptions.of(kafka) if kafka.respond_to?(:to_hash)
        return options if options&.key?("bootstrap.servers")

        raise ConfigError.new("topic #{name}: kafka", options || kafka.class,
                              "expected librdkafka's options of another cluster, with bootstrap.servers")
      end

      def checked(name)
        allowed, test, convert = Settings::TYPES.fetch(:name)
        test.call(name) ? convert.call(name) : raise(ConfigError.new("topic", name, "expected #{allowed}"))
      end

      def respond_to_missing?(_name, _private = false) = false
      def method_missing(name, *) = raise(ConfigError.unknown(name, WORDS, what: "word in topics"))
    end
  end
end
