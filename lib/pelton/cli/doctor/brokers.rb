# frozen_string_literal: true

require "socket"
require_relative "../../runtime/clock"
require_relative "../../errors"
require_relative "../../routing/group"

module Pelton
  class CLI
    class Doctor
      # Asks the clusters of an app: can each address be reached, does Kafka answer, are the topics there?
      class Brokers
        SERVERS = %w[bootstrap.servers metadata.broker.list].freeze
        PORT = 9092
        # An address that does not answer leaves time for the next.
        CONNECT = 3

        # timeout: seconds for all of it.
        #: (Config, Array[Routing::Group], Module, Numeric) -> void
        def initialize(config, groups, native, timeout)
          @config = config
          @groups = groups
          @native = native
          @deadline = Clock.deadline(timeout)
        end

        # What there is by name of the group, nil is the app itself: {"billing" => { "orders" => 4 }}, without those
        # that did not answer. Waits.
        #: (Report) -> Hash[String?, Hash[String, Integer]]
        def examine(report)
          facts = {}
          found = options.group_by(&:last).each_with_object({}) do |(options, owners), result|
            servers = SERVERS.filter_map { |name| options[name] }.first or next no_servers(report, owners)

            reached = servers.split(",").to_h { |server| [server.strip, reach(server.strip)] }
            topics = ask(report, servers, options, reached)
            facts[servers] = reached.merge("answers" => topics ? "#{topics.size} topics" : "no")
            owners.each { |name, _| result[name] = topics } if topics
          end
          report.tell("brokers", facts)
          found
        end

        private

        # [["billing", options], …] of all groups; without any, of the app.
        def options
          owners = @groups.empty? ? [[nil, {}]] : @groups.map { |group| [group.name, group.kafka] }
          connecting = Routing::Group::CONNECTING
          owners.map { |name, own| [name, @config.kafka_with({}, own).select { |key, _| connecting.match?(key) }] }
        rescue ConfigError
          [] # reported by Timeouts
        end

        def no_servers(report, owners)
          where = owners.first.first
          report.error(where ? "group #{where}" : "config.kafka", "bootstrap.servers is not set")
        end

        # "reached", or why not.
        def reach(server)
          host, port = address(server)
          left = [Clock.left(@deadline), CONNECT].min
          return "not tried: --timeout is over" if left.zero?

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
          return report.error("brokers #{servers}", "no address can be reached") && nil if failures.size == reached.size
          return report.note("brokers #{servers}", TOKENS) && nil if @config.oauth

          topics = @native.metadata(options, nil, Clock.left(@deadline))[:topics]
          topics.select { |_, partitions| partitions.is_a?(Integer) }
        rescue KafkaError, ConfigError, WaitTimeout => e
          report.error("brokers #{servers}", "an address can be reached, but Kafka does not answer (#{e.message}): " \
                                             "check the port, security.protocol and the credentials")
          nil
        end

        TOKENS = "config.oauth is set, so only the connection was tried: Kafka itself was not asked"
        private_constant :TOKENS
      end
    end
  end
end
