# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # Publishes when jobs and calls of consumers begin and end, and how. Called only if such an event has a subscriber.
    class Instrument
      #: (Notifications) -> void
      def initialize(bus) = @bus = bus

      # On the worker's thread, around a job. What the event needs is read first: a settled job belongs to its worker.
      #: (Job) { () -> void } -> void
      def job(job)
        facts = job.facts
        kind = job.kind
        started = Clock.now
        waited = job.queued_at && (started - job.queued_at)
        yield
      ensure
        @bus.publish("job.finished", **facts, kind: kind, waited: waited, seconds: Clock.now - started)
      end

      # On the worker's thread, around the user's code.
      #: (Job) { () -> void } -> void
      def around(job)
        consuming(job) if job.kind == :consume
        started = Clock.now
        error = nil
        begin
          yield
        rescue Exception => e # rubocop:disable Lint/RescueException
          error = e
          raise
        ensure
          finished(job, { **job.facts, seconds: Clock.now - started, error: error })
        end
      end

      private

      def consuming(job)
        @bus.publish("consumer.consuming", **job.facts, offset: job.messages.first_offset, messages: job.messages.size,
                                                        attempt: job.attempt)
      end

      def finished(job, facts)
        case job.kind
        when :consume
          @bus.publish("consumer.consumed", **facts, messages: job.messages.size, attempt: job.attempt,
                                                     consumption_lag: job.consumption_lag,
                                                     processing_lag: job.processing_lag)
        when :assigned then @bus.publish("consumer.assigned", **facts)
        when :tick then @bus.publish("consumer.ticked", **facts)
        when :reached_end then @bus.publish("consumer.reached_end", **facts)
        when :revoked then @bus.publish("consumer.revoked", **facts)
        when :shutdown then @bus.publish("consumer.shut_down", **facts)
        end
      end
    end
  end
end
