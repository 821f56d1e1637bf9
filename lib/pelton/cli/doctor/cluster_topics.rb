# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../topics"
require_relative "../../topics/cluster_state"
require_relative "cluster_admin"

module Pelton
  class CLI
    class Doctor
      # Looks at the topics of each cluster: are they as declared, and what happens to them when a broker is down?
      class ClusterTopics
        MIN_INSYNC = "min.insync.replicas"
        private_constant :MIN_INSYNC

        # groups: those of the report. clusters: {"billing" => { "orders" => 4 }} of the groups whose cluster answered;
        # the key nil is the app itself. some: only some groups or topics are of interest.
        #: (App, Array[Routing::Group], Hash[String?, Hash[String, Integer]], Numeric, some: bool) -> void
        def initialize(app, groups, clusters, timeout, some:)
          @topics = app.topics
          @groups = groups.select { |group| clusters.key?(group.name) }
          @timeout = timeout
          @some = some
        end

        # Waits for Kafka.
        #: (Report) -> void
        def examine(report)
          @topics.clusters(@groups).each { |cluster| look(cluster, report) }
        rescue ConfigError => e
          report.error("topics", e.message)
        end

        private

        def look(cluster, report)
          names = @some ? cluster.routed : cluster.routed | cluster.topics.keys
          return if names.empty?

          ClusterAdmin.open(@topics, cluster.kafka, @timeout) do |admin|
            state = Pelton::Topics::ClusterState.read(admin, names, timeout: @timeout)
            check_replication(state, admin.cluster(timeout: @timeout).brokers.size, report)
            compare(cluster, names, state, report)
          end
        rescue KafkaError => e
          report.note("cluster #{cluster.servers}", "its topics could not be examined: #{e.message}")
        end

        def check_replication(state, brokers, report)
          state.topics.each_value do |topic|
            replicas = topic.replication.is_a?(Range) ? topic.replication.begin : topic.replication
            needed = topic.config[MIN_INSYNC]&.value.to_i
            about = "topic #{topic.name}"
            if replicas < needed
              report.error(about, "has replication #{replicas}, but #{MIN_INSYNC} is #{needed}: Kafka refuses " \
                                  "messages with acks=all. Lower #{MIN_INSYNC}, or add replicas")
            elsif replicas == 1
              report.warning(about, ONE_REPLICA) if brokers > 1
            elsif replicas == needed
              report.warning(about, "has replication #{replicas}, and #{MIN_INSYNC} is #{needed}, too: when one " \
                                    "broker is down, Kafka refuses messages with acks=all. Use one replica more")
            end
          end
        end

        ONE_REPLICA = "has replication 1: while its broker is down, nothing can be read or produced, and the loss of " \
                      "its disk loses the messages"
        private_constant :ONE_REPLICA

        # A missing routed topic is reported by Topics.
        def compare(cluster, names, state, report)
          changes = state.compare(cluster.topics.values_at(*names).compact, cluster: cluster.servers)
          changes.reject! { |change| change.action == :create && routed?(change.topic) }
          changes.each { |change| report.warning("topic #{change.topic}", text(change)) }
        end

        def routed?(topic) = @groups.any? { |group| group.names.include?(topic) }

        def text(change)
          case change.action
          when :create then "is declared at #{change.location}, but does not exist: run pelton topics apply"
          when :delete then "is declared as deleted at #{change.location}, but exists: see pelton topics plan"
          else "is not as declared at #{change.location} (#{change}): see pelton topics plan"
          end
        end
      end
    end
  end
end
