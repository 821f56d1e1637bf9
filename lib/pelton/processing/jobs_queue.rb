# frozen_string_literal: true

module Pelton
  module Processing
    # Jobs of all partitions on their way to the workers: first come first served, but the short ones that a rebalance
    # or a stop waits for (assigned, revoked, shutdown) go first. At most one job per partition is in it. While it is
    # held, the other ones (consume, tick, reached_end) stay in it and the short ones run.
    class JobsQueue
      URGENT = %i[assigned revoked shutdown].freeze
      private_constant :URGENT

      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # Jobs waiting for a worker; guarded by @lock.
        @urgent = []
        @ordinary = []
        @closed = false
        @held = false
        # Consume jobs that workers have, and what is called once there is none of them in a held queue.
        @consuming = 0
        @on_idle = nil
      end

      # false: the queue is closed, the job will not run.
      #: (Job) -> bool
      def push(job)
        @lock.synchronize do
          return false if @closed

          (urgent?(job) ? @urgent : @ordinary) << job
          @changed.signal
          true
        end
      end

      # Waits for a job; nil: the queue is closed and empty.
      #: () -> Job?
      def pop
        @lock.synchronize do
          loop do
            job = @urgent.shift || (@ordinary.shift unless @held)
            @consuming += 1 if job && !urgent?(job)
            return job if job || @closed

            @changed.wait(@lock)
          end
        end
      end

      # A worker is through with a job that it popped.
      #: (Job) -> void
      def finished(job)
        @lock.synchronize do
          @consuming -= 1 unless urgent?(job)
          tell_idle
        end
      end

      # No consume job is begun any more. on_idle: called once when none runs, in whatever thread; it must not wait.
      #: () ?{ () -> void } -> void
      def hold(&on_idle)
        @lock.synchronize do
          @held = true
          @on_idle = on_idle
          tell_idle
        end
      end

      # Consume jobs go on.
      #: () -> void
      def unhold
        @lock.synchronize do
          @held = false
          @on_idle = nil
          @changed.broadcast
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

      # What is in it (and not held) will still be popped; nothing new comes in.
      #: () -> void
      def close
        @lock.synchronize do
          @closed = true
          @changed.broadcast
        end
      end

      #: () -> bool
      def closed? = @closed
      #: () -> Integer
      def size = @lock.synchronize { @urgent.size + @ordinary.size }

      # Calls of consume: {running: 3, waiting: 17}
      #: () -> Hash[Symbol, Integer]
      def counts = @lock.synchronize { { running: @consuming, waiting: @ordinary.size } }

      private

      def urgent?(job) = URGENT.include?(job.kind)

      def tell_idle
        return unless @on_idle && @consuming.zero?

        @on_idle.call
        @on_idle = nil
      end
    end
  end
end
