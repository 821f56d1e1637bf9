# frozen_string_literal: true

require "socket"
require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "../../routing/group"

module Pelton
  class CLI
    class Doctor
      # Asks the clusters of an app: can each address be reached, does Kafka answer, do the topics exist?
      class Brokers
        SERVERS = %w[bootstrap.servers metadata.broker.list].freeze
        PORT = 9092
        # Seconds for one address, so that one that does not answer leaves time for the next.
        CONNECT = 3

        # timeout: seconds for all of it.
        #: (Config, Array[Routing::Group], Module, Numeric) -> void
        def initialize(config, groups, native, timeout)
          @config = config
          @groups = groups
          @native = native
          @deadline = Clock.deadline(timeout)
        end

        # The partition counts of each group's topics: {"billing" => { "orders" => 4 }}. The key nil is the app itself.
        # Leaves out clusters that did not answer. Waits for brokers.
        #: (Report) -> Hash[String?, Hash[String, Integer]]
        def examine(report)
          facts = {}
          found = options.group_by(&:last).each_with_object({}) do |(options, owners), result|
            servers = SERVERS.filter_map { |name| options[name] }.first or next no_servers(report, owners)

            reached = servers.split(",").to_h { |server| [server.strip, reach(server.strip)] }
            topics = ask(report, servers, options, reached)
            facts[servers] = reached.merge("topics" => topics ? topics.size : "no answer")
            owners.each { |name, _| result[name] = topics } if topics
          end
          report.add("brokers", facts)
          found
        end

        private

        # [["billing", options], …] for all groups, or [[nil, options]] of the app if there are no groups.
        def options
          owners = @groups.empty? ? [[nil, {}]] : @groups.map { |group| [group.name, group.kafka] }
          connecting = Routing::Group::CONNECTING
          owners.map { |name, own| [name, @config.kafka_with({}, own).select { |key, _| connecting.match?(key) }] }
        rescue ConfigError
          [] # reported by Timeouts
        end

        def no_servers(report, owners)
          where = owners.first.first
          report.error(where ? "group #{where}" : "config.kafka", "bootstrap.servers is not set, so no broker is known")
        end

        # "reached", or the reason for the failure.
        def reach(server)
          host, port = address(server)
          left = [Clock.left(@deadline), CONNECT].min
          return "not tried: the time of --timeout was over" if left.zero?

          Socket.tcp(host, port, resolv_timeout: left, connect_timeout: left).close
          "reached"
        rescue SystemCallError, SocketError, ArgumentError, IOError => e
          e.message
        end

        # "SSL://[::1]:9093" → ["::1", 9093]
        def address(server)
          host, port = server.sub(%r{\A\w+://}, "").match(/\A\[?(.*?)\]?(?::(\d+))?\z/).captures
          [host, Integer(port || PORT)]
        end

        # {"orders" => 4 partitions, …}; nil without an answer.
        def ask(report, servers, options, reached)
          failures = reached.reject { |_, answer| answer == "reached" }
          failures.each { |server, answer| report.warning("broker #{server}", answer) }
          return report.error("brokers #{servers}", UNREACHABLE) && nil if failures.size == reached.size
          return report.note("brokers #{servers}", TOKENS) && nil if @config.oauth

          topics = @native.metadata(options, nil, Clock.left(@deadline))[:topics]
          topics.select { |_, partitions| partitions.is_a?(Integer) }
        rescue KafkaError, ConfigError, WaitTimeout => e
          report.error("brokers #{servers}", "the connection works, but Kafka does not answer (#{e.message}): " \
                                             "check the port, security.protocol and the credentials")
          nil
        end

        TOKENS = "config.oauth is set, so only the connection was checked, not the answer of Kafka"
        UNREACHABLE = "cannot reach any address: check bootstrap.servers, the network and that the brokers run"
        private_constant :TOKENS, :UNREACHABLE
      end
    end
  end
end
