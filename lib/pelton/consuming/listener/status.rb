# frozen_string_literal: true

require_relative "../../errors"

module Pelton
  module Consuming
    # The state of a listener, for health checks, statistics and the report of a stop. Callable from every thread.
    class ListenerStatus
      #: (Rebalance, Subscription) -> void
      def initialize(rebalance, subscription)
        @rebalance = rebalance
        @subscription = subscription
      end

      # The partitions that this process owns and that are not ending: [["orders", 0], …]
      #: () -> Array[[String, Integer]]
      def assignment = @rebalance.owned.keys

      # The offsets at which partitions stopped after a failure: {"orders" => {0 => 41}}
      #: () -> Hash[String, Hash[Integer, Integer]]
      def stopped
        @rebalance.owned.values.select(&:stopped).each_with_object({}) do |coordinator, found|
          (found[coordinator.topic_name] ||= {})[coordinator.partition] = coordinator.stopped
        end
      end

      # Messages of each owned partition that are not done, where that is known: {"orders" => {0 => 12}}
      #: () -> Hash[String, Hash[Integer, Integer]]
      def lags
        positions.each_with_object({}) { |((topic, partition), (_, lag)), lags| (lags[topic] ||= {})[partition] = lag }
      end

      # The same with the offset before which all is done: {["orders", 0] => [42, 12]}
      #: () -> Hash[[String, Integer], [Integer, Integer]]
      def positions
        @subscription.ends.each_with_object({}) do |(topic, partition, position, finish, reached), found|
          coordinator = @rebalance.owned[[topic, partition]]
          next unless coordinator && finish

          lag = coordinator.progress { |progress, _| progress.lag(position, finish, reached) }
          found[[topic, partition]] = [finish - lag, lag]
        end
      rescue ClosedError
        {}
      end

      # Work that is lost if the process ends now: see PartitionReport#unfinished_jobs.
      #: () -> Hash[Job, String]
      def unfinished_jobs
        @rebalance.coordinators.each_with_object({}.compare_by_identity) do |coordinator, jobs|
          jobs.update(coordinator.unfinished_jobs)
        end
      end

      # Hooks that consumers did not get: ["orders/0: shutdown was not finished"]. Valid when all is over.
      #: () -> Array[String]
      def unended
        @rebalance.coordinators.flat_map do |coordinator|
          name = "#{coordinator.topic_name}/#{coordinator.partition}"
          coordinator.due.map { |hook| "#{name}: #{hook} was not finished" }
        end
      end

      # Threads that consumers left behind, except those of coordinators that ended in time: {thread => facts}. Valid
      # when all is over.
      #: () -> Hash[Thread, Hash[Symbol, untyped]]
      def leaked_threads = @rebalance.coordinators.map(&:leaked_threads).inject({}, :merge)
    end
  end
end
