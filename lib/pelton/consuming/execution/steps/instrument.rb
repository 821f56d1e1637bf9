# frozen_string_literal: true

require_relative "../../../runtime/clock"

module Pelton
  module Consuming
    module Steps
      # Tells how long consume took and how it ended.
      class Instrument
        EVENT = "consumer.consumed"

        def self.for(_topic, bus) = new(bus)

        def initialize(bus) = @bus = bus

        # On the worker's thread, around the user's code.
        #: (Job) { () -> void } -> void
        def around(job)
          return yield unless @bus.wanted?(EVENT)

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
end
