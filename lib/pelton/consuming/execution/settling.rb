# frozen_string_literal: true

require_relative "../../errors"
require_relative "../failures/failure"
require_relative "outcome"

module Pelton
  module Consuming
    # The end of each job of an executor, whose state it shares: it finds the outcome, which the coordinator carries
    # out.
    module Settling
      # Errors after which the process cannot go on: nothing is retried, the server is asked to stop.
      CRITICAL = [SystemExit, SignalException, NoMemoryError].freeze

      private

      # Decided first and carried out last, whatever comes between: a subscriber may end this thread.
      def settle(job, error)
        critical = critical?(error)
        outcome, result = job.later || judge(job, error, critical)
        job.later = nil
        report(job, error, result) if error
        outcome = forward(outcome, result, job) if forwards?(outcome, job)
        tell(outcome, result) if result&.error && !job.later
      ensure
        unless job.later
          @exactly_once.over
          @coordinator.carry_out(outcome, job, critical: critical && error)
        end
      end

      def critical?(error) = !error.nil? && CRITICAL.any? { |kind| error.is_a?(kind) }

      def judge(job, error, critical)
        failure = error || undone(job)
        remember(job, failure)
        decide(job, failure, critical) if job.kind == :consume && !@coordinator.sought?(job)
      end

      def forwards?(outcome, job)
        outcome&.kind == :forward && !@coordinator.leaves_rest? && !@coordinator.sought?(job)
      end

      # Where too many copies are on their way, the job ends without it, and comes again: see JobsQueue#aside. From then
      # on the executor may be another job's.
      def forward(outcome, result, job)
        @exactly_once.over
        @thread = nil
        later = [outcome, result]
        @coordinator.aside(job, later: later) { @forwarding.forward(outcome, result) } || outcome
      end

      # What makes a failure of a job that raised nothing. (One that paused leaves its rest for later anyway.)
      def undone(job) = (@exactly_once.undone if job.kind == :consume && !job.paused)

      # It comes again, at least in part.
      def remember(job, error)
        return unless job.begun? && (error || job.left?)

        @flow.remember(job.start, given: process? ? job.current&.offset : job.messages.last_offset)
      end

      # The outcome, and the result it is about if a step decided; nil: a step failed.
      def decide(job, error, critical)
        return Outcome.stop if critical
        return Outcome.later(job.wait || 0) if (job.wait || job.paused) && !error

        result = result_of(job, error)
        return [Outcome.again(0), result] if error && @coordinator.mixed?(job) # to find out which one it is
        return [break_off(job), result] if error && failed_behind?(result.messages, job.current)

        [unmixed(@flow.settle(result)), result]
      rescue StandardError => e
        @bus.publish("error.occurred", **job.facts, error: e, source: "flow")
      end

      def result_of(job, error)
        left = error ? failed(job) : job.messages
        alone = left.size == 1 && (process? || job.messages.size == 1)
        Result.new(error, left, attempt, alone, (Failure.next_id if error))
      end

      # What may have failed: of messages that are processed one by one it is the first, once these have begun.
      def failed(job)
        left = @coordinator.unfinished(job)
        left = left.only(left.first(1)) if process? && job.begun?
        job.failed = left.first&.offset
        left
      end

      # Did it fail behind its message, which it had marked? The next one was not begun: it is not what failed.
      def failed_behind?(left, message) = !message.nil? && !left.empty? && left.first.offset > message.offset

      # What is left is for another job, at once.
      def break_off(job)
        job.halted = true
        Outcome.done(mark: false)
      end

      # Where a transaction marked, nothing is marked besides.
      def unmixed(outcome)
        outcome.kind == :done && @exactly_once.used? ? Outcome.done(mark: false) : outcome
      end

      def report(job, error, result)
        place = result && process? ? result.messages : job.messages
        more = job.kind == :consume ? { attempt: attempt, offset: job.current&.offset || place.first_offset } : {}
        more[:failure_id] = result.failure_id if result
        @bus.publish("error.occurred", **job.facts, **more, error: error, source: "consumer.#{job.kind}")
      end

      # What the end left undone is not told.
      def tell(outcome, result)
        outcome.tell(@bus, result, @coordinator.facts) if outcome.to || !@coordinator.leaves_rest?
      end
    end
  end
end
