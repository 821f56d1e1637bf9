# frozen_string_literal: true

require_relative "../errors"
require_relative "cluster"
require_relative "derived"

module Pelton
  class Topics
    # Sorts the declarations of an app by their clusters: those of `topic` and `deleted`, those of `creates` in routes,
    # and those of retry topics and dead letters. A topic belongs to the cluster of its route.
    class Clusters
      SERVERS = %w[bootstrap.servers metadata.broker.list].freeze
      UNSET = "is not set: set it in config.kafka, or use --bootstrap"
      private_constant :SERVERS, :UNSET

      # derived: {retry_topics: {partitions: 3}}, see Topics#derive.
      #: (Config, Array[Routing::Group], Array[Declaration], Hash[Symbol, Hash[Symbol, untyped]]) -> void
      def initialize(config, groups, declared, derived)
        @config = config
        @groups = groups
        @declared = declared
        @derived = derived
        # {"a:9092,b:9092" => Cluster}
        @clusters = {}
      end

      # Raises ConfigError.
      #: () -> Array[Cluster]
      def to_a
        @groups.each { |group| at(group.connection).read(group) }
        own_topics
        @declared.each { |declaration| home(declaration).add(declaration) }
        @groups.group_by { |group| at(group.connection) }.each do |cluster, groups|
          found = groups.flat_map { |group| Derived.new(group, cluster, @derived).to_a }
          found.group_by(&:name).each_value { |same| cluster.fill(same.inject(:merge)) }
        end
        @clusters.each_value(&:check)
        @clusters.values
      end

      private

      # Those that Pelton itself writes to.
      def own_topics
        at({}).add_schedule(@config.schedule_topic) if @config.schedule_topic
        %i[report_topic command_topic].each do |setting|
          name = @config.public_send(setting)
          at({}).add_reports(name, location: "config.#{setting}") if name
        end
      end

      # The cluster with these options. Groups that differ only in their credentials share one.
      def at(kafka)
        options = { **@config.kafka, **kafka }
        servers = SERVERS.filter_map { |name| options[name] }.first
        raise ConfigError.new("bootstrap.servers", nil, UNSET) unless servers

        @clusters[servers.split(",").map(&:strip).sort.join(",")] ||= Cluster.new(servers, kafka)
      end

      def home(declaration)
        return at(declaration.kafka) if declaration.kafka

        found = @clusters.each_value.select { |cluster| cluster.routed.include?(declaration.name) }
        return found.first || at({}) if found.size < 2

        raise ConfigError.new("topic #{declaration.name}", nil,
                              "is routed on #{found.size} clusters (#{found.map(&:servers).join("; ")}), so " \
                              "#{declaration.location} must name one with kafka: { \"bootstrap.servers\" => … }")
      end
    end
    private_constant :Clusters
  end
end
