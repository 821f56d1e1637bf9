# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # Publishes when jobs and calls of consumers begin and end, and how, and counts calls. Each executor has one. Called
    # only if such an event has a subscriber, or calls are counted.
    class Instrument
      # How often the messages of a batch are counted while its calls of `process` run (s).
      INTERVAL = 1.0

      #: (Notifications) -> void
      def initialize(bus)
        @bus = bus
        # A Native::CallMeter of these counters of the bus; nil: there are none. Used by the job that runs.
        @meter = nil
        @counters = [].freeze
        # Messages of the present call that `progress` counted.
        @counted = 0
      end

      # On the worker's thread: the consumer got this number of the batch's messages, and the call goes on.
      #: (Job, Integer) -> void
      def progress(job, given)
        @counters.each { |counter| counter.given(job.facts, given - @counted) } if @meter
        @counted = given
      end

      # On the worker's thread: a job that waited begins.
      #: (Job, Float) -> void
      def begin(job, now)
        meter(job.facts)&.waited(now - job.queued_at) if job.kind == :consume
      end

      # On the worker's thread, around the user's code.
      #: (Job) { () -> void } -> void
      def around(job, &call)
        return count(job, &call) unless @bus.call_events

        call(job) { count(job, &call) }
      end

      # On the worker's thread, around a job, if an event has a subscriber. What the event needs is read first: a
      # settled job belongs to its worker.
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

      private

      def call(job)
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

      def count(job)
        meter = (meter(job.facts) if job.kind == :consume) or return yield
        failed = false
        @counted = 0
        meter.begin
        begin
          yield
        rescue Exception # rubocop:disable Lint/RescueException
          failed = true
          raise
        ensure
          @counters.each { |counter| counter.counted(job.facts, @counted) } if @counted.positive?
          meter.called(job.given.to_i, job.begun_at, job.messages.timestamp_ms, failed)
        end
      end

      def meter(facts)
        counters = @bus.counters
        return @meter if counters.equal?(@counters)

        counts = counters.map { |counter| counter.calls(facts) }
        @meter = (Native::CallMeter.new(facts[:partition], counts) if counts.any?)
        @counters = counters
        @meter
      end

      def consuming(job)
        @bus.publish("consumer.consuming", **job.facts, offset: job.messages.first_offset, messages: job.messages.size,
                                                        attempt: job.executor.attempt_of(job))
      end

      def finished(job, facts)
        case job.kind
        when :consume
          @bus.publish("consumer.consumed", **facts, messages: job.given.to_i, attempt: job.executor.attempt_of(job),
                                                     consumption_lag: job.consumption_lag,
                                                     processing_lag: job.processing_lag, trace_id: job.trace_id)
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
