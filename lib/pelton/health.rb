# frozen_string_literal: true

require_relative "clock"

module Pelton
  # What of a running server only a restart of its process would mend. Looks at what its threads noted, without a lock.
  class Health
    #: (Config::Liveness, Array[Processing::Listener]) -> void
    def initialize(settings, listeners)
      @max_poll_gap = settings.max_poll_gap
      @max_consume_time = settings.max_consume_time
      # The server's own, in which one that failed is replaced.
      @listeners = listeners
    end

    # A String each.
    #: () -> Array[String]
    def health_problems = @listeners.flat_map { |listener| [*silence(listener), *calls(listener), *stopped(listener)] }

    private

    # One that leaves its group polls no more, within a time of its own.
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
          "#{topic}/#{partition}: stopped at offset #{offset} after a failure, nothing behind it is consumed"
        end
      end
    end

    def calls(listener)
      return unless @max_consume_time

      listener.coordinators.flat_map do |one|
        one.slots.filter_map do |slot|
          call, seconds = slot.busy
          next if call.nil? || seconds <= @max_consume_time

          format("%s/%d: %s takes %.0f s so far (liveness.max_consume_time: %g s)", one.topic_name, one.partition, call,
                 seconds, @max_consume_time)
        end
      end
    end
  end
end
