# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/clock"
require_relative "comparison"

module Pelton
  class Topics
    # What a cluster has of some topics: partitions, replication and configs.
    class ClusterState
      # A topic of the cluster. replication: an Integer, or a Range if partitions differ. config:
      # {"retention.ms" => Admin::Option}; nil if it was not asked for.
      Topic = Struct.new(:name, :partitions, :replication, :config, keyword_init: true)

      # names: all topics of the cluster. topics: {"orders" => Topic} of those that were asked for and exist.
      attr_reader :names, :topics

      # Reads the state of these topics. configs: names of those whose configs are needed, too. Waits for Kafka up to
      # `timeout` seconds, in all. Raises KafkaError.
      #: (Admin, Array[String], ?configs: Array[String], timeout: Numeric) -> ClusterState
      def self.read(admin, wanted, timeout:, configs: wanted)
        deadline = Clock.deadline(timeout)
        names = admin.topic_names(timeout: timeout)
        found = names & wanted
        described = found.empty? ? {} : admin.topics(*found, timeout: Clock.left(deadline))
        options = (found & configs).to_h { |name| [name, admin.config(topic: name, timeout: Clock.left(deadline))] }
        known = options.values.first || (known_configs(admin, names, deadline) unless configs.empty?)
        new(names, described.to_h { |name, topic| [name, topic(topic, options[name])] }, known&.keys)
      end

      # The configs of any topic; nil if there is none, or none that may be read.
      def self.known_configs(admin, names, deadline)
        admin.config(topic: names.first, timeout: Clock.left(deadline)) unless names.empty?
      rescue KafkaError
        nil
      end

      #: (Admin::TopicDescription, Hash[String, Admin::Option]?) -> Topic
      def self.topic(described, config)
        smallest, largest = described.partitions.map { |partition| partition.replicas.size }.minmax
        Topic.new(name: described.name, partitions: described.partitions.size, config: config,
                  replication: smallest == largest ? smallest : smallest..largest).freeze
      end
      private_class_method :topic, :known_configs

      # config_names: the topic configs that the brokers know; nil if that is not known.
      #: (Array[String], Hash[String, Topic], ?Array[String]?) -> void
      def initialize(names, topics, config_names = nil)
        @names = names
        @topics = topics
        @config_names = config_names
      end

      # The differences to these declarations. cluster: its servers.
      #: (Array[Declaration], cluster: String, ?allow_delete: bool) -> Array[Change]
      def compare(declarations, cluster:, allow_delete: false)
        declarations.flat_map do |declaration|
          Comparison.new(declaration, @topics, cluster: cluster, config_names: @config_names,
                                               allow_delete: allow_delete).changes
        end
      end
    end
  end
end
