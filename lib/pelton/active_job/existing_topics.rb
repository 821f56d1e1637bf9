# frozen_string_literal: true

require_relative "../errors"
require_relative "../server/missing_topics"

module Pelton
  module ActiveJob
    # The topics that `perform_later` needs, asked for once per topic and process. Without that, a job for a topic that
    # does not exist would wait for 30 s, because librdkafka looks that long for a new one. Thread-safe: threads that
    # ask at the same time do no harm.
    class ExistingTopics
      # What Kafka, or librdkafka, says about a topic that does not exist.
      MISSING = %i[UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC].freeze
      private_constant :MISSING

      def initialize
        # {"jobs.default" => true}. Replaced as a whole.
        @known = {}.freeze
      end

      # Where the app creates topics (Config#create_topics?), creates the topic if a route names it. Raises ConfigError
      # for a topic that does not exist then. Does nothing if Kafka does not answer, or says something else: the
      # producer will tell. Tests with pelton/testing have no missing topics.
      #: (String) -> void
      def check(topic)
        return if @known.key?(topic) || defined?(::Pelton::Testing)

        raise ConfigError.new("topic #{topic}", nil, reason(topic)) if !created?(topic) && missing?(topic)

        @known = { **@known, topic => true }.freeze
      rescue KafkaError, WaitTimeout
        nil
      end

      private

      # Before the producer is asked, which remembers for some seconds that a topic is missing.
      def created?(topic)
        return false unless Pelton.config.create_topics? && cluster(topic)

        groups = Pelton.routes.empty? ? [] : Pelton.routes.groups(Pelton.config)
        MissingTopics.new(Pelton.topics, groups, only: [topic], bus: Pelton.app.notifications).create.include?(topic)
      end

      # A broker with auto.create.topics.enable creates the topic when it is asked.
      def missing?(topic)
        Pelton.producer.partition_count(topic)
        false
      rescue DeliveryError => e
        MISSING.include?(e.name) || raise
      end

      # That of its route, or of config.schedule_topic.
      def cluster(topic) = Pelton.topics.clusters.find { |cluster| cluster.routed.include?(topic) }

      def reason(topic)
        cluster = cluster(topic)
        return "does not exist, and no route names it: add its queue to `active_jobs`" unless cluster
        return "does not exist, and could not be created: the log says why" if Pelton.config.create_topics?

        declare = "add `creates partitions: 12` to its route, and " unless cluster.topics.key?(topic)
        "does not exist: #{declare}run `pelton topics apply`"
      end
    end
  end
end
