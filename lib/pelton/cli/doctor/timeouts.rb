# frozen_string_literal: true

require_relative "../../errors"
require_relative "../../producer"
require_relative "../../settings/settings"
require_relative "../../subscription"

module Pelton
  class CLI
    class Doctor
      # Finds options that librdkafka refuses or that servers should not have, and timeouts that do not fit together.
      class Timeouts
        # librdkafka's defaults, ms.
        SESSION = 45_000
        HEARTBEAT = 3_000
        POLL = 300_000
        SOCKET = 60_000
        # Seconds by which long_call may exceed what a stop or a rebalance waits: a call is long before it is too long.
        SLACK = 10
        SHARED_ID = "of config.kafka makes each message of Pelton.producer a transaction of its own, and a second " \
                    "process fences the first: write `transactional` in the route, or use a Pelton.producer_pool"
        CLASSIC_ONLY = %w[session.timeout.ms heartbeat.interval.ms partition.assignment.strategy].freeze

        #: (Config, Array[Routing::Group], Module) -> void
        def initialize(config, groups, native)
          @config = config
          @groups = groups
          @native = native
        end

        #: (Report) -> void
        def examine(report)
          with_options(report, "producer", Producer::DEFAULTS) { |options| check_producer(report, options) }
          @groups.each do |group|
            own = { **group.kafka, "group.id" => group.name }
            with_options(report, "group #{group.name}", Subscription::ClientFactory.defaults(@config), own) do |options|
              check_group(report, "group #{group.name}", options)
            end
          end
          report.warning("transactional.id", SHARED_ID) if @groups.any? && @config.kafka["transactional.id"]
          check_long_calls(report)
        end

        private

        # Yields the client's options, unless librdkafka refuses them.
        def with_options(report, about, defaults, own = {})
          options = @config.kafka_with(defaults, own)
          @native.check_options(options)
          yield options
        rescue ConfigError => e
          report.error(about, e.message)
        end

        def check_producer(report, options)
          # Two names of one option: librdkafka takes the one that is set last, and the default is set first.
          message = number(options, "delivery.timeout.ms", options["message.timeout.ms"])
          return if message.positive? && @config.delivery_timeout * 1000 >= message

          report.warning("delivery_timeout", "#{@config.delivery_timeout} s is shorter than message.timeout.ms " \
                                             "(#{seconds(message)}): produce_sync may give up while the message is " \
                                             "still in flight. Make it at least as long")
        end

        def check_group(report, about, options)
          if options["group.protocol"]&.casecmp?("consumer") then check_protocol(report, about, options)
          else check_membership(report, about, options)
          end
          poll = number(options, "max.poll.interval.ms", POLL)
          if @config.revocation_timeout * 1000 >= poll
            report.warning(about, "revocation_timeout (#{@config.revocation_timeout} s) is not shorter than " \
                                  "max.poll.interval.ms (#{seconds(poll)}): Kafka may give the partitions to another " \
                                  "member while a job still runs. For long jobs, raise max.poll.interval.ms; " \
                                  "otherwise make it shorter")
          end
          check_fetching(report, about, options)
          return unless number(options, "auto.commit.interval.ms", 5_000).zero?

          report.warning(about, "auto.commit.interval.ms = 0: offsets are committed only at a stop or rebalance, so " \
                                "after a crash all messages since then are consumed again")
        end

        # librdkafka checks this only when it opens the client.
        def check_protocol(report, about, options)
          (CLASSIC_ONLY & options.keys).each do |name|
            report.error(about, "#{name} is not supported for group.protocol=consumer, because the broker decides: " \
                                "remove it")
          end
        end

        # The times of the classic protocol.
        def check_membership(report, about, options)
          session = number(options, "session.timeout.ms", SESSION)
          heartbeat = number(options, "heartbeat.interval.ms", HEARTBEAT)
          poll = number(options, "max.poll.interval.ms", POLL)
          if session > poll
            report.error(about, "session.timeout.ms (#{seconds(session)}) is longer than max.poll.interval.ms " \
                                "(#{seconds(poll)}), which librdkafka does not allow: make it shorter")
          end
          return if heartbeat * 3 <= session

          report.warning(about, "heartbeat.interval.ms (#{seconds(heartbeat)}) is more than a third of " \
                                "session.timeout.ms (#{seconds(session)}): after one lost heartbeat, Kafka may " \
                                "revoke the partitions")
        end

        def check_fetching(report, about, options)
          wait = Integer(options.fetch("fetch.wait.max.ms"))
          socket = number(options, "socket.timeout.ms", SOCKET)
          if wait + 1000 > socket
            report.warning(about, "fetch.wait.max.ms (#{seconds(wait)}) leaves less than a second of " \
                                  "socket.timeout.ms (#{seconds(socket)}), so connections without new messages are " \
                                  "closed: lower it")
          end
          backoff = Integer(options.fetch("fetch.queue.backoff.ms"))
          return if backoff < 100

          report.warning(about, "fetch.queue.backoff.ms = #{backoff}: a consumer may wait that many ms each time its " \
                                "queue was full. Pelton's default is 10")
        end

        # Of routes for which the app says that calls take long: once for all with the same time.
        def check_long_calls(report)
          topics = @groups.flat_map { |group| group.topics.values }.reject(&:stage)
          topics.group_by(&:long_call).each do |long, same|
            next if long == Settings::APP.fetch(:long_call).default

            names = same.map { |topic| topic.pattern&.inspect || topic.name }
            compare_long_call(report, "topic #{names.join(", ")}", long)
          end
        end

        def compare_long_call(report, about, long)
          limit = @config.liveness.max_consume_time
          if limit && long > limit
            report.warning(about, "long_call (#{long} s) is longer than liveness.max_consume_time (#{limit} s): the " \
                                  "health check fails before a call counts as long. Lower the one or raise the other")
          end
          compare_stop(report, about, long)
          compare_revocation(report, about, long)
        end

        # A stop keeps a part of its time for producers.
        def compare_stop(report, about, long)
          stop = @config.shutdown_timeout
          flush = [@config.flush_timeout, stop / 2.0].min
          wait = stop - flush
          return if long <= wait + SLACK

          report.warning(about, "long_call (#{long} s) is longer than the #{plain(wait)} s that a stop waits for a " \
                                "call (shutdown_timeout #{plain(stop)} s less #{plain(flush)} s for producers): then " \
                                "its messages come again. Raise shutdown_timeout, or make calls shorter")
        end

        def compare_revocation(report, about, long)
          wait = @config.revocation_timeout
          return if long <= wait + SLACK

          report.warning(about, "long_call (#{long} s) is longer than revocation_timeout (#{plain(wait)} s): when a " \
                                "rebalance moves the partition during such a call, its messages come again. Raise " \
                                "revocation_timeout, or make calls shorter")
        end

        def number(options, name, default) = Integer(options[name] || default)
        def seconds(milliseconds) = "#{plain(milliseconds / 1000.0)} s"
        def plain(number) = number.to_f.round(3).to_s.delete_suffix(".0")
      end
    end
  end
end
