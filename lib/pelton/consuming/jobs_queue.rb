# frozen_string_literal: true

require_relative "aside_jobs"
require_relative "fair_queue"

module Pelton
  module Consuming
    # Jobs of all partitions on their way to the workers. Each topic gets its fair part of the workers, and within a
    # topic jobs go by rank (see FairQueue). If there are several topics, the last worker is kept for topics that have
    # none; only jobs of rank 0 may have it. At most one job per executor is in the queue. While the queue is quiet,
    # ordinary jobs wait and the others run.
    #
    # A job that waits for Kafka (a dead letter, a producer's start) does so `aside`: it does not count as running, and
    # another worker runs jobs. So such jobs never block the others. AsideJobs limits their number.
    class JobsQueue
      NEVER = { Object => :never }.freeze
      private_constant :NEVER

      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # Jobs that wait for a worker. Guarded by @lock, like everything below.
        @turns = FairQueue.new
        # How many jobs may run at the same time; nil: no limit.
        @concurrency = nil
        # Numbers of jobs: running; ordinary ones among them; that were aside and wait until they may run again.
        @running = @ordinary = @returning = 0
        @aside = AsideJobs.new(@lock)
        # Numbers of workers: that wait for a job, and that shall end when they ask for one.
        @idle = @surplus = 0
        @closed = @quiet = @ending = false
        # Called once when no ordinary job runs while the queue is quiet.
        @on_idle = nil
      end

      # The block starts another worker.
      #: () { () -> void } -> void
      def attach(&spawn_worker) = @aside.spawn_worker = spawn_worker

      # How many jobs may run at the same time.
      #: (Integer) -> void
      def concurrency=(count)
        change { @concurrency = count }
      end

      # Adds a job of this topic. Returns false if the queue is closed: then the job will not run.
      #: (Job, ?untyped) -> bool
      def push(job, topic = nil)
        wanted = @lock.synchronize do
          return false if @closed

          @turns.push(job, topic, rank: FairQueue.rank(job))
          @changed.signal
          @aside.count.positive? && worker_wanted?
        end
        @aside.spawn if wanted
        true
      end

      # Waits for a job. Returns nil if the queue is closed and empty, or if this worker shall end.
      #: () -> Job?
      def pop
        @lock.synchronize do
          until @surplus.positive?
            job = take if @quiet || @closed || capacity?
            return job if job || @closed

            wait
          end
          @surplus -= 1
          wake
          nil
        end
      end

      # A worker is done with a job that it popped. Returns false if the job will be called again.
      #: (Job) -> bool
      def finished(job)
        @lock.synchronize do
          @running -= 1
          @ordinary -= 1 if FairQueue.rank(job) == FairQueue::ALL
          over = @aside.finished(job, @turns.finished(job))
          call_waiting if @aside.waiting?
          wake
          report_idle
          over
        end
      end

      # Called by a worker in its job. Runs the block, which waits for Kafka, while the job does not count as running,
      # and returns its value. The block gets interrupts. back: user code follows, so `aside` waits until the job may
      # run again. later: if too many jobs are aside, the job shall be called again with this as its `later`; the block
      # is then not called, and the result is nil.
      #: (Job, ?back: bool, ?later: untyped) { () -> untyped } -> untyped
      def aside(job, back: false, later: nil)
        Thread.handle_interrupt(NEVER) do
          next (yield unless job.later) unless leave(job, later)

          running = [] # not empty: the job counts as running again
          begin
            value = yield
            Thread.handle_interrupt(Object => :on_blocking) { await_capacity(running) } if back
            value
          ensure
            come_back(running)
          end
        end
      end

      # This many of the workers get nil instead of a job, and end.
      #: (Integer) -> void
      def remove_workers(count) = change { @surplus += count }

      # Keeps up to this many of the workers that shall end and have not yet. Returns how many.
      #: (Integer) -> Integer
      def keep_workers(count) = @lock.synchronize { [count, @surplus].min.tap { |kept| @surplus -= kept } }

      # No ordinary job begins any more. on_idle: called once when none runs, by any thread; it must not wait.
      #: () ?{ () -> void } -> void
      def quiet(&on_idle)
        change do
          @quiet = true
          @on_idle = on_idle
          report_idle
        end
      end

      # No job that calls `consume` begins any more, the last ones of a partition included.
      #: () -> void
      def stop_consuming
        @ending = true
        quiet
      end

      # Ordinary jobs go on.
      #: () -> void
      def resume
        change do
          @quiet = false
          @on_idle = nil
        end
      end

      # Takes a job back. Returns false if a worker has it.
      #: (Job) -> bool
      def delete(job)
        @lock.synchronize do
          next true if @aside.delete(job)
          next false unless @turns.delete(job)

          call_waiting if @aside.unreserve(job)
          true
        end
      end

      # See FairQueue#partitions.
      #: (untyped, Integer) -> void
      def partitions(topic, more) = @lock.synchronize { @turns.partitions(topic, more) }

      # No job is added any more. Workers still get those in the queue, unless it is quiet.
      #: () -> void
      def close = change { @closed = true }

      #: () -> bool
      def closed? = @closed
      #: () -> Integer
      def size = @lock.synchronize { @turns.size }

      # Numbers of jobs: {running: 3, waiting: 17, aside: 0}
      #: () -> Hash[Symbol, Integer]
      def counts = @lock.synchronize { { running: @running, waiting: @turns.size, aside: @aside.size } }

      private

      # Changes the state, and wakes all threads that wait for it.
      def change
        @lock.synchronize do
          yield
          @changed.broadcast
        end
      end

      # The highest rank that may run now.
      def highest_rank
        return 1 if @ending

        @quiet ? 2 : FairQueue::ALL
      end

      # May another job run, besides those that come back from aside?
      def capacity? = @concurrency.nil? || @running + @returning < @concurrency

      def take
        most = @concurrency
        last = !@quiet && !@closed && !most.nil? && most > 1 && @running + @returning + 1 >= most
        job = @turns.shift(rank: highest_rank, reserved: last)
        job ||= @turns.shift(rank: 0) if last # a rebalance waits for it
        return unless job

        @running += 1
        @ordinary += 1 if FairQueue.rank(job) == FairQueue::ALL
        job
      end

      def wait
        @idle += 1
        @changed.wait(@lock)
      ensure
        @idle -= 1
      end

      # Another job may run. If jobs come back from aside, all threads wake, because `signal` might wake another one.
      def wake
        return @changed.broadcast if @returning.positive?

        @changed.signal if @idle.positive? && @turns.size.positive?
      end

      # See AsideJobs#worker_wanted?.
      def worker_wanted? = @aside.worker_wanted?(@turns.count(highest_rank) - @idle)

      # The job is aside from now on. Returns false if it goes on as a running job.
      def leave(job, later)
        wanted = @lock.synchronize do
          return false if @aside.spawn_worker.nil? || @quiet || @closed

          return @aside.put_off(job, later) unless @aside.enter(job)

          @running -= 1
          @turns.finished(job)
          wake
          worker_wanted?
        end
        @aside.spawn if wanted
        true
      end

      # Jobs that wait because of the limit go to a worker first.
      def call_waiting
        @aside.call_waiting do |job, topic|
          @turns.push(job, topic, rank: FairQueue.rank(job))
          @changed.signal
        end
      end

      def await_capacity(running)
        @lock.synchronize do
          @returning += 1
          begin
            @changed.wait(@lock) until @quiet || @closed || @running < @concurrency
          ensure
            @returning -= 1
          end
          Thread.handle_interrupt(NEVER) do
            running << true
            @running += 1
          end
        end
      end

      def come_back(running)
        @lock.synchronize do
          @aside.leave
          @running += 1 if running.empty?
          call_waiting
          next unless @aside.release_worker

          @surplus += 1
          @changed.broadcast
        end
      end

      def report_idle
        return unless @on_idle && @ordinary.zero?

        @on_idle.call
        @on_idle = nil
      end
    end
  end
end
