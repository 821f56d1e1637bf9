# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # Applies the outcome of a job to the backlog and the state of its partition. The coordinator's lock guards it.
    class OutcomeEffects
      #: (Routing::Topic, PartitionState) -> void
      def initialize(topic, state)
        @manual_offsets = topic.manual_offsets
        @state = state
      end

      # leave_rest: the partition is ending, so a failed message is left for its next owner.
      #: (Outcome, Job, leave_rest: bool) -> void
      def apply(outcome, job, leave_rest:)
        case outcome.kind
        when :done then done(outcome, job) unless job.halted
        when :stop then stop(job)
        when :again, :forward then again(outcome, job) unless leave_rest
        when :later then job.backlog.later(job.slice, due(outcome)) unless leave_rest
        when :skip then skip(job) if outcome.to || !leave_rest
        end
      end

      private

      def stop(job) = @state.stopped = job.unfinished.first&.offset || job.messages.last_offset

      def done(outcome, job)
        last = job.done
        job.backlog.finish(job.slice, last.last_offset, last.leader_epoch, mark: outcome.mark, seen: job.messages)
      end

      def again(outcome, job)
        job.backlog.again(job.slice, due(outcome), alone_until: outcome.alone ? job.messages.last_offset : nil)
      end

      # nil: at once.
      def due(outcome) = (Clock.now + outcome.delay if outcome.delay.positive?)

      # A skipped message needs no mark by hand.
      def skip(job)
        message = job.unfinished.first
        return unless message && message.offset == job.failed # it may have been marked since

        job.backlog.finish(job.slice, message.offset, message.leader_epoch, mark: !@manual_offsets)
      end
    end
  end
end
