# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # The progress of jobs whose consumer processes message by message (Consumer#process). Called on workers' threads;
    # the coordinator's lock guards what it changes.
    class OneByOne
      #: (Coordinator, Routing::Topic, Lock, PartitionState, Progress, PartitionClosing) -> void
      def initialize(coordinator, topic, lock, state, progress, closing)
        @coordinator = coordinator
        @lock = lock
        @state = state
        @progress = progress
        @closing = closing
        @marks = !topic.manual_offsets
        @keyed = topic.keyed?
      end

      # `done` is finished, if it is given. Returns the next message; nil: there is none, or the job must not go on. The
      # offset is stored when the job has ended, and before by the listener's timer: the next message may take long.
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
        job.backlog.finish(job.slice, done.offset, done.leader_epoch, mark: @marks, seen: [done])
      end

      # Must the job end before this message?
      def breaks_off?(job, message)
        @state.stopped || @state.paused_until || job.paused || @progress.gone? ||
          (@closing.hook && !(@closing.finishes_gaps? && job.backlog.gap_at?(message.offset)))
      end
    end
  end
end
