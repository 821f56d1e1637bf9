# frozen_string_literal: true

require_relative "clock"

module Pelton
  # What of a running server only a restart of its process would mend. Looks at what its threads noted, without a lock.
  class Health
    #: (Config::Liveness, Array[Processing::Listener]) -> void
    def initialize(settings, listeners)
      @polling = settings.polling
      @consuming = settings.consuming
      # The server's own, in which one that failed is replaced.
      @listeners = listeners
    end

    # A String each.
    #: () -> Array[String]
    def ailments = @listeners.flat_map { |listener| [*silence(listener), *calls(listener), *stopped(listener)] }

    private

    # One that leaves its group polls no more, within a time of its own.
    def silence(listener)
      polled = listener.subscription.polled_at or return
      seconds = Clock.now - polled
      return if seconds <= @polling

      format("group %s: its listener has not polled for %.0f s (liveness.polling: %g s)", listener.group.name, seconds,
             @polling)
    end

    def stopped(listener)
      listener.stopped.flat_map do |topic, partitions|
        partitions.map do |partition, offset|
          "#{topic}/#{partition}: stopped at offset #{offset} after a failure, nothing behind it is consumed"
        end
      end
    end

    def calls(listener)
      return unless @consuming

      listener.coordinators.flat_map do |one|
        one.slots.filter_map do |slot|
          call, seconds = slot.busy
          next if call.nil? || seconds <= @consuming

          format("%s/%d: %s takes %.0f s so far (liveness.consuming: %g s)", one.topic_name, one.partition, call,
                 seconds, @consuming)
        end
      end
    end
  end
end
