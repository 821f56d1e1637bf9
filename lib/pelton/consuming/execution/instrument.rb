# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # Publishes how long a call of consume took and how it ended. Called only if the event has a subscriber.
    class Instrument
      EVENT = "consumer.consumed"

      #: (Notifications) -> void
      def initialize(bus) = @bus = bus

      # On the worker's thread, around the user's code.
      #: (Job) { () -> void } -> void
      def around(job)
        started = Clock.now
        error = nil
        begin
          yield
        rescue Exception => e # rubocop:disable Lint/RescueException
          error = e
          raise
        ensure
          @bus.publish(EVENT, **job.facts, messages: job.messages.size, attempt: job.attempt,
                                           consumption_lag: job.consumption_lag, processing_lag: job.processing_lag,
                                           seconds: Clock.now - started, error: error)
        end
      end
    end
  end
end
