# frozen_string_literal: true

require_relative "turns"

module Pelton
  module Processing
    # Jobs of all partitions on their way to the workers: a fair share for each topic (see Turns), but the short ones
    # that a rebalance or a stop waits for (assigned, revoked, shutdown) go first. At most one job per slot is in it.
    # So do, behind these, the last jobs of a partition (closing). While it is held, the other ones (consume, tick,
    # reached_end) stay in it and the former run.
    class JobsQueue
      URGENT = %i[assigned revoked shutdown].freeze
      private_constant :URGENT

      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # Jobs waiting for a worker; guarded by @lock.
        @urgent = []
        @closing = []
        @ordinary = Turns.new
        # So many workers are to end when they ask for a job.
        @retiring = 0
        @closed = false
        @held = @ending = false
        # Called once when no worker has one of the others while it is held.
        @on_idle = nil
      end

      # topic: whose share it is. false: the queue is closed, the job will not run.
      #: (Job, ?untyped) -> bool
      def push(job, topic = nil)
        @lock.synchronize do
          return false if @closed

          list_of(job)&.push(job) || @ordinary.push(job, topic)
          @changed.signal
          true
        end
      end

      # Waits for a job; nil: the queue is closed and empty, or there is a worker too many.
      #: () -> Job?
      def pop
        @lock.synchronize do
          loop do
            break retired if @retiring.positive?

            job = @urgent.shift || (@closing.shift unless @ending) || (@ordinary.shift unless @held)
            return job if job || @closed

            @changed.wait(@lock)
          end
        end
      end

      # A worker is through with a job that it popped.
      #: (Job) -> void
      def finished(job)
        @lock.synchronize do
          @ordinary.finished(job) unless list_of(job)
          tell_idle
        end
      end

      # So many of those who ask get nil instead of a job.
      #: (Integer) -> void
      def retire(count)
        @lock.synchronize do
          @retiring += count
          @changed.broadcast
        end
      end

      # So many of those that were to end, but did not yet, stay; returns how many these are.
      #: (Integer) -> Integer
      def stay(count) = @lock.synchronize { [count, @retiring].min.tap { |some| @retiring -= some } }

      # No consume job is begun any more. on_idle: called once when none runs, in whatever thread; it must not wait.
      #: () ?{ () -> void } -> void
      def hold(&on_idle)
        @lock.synchronize do
          @held = true
          @on_idle = on_idle
          tell_idle
        end
      end

      # No consume job of any kind is begun any more: hooks alone.
      #: () -> void
      def finish
        @ending = true
        hold
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
          list = list_of(job) or next @ordinary.delete(job)
          index = list.index { |other| other.equal?(job) }
          index ? !list.delete_at(index).nil? : false
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
      def size = @lock.synchronize { @urgent.size + @closing.size + @ordinary.size }

      # Jobs that are not urgent, as calls of consume: {running: 3, waiting: 17}
      #: () -> Hash[Symbol, Integer]
      def counts = @lock.synchronize { { running: @ordinary.running, waiting: @ordinary.size } }

      private

      def retired
        @retiring -= 1
        nil
      end

      # That of a job which does not wait for its topic's turn; nil: it does.
      def list_of(job)
        return @urgent if URGENT.include?(job.kind)

        @closing if job.closing
      end

      def tell_idle
        return unless @on_idle && @ordinary.running.zero?

        @on_idle.call
        @on_idle = nil
      end
    end
  end
end
