# frozen_string_literal: true

require_relative "../admin"
require_relative "../embedded_cluster"
require_relative "../errors"
require_relative "../runtime/native"
require_relative "../topics/cluster_state"

module Pelton
  # Creates topics that Kafka does not have when a server starts (Config#create_topics?): those that are declared, as
  # they are declared, and those that the routes name, with the broker's defaults. Retry topics and dead letters get as
  # many partitions as their main topic. It changes no existing topic.
  # (librdkafka's allow.auto.create.topics creates none for a client that only subscribes.)
  class MissingTopics
    # Seconds for one answer of Kafka.
    TIMEOUT = 5
    EXISTS = :TOPIC_ALREADY_EXISTS
    # Without an answer to one request, the next one would only wait as long again.
    NO_ANSWER = %i[_TIMED_OUT _TRANSPORT _ALL_BROKERS_DOWN].freeze
    private_constant :TIMEOUT, :EXISTS, :NO_ANSWER

    # topics: the app's. groups: those of the server. routed: the server runs only some groups or topics, so it creates
    # only the topics of these. only: the names of those that it may create; nil means all.
    #: (Topics, Array[Routing::Group], bus: Notifications, ?routed: boolish, ?only: Array[String]?) -> void
    def initialize(topics, groups, bus:, routed: nil, only: nil)
      @topics = topics
      @groups = groups
      @routed = routed
      @only = only
      @bus = bus
      # Names of wanted topics that exist.
      @existing = []
    end

    # Waits for Kafka. Returns the names of those topics that exist then. Failures are published as error.occurred, and
    # the server still joins its groups. Raises ConfigError if declarations contradict each other.
    #: () -> Array[String]
    def create
      @topics.clusters(@groups).each { |cluster| fill(cluster) }
      @existing
    end

    private

    def fill(cluster)
      admin = @topics.admin(cluster.kafka)
      wanted = names(cluster)
      return if wanted.empty?

      existing = admin.topic_names(timeout: TIMEOUT)
      @existing |= wanted & existing
      missing = (wanted - existing).map { |name| cluster.declaration(name) }
      mains = describe(missing.flat_map(&:main_topics) & existing, cluster, admin)
      missing.each { |declaration| make(declaration.name, declaration.creation(mains), cluster, admin) || break }
    rescue KafkaError => e
      report(e)
    ensure
      admin&.close(timeout: TIMEOUT)
    end

    def names(cluster)
      names = cluster.routed | (@routed ? [] : cluster.topics.each_value.reject(&:deleted?).map(&:name))
      @only ? names & @only : names
    end

    # {"orders" => Topics::ClusterState::Topic}
    def describe(names, cluster, admin)
      return {} if names.empty?
      unless EmbeddedCluster.at(cluster.servers)
        return Topics::ClusterState.read(admin, names, configs: [], timeout: TIMEOUT).topics
      end

      # An embedded cluster does not answer the admin client.
      counts = Native.metadata({ "bootstrap.servers" => cluster.servers }, nil, TIMEOUT)[:topics]
      counts.slice(*names).to_h { |name, count| [name, Topics::ClusterState::Topic.new(name: name, partitions: count)] }
    end

    # wanted: see Topics::Declaration#creation. Returns false if the cluster does not answer.
    def make(name, wanted, cluster, admin)
      embedded = EmbeddedCluster.at(cluster.servers)
      if embedded
        embedded.create_topic(name, wanted[:partitions] || 1)
      else
        admin.create_topic(name, partitions: wanted[:partitions], config: wanted[:config],
                                 replication_factor: wanted[:replication], timeout: TIMEOUT)
      end
      @existing << name
      true
    rescue KafkaError => e
      e.name == EXISTS ? @existing << name : report(e, topic: name)
      !NO_ANSWER.include?(e.name)
    end

    def report(error, **more) = @bus.publish("error.occurred", error: error, source: "create_topics", **more)
  end
end
