# frozen_string_literal: true

require_relative "../errors"
require_relative "declaration"

module Pelton
  class Topics
    # One cluster of an app, and the declarations of its topics.
    class Cluster
      INTERNAL = %w[__consumer_offsets __transaction_state __share_group_state __cluster_metadata].freeze
      private_constant :INTERNAL

      SCHEDULE = { partitions: 3, config: { "segment.ms" => "3600000", "segment.bytes" => "67108864",
                                            "min.compaction.lag.ms" => "600000" } }.freeze
      # A week. One partition, because a process writes one small message every few seconds.
      REPORTS = { partitions: 1, config: { "cleanup.policy" => "delete", "retention.ms" => "604800000",
                                           "segment.ms" => "86400000" } }.freeze
      private_constant :SCHEDULE, :REPORTS

      # servers: "kafka-1:9092,kafka-2:9092". kafka: options of librdkafka that differ from config.kafka. topics:
      # {"orders" => Declaration}. routed: names of all topics that routes read or send failed messages to.
      attr_reader :servers, :kafka, :topics, :routed

      #: (String, Hash[String, untyped]) -> void
      def initialize(servers, kafka)
        @servers = servers
        @kafka = kafka
        @topics = {}
        @routed = []
      end

      # Adds what the routes of a group say.
      #: (Routing::Group) -> void
      def read(group)
        @routed |= group.names
        group.topics.each_value do |topic|
          add(Declaration.new(topic.name, **topic.creates)) if topic.creates && !topic.stage
        end
      end

      # Adds config.schedule_topic. Its log stays short, because each start of a server reads all of it.
      #: (String) -> void
      def add_schedule(name)
        @routed |= [name]
        add(Declaration.new(name, location: "config.schedule_topic", config: { "cleanup.policy" => "compact" },
                                  initial: SCHEDULE))
      end

      # Adds config.report_topic or config.command_topic.
      #: (String, location: String) -> void
      def add_reports(name, location:)
        @routed |= [name]
        add(Declaration.new(name, location: location, initial: REPORTS))
      end

      # Raises ConfigError if the topic is declared in another way already.
      #: (Declaration) -> void
      def add(declaration)
        before = @topics[declaration.name]
        @topics[declaration.name] = before ? before.merge(declaration) : declaration
      end

      # Adds a declaration that Pelton derived from routes. If the user declared the topic by its name, the derived one
      # only fills what that leaves open, and only for the creation.
      #: (Declaration) -> void
      def fill(derived)
        add(@topics.key?(derived.name) ? derived.suggestion : derived)
      end

      # Raises ConfigError for a topic that is routed and declared as deleted, and for one that Kafka itself makes.
      #: () -> void
      def check
        own = @topics.each_value.find { |declaration| INTERNAL.include?(declaration.name) }
        raise ConfigError.new("topic #{own.name}", nil, "belongs to Kafka, but #{own.location} declares it") if own

        wrong = @topics.each_value.find { |declaration| declaration.deleted? && @routed.include?(declaration.name) }
        return unless wrong

        raise ConfigError.new("topic #{wrong.name}", nil,
                              "is declared as deleted at #{wrong.location}, but routes use it: remove one of them")
      end

      # The declaration of a topic; for a routed topic without one, a declaration that leaves all to the broker.
      #: (String) -> Declaration
      def declaration(name) = @topics[name] || Declaration.new(name, location: "its route")

      def inspect = "#<#{self.class} #{@servers}: #{@topics.keys.join(", ")}>"
    end
  end
end
