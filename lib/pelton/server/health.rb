# frozen_string_literal: true

require_relative "../runtime/clock"

module Pelton
  # Finds problems of a running server that only a restart of its process would solve:
  #   a listener that has not polled for config.liveness.max_poll_gap
  #   a call of a consumer that takes longer than config.liveness.max_consume_time
  #   a partition that stopped after a failure (`then: :stop`; a seek helps, too)
  # Rebalances, long jobs, quiet, shutdowns, missing topics and brokers that are down are not among them. It reads what
  # the threads noted, without a lock.
  class Health
    #: (Config::Liveness, Array[Consuming::Listener]) -> void
    def initialize(settings, listeners)
      @max_poll_gap = settings.max_poll_gap
      @max_consume_time = settings.max_consume_time
      # The server's own Array, in which a failed listener is replaced.
      @listeners = listeners
    end

    # One String for each problem.
    #: () -> Array[String]
    def health_problems = @listeners.flat_map { |listener| [*silence(listener), *calls(listener), *stopped(listener)] }

    private

    # A listener that leaves its group no longer polls; that has a deadline of its own.
    def silence(listener)
      polled = listener.subscription.polled_at or return
      seconds = Clock.now - polled
      return if seconds <= @max_poll_gap

      format("group %s: its listener has not polled for %.0f s (liveness.max_poll_gap: %g s)", listener.group.name,
             seconds, @max_poll_gap)
    end

    def stopped(listener)
      listener.stopped.flat_map do |topic, partitions|
        partitions.map do |partition, offset|
          "#{topic}/#{partition}: stopped at offset #{offset} after a failure, so later messages are not consumed"
        end
      end
    end

    def calls(listener)
      return unless @max_consume_time

      listener.coordinators.flat_map do |coordinator|
        coordinator.executors.filter_map do |executor|
          call, seconds = executor.busy
          next if call.nil? || seconds <= @max_consume_time

          format("%s/%d: %s has been running for %.0f s (liveness.max_consume_time: %g s)", coordinator.topic_name,
                 coordinator.partition, call, seconds, @max_consume_time)
        end
      end
    end
  end
end
