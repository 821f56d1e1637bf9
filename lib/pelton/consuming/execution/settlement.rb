# frozen_string_literal: true

require_relative "../../errors"
require_relative "../failures/failure"
require_relative "outcome"

module Pelton
  module Consuming
    # The end of each job of an executor: decides the outcome, publishes it, and hands it to the coordinator, which
    # carries it out. Runs on the worker's thread.
    class Settlement
      # Errors after which the process cannot go on: nothing is retried, the server is asked to stop.
      CRITICAL = [SystemExit, SignalException, NoMemoryError].freeze

      #: (Executor, Coordinator, Flow, Notifications, BackOff) -> void
      def initialize(executor, coordinator, flow, bus, back_off)
        @executor = executor
        @back_off = back_off
        @coordinator = coordinator
        @flow = flow
        @bus = bus
      end

      # error: what the job raised; nil: it returned. A subscriber may end this thread at any point, so the outcome is
      # decided first and carried out last, in an `ensure`.
      #: (Job, Exception?) -> void
      def settle(job, error)
        critical = critical?(error)
        outcome, result = job.later || judge(job, error, critical)
        job.later = nil
        report(job, error, result) if error && !moved?(error)
        outcome = forward(outcome, result, job) if outcome&.kind == :forward && forwards?(job)
        publish(outcome, result) if result&.error && !job.later
        warn_unmarked(job, error)
      ensure
        carry_out(outcome, job, critical && error) unless job.later
      end

      private

      def carry_out(outcome, job, critical)
        @executor.transactions.created&.over
        @coordinator.carry_out(outcome, job, critical: critical)
      end

      def critical?(error) = !error.nil? && CRITICAL.any? { |kind| error.is_a?(kind) }

      # Did a transaction fail because the partition has another owner? That is no failure.
      def moved?(error)
        (error.is_a?(AssignmentLost) || (error.is_a?(KafkaError) && error.fenced?)) && @coordinator.gone?
      end

      def judge(job, error, critical)
        return unless job.kind == :consume

        failure = error || undone(job)
        job.halted = true if !failure && leaves_some?(job)
        remember(job, failure) if job.start
        return if @coordinator.sought?(job)

        decide(job, failure, critical)
      end

      def forwards?(job) = !@coordinator.leaves_rest? && !@coordinator.sought?(job)

      # If too many copies are on their way, the job ends without sending its own, and comes again: see
      # JobsQueue#aside. From then on the executor may run another job.
      def forward(outcome, result, job)
        @executor.transactions.created&.over
        later = [outcome, result]
        @coordinator.aside(job, later: later) { @executor.forwarding.forward(outcome, result) } || outcome
      end

      # The failure of a consume that raised nothing, but whose marks were undone by an aborted transaction. (A consume
      # that paused leaves its rest for later anyway.)
      def undone(job) = (@executor.transactions.created&.undone unless job.paused)

      # The job comes again, at least in part. Then the flow must not judge these messages again.
      def remember(job, error)
        return unless job.begun? && (error || job.left?)

        @flow.remember(job.start, given: process? ? job.current&.offset : job.messages.last_offset)
      end

      # Returns the outcome, and the result that a step decided on, if one did; nil: a step failed.
      def decide(job, error, critical)
        return Outcome.stop if critical
        return decide_success(job) unless error

        result = failure_of(job, error)
        return [Outcome.later(pause(error, result)), result] if unsettled?(result)
        return [Outcome.again(0), result] if @coordinator.mixed?(job) # each key alone, to find which one fails
        return [break_off(job), result] if failed_behind?(result.messages, job.current)

        [@flow.settle(result), result]
      rescue StandardError => e
        @bus.publish("error.occurred", **job.facts, error: e, source: "flow")
      end

      # Did it fail because Kafka did not answer a transaction? The messages run again, which is no attempt. If the
      # commit was not confirmed, they may be done: the next transaction asks for the outcome.
      def unsettled?(result) = !result.messages.empty? && @executor.transactions.created&.unsettled?

      # Seconds. Once the outcome is known, there is nothing to wait for.
      def pause(error, result) = TransactionError.committed?(error) ? 0 : @back_off.delay(result.attempt)

      def decide_success(job)
        return Outcome.later(job.wait || 0) if job.wait || job.paused
        return @flow.success if @flow.success

        result = Result.new(nil, job.messages, @executor.attempt, alone?(job, job.messages))
        [@flow.settle(result), result]
      end

      def failure_of(job, error)
        left = failed(job)
        Result.new(error, left, @executor.attempt, alone?(job, left), Failure.next_id)
      end

      def alone?(job, left) = left.size == 1 && (process? || job.messages.size == 1)

      # The messages that may have failed. If messages are processed one by one, it is the first that is not finished.
      def failed(job)
        left = @coordinator.unfinished(job)
        left = left.only(left.first(1)) if process? && job.begun?
        job.failed = left.first&.offset
        left
      end

      # Did `process` fail after it had marked its message? The next message was not begun, so it did not fail.
      def failed_behind?(left, message) = !message.nil? && !left.empty? && left.first.offset > message.offset

      # The next job gets the rest at once.
      def break_off(job)
        job.halted = true
        Outcome.done(mark: false)
      end

      # Did transactions of a consume mark only some of its messages? Then its return marks none, and the next job gets
      # the others. (If they marked none of them, it would get the same messages for ever.)
      def leaves_some?(job)
        return false unless @executor.transactions.created&.used? && @flow.success&.mark

        left = @coordinator.unfinished(job).size
        left.positive? && left < job.messages.size
      end

      def report(job, error, result)
        more = {}
        if job.kind == :consume
          first = job.current&.offset || result&.messages&.first_offset || job.messages.first_offset
          more = { attempt: @executor.attempt, offset: first }
        end
        more[:failure_id] = result.failure_id if result
        more[:trace_id] = job.trace_id if job.trace_id
        @bus.publish("error.occurred", **job.facts, **more, error: error, source: "consumer.#{job.kind}")
      end

      # A call asked `revoked?` and got true, so its return marks nothing. If it marked nothing itself, maybe it only
      # asked for a log line: its work will be repeated, although it is done.
      def warn_unmarked(job, error)
        return unless job.paused == :revoked && !error && @flow.success&.mark
        return if @coordinator.gone? || @coordinator.sought?(job)

        left = @coordinator.unfinished(job)
        left = left.only(left.first(1)) if process?
        first = job.current || job.messages.first
        return unless left.first&.offset == first.offset

        @bus.publish("consumer.unmarked", **job.facts, offset: first.offset, messages: left.size)
      end

      # What the end of the partition left undone is not published.
      def publish(outcome, result)
        outcome.publish(@bus, result, @coordinator.facts) if outcome.to || !@coordinator.leaves_rest?
      end

      def process? = @executor.process?
    end
  end
end
