# frozen_string_literal: true

module Pelton
  module Processing
    # Jobs of all partitions on their way to the workers: first come first served, but the short ones that a rebalance
    # or a stop waits for (assigned, revoked, shutdown) go first. At most one job per partition is in it.
    class JobsQueue
      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # Jobs waiting for a worker; guarded by @lock.
        @urgent = []
        @ordinary = []
        @closed = false
      end

      # false: the queue is closed, the job will not run.
      #: (Job) -> bool
      def push(job)
        @lock.synchronize do
          return false if @closed

          (job.kind == :consume ? @ordinary : @urgent) << job
          @changed.signal
          true
        end
      end

      # Waits for a job; nil: the queue is closed and empty.
      #: () -> Job?
      def pop
        @lock.synchronize do
          loop do
            job = @urgent.shift || @ordinary.shift
            return job if job || @closed

            @changed.wait(@lock)
          end
        end
      end

      # Takes a job back; false: a worker has it.
      #: (Job) -> bool
      def delete(job)
        @lock.synchronize do
          [@urgent, @ordinary].any? do |lane|
            index = lane.index { |other| other.equal?(job) }
            lane.delete_at(index) if index
          end
        end
      end

      # What is in it will still be popped; nothing new comes in.
      #: () -> void
      def close
        @lock.synchronize do
          @closed = true
          @changed.broadcast
        end
      end

      # Closes it and drops what is in it.
      #: () -> void
      def clear
        @lock.synchronize do
          @urgent.clear
          @ordinary.clear
        end
        close
      end

      #: () -> bool
      def closed? = @closed
      #: () -> Integer
      def size = @lock.synchronize { @urgent.size + @ordinary.size }
    end
  end
end
