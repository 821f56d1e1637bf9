# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # The progress of jobs whose consumer processes message by message (Consumer#process). Called on workers' threads;
    # the coordinator's lock guards what it changes.
    class OneByOne
      # Seconds between two offsets that a job stores before it ends.
      STORE_EVERY = 1.0
      private_constant :STORE_EVERY

      #: (Coordinator, Routing::Topic, Lock, PartitionState, Progress, PartitionClosing) -> void
      def initialize(coordinator, topic, lock, state, progress, closing)
        @coordinator = coordinator
        @lock = lock
        @state = state
        @progress = progress
        @closing = closing
        @marks = !topic.manual_offsets
        @keyed = topic.keyed?
        # When a job stores its offset before it ends (monotonic seconds).
        @due_at = 0.0
      end

      # `done` is finished, if it is given. Returns the next message; nil: there is none, or the job must not go on. The
      # offset is stored now and then, and when the job has ended.
      #: (Job, ?Message?) -> Message?
      def step(job, done = nil)
        @lock.synchronize do
          @closing.took(Clock.now - job.executor.called) if done && @keyed
          sought = @coordinator.sought?(job)
          finish(job, done) if done && !job.paused && !sought
          message = job.next_message
          next message unless message && (sought || breaks_off?(job, message))

          job.halted = true
          nil
        end
      end

      private

      def finish(job, done)
        backlog = job.backlog
        backlog.finish(job.slice, done.offset, done.leader_epoch, mark: @marks, seen: [done])
        return if (now = Clock.now) < @due_at

        @due_at = now + STORE_EVERY
        @progress.store(backlog.done)
      end

      # Must the job end before this message?
      def breaks_off?(job, message)
        @state.stopped || @state.paused_until || job.paused || @progress.gone? ||
          (@closing.hook && !(@closing.finishes_gaps? && job.backlog.gap_at?(message.offset)))
      end
    end
  end
end
