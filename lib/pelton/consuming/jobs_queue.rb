# frozen_string_literal: true

require_relative "overflow"
require_relative "fair_queue"

module Pelton
  module Consuming
    # Jobs of all partitions on their way to the workers: a fair share for each topic (see Turns), of which the short
    # ones that a rebalance or a stop waits for (assigned, revoked, shutdown) go first. Where there are several topics,
    # the last worker is kept for those that have none; only a partition's end (revoked, shutdown) may have it. Behind
    # the short ones go the last jobs of a partition (closing). At most one job per executor is in it. While it is held,
    # the other ones (consume, tick, reached_end) stay in it and the former run.
    #
    # A job that waits for Kafka (a dead letter, a first transaction) does so `aside`: its worker's place is another's
    # meanwhile, so that no number of such jobs keeps the workers from the others. Each has a thread, so their number is
    # limited: of more, those that can come again wait without one (see Overflow), and the others keep their workers.
    class JobsQueue
      # So many jobs may be aside.
      ASIDE = 100
      NEVER = { Object => :never }.freeze
      private_constant :ASIDE, :NEVER

      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        # Jobs waiting for a worker; guarded by @lock, as all below.
        @turns = FairQueue.new
        # How many workers there are to be, and what starts one more; nil: unknown.
        @places = nil
        @spawn_worker = nil
        # Jobs that workers have: in their places, how many of these and of those aside may not run while it is held;
        # aside; and those that come back from there as soon as a place is free.
        @running = @ordinary = @aside = @returning = 0
        @overflow = Overflow.new
        # Workers that wait for a job, and those hired in the place of some aside.
        @idle = @hired = 0
        # So many workers are to end when they ask for a job.
        @retiring = 0
        @closed = false
        @held = @ending = false
        # Called once when no worker has one of the others while it is held.
        @on_idle = nil
      end

      # spawn_worker: starts another worker.
      #: () { () -> void } -> void
      def attach(&spawn_worker) = @spawn_worker = spawn_worker

      # So many jobs run at once.
      #: (Integer) -> void
      def places=(count)
        @lock.synchronize do
          @places = count
          @changed.broadcast
        end
      end

      # topic: whose share it is. false: the queue is closed, the job will not run.
      #: (Job, ?untyped) -> bool
      def push(job, topic = nil)
        short = @lock.synchronize do
          return false if @closed

          @turns.push(job, topic, rank: rank(job))
          @changed.signal
          short?
        end
        spawn_worker if short
        true
      end

      # Waits for a job; nil: the queue is closed and empty, or there is a worker too many.
      #: () -> Job?
      def pop
        @lock.synchronize do
          until @retiring.positive?
            job = take if @held || @closed || room?
            return job if job || @closed

            wait
          end
          retired
        end
      end

      # A worker is through with a job that it popped. false: it comes again.
      #: (Job) -> bool
      def finished(job)
        @lock.synchronize do
          @running -= 1
          @ordinary -= 1 if rank(job) == FairQueue::ALL
          over = @overflow.finished(job, @turns.finished(job))
          call_overflow if @overflow.waiting?
          wake
          tell_idle
          over
        end
      end

      # On a worker, within its job: the block waits for Kafka, without the worker's place. What it returns. Interrupts
      # are the block's. back: user code follows, so a place is waited for then. later: the job is to be called again
      # where too many are aside, with this as its `later`; then the block is not called, and nil returned.
      #: (Job, ?back: bool, ?later: untyped) { () -> untyped } -> untyped
      def aside(job, back: false, later: nil)
        Thread.handle_interrupt(NEVER) do
          next (yield unless job.later) unless leave(job, later)

          place = [] # not empty: it has its place again
          begin
            value = yield
            Thread.handle_interrupt(Object => :on_blocking) { await_place(place) } if back
            value
          ensure
            come_back(place)
          end
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
          @changed.broadcast
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
          next true if @overflow.delete(job)
          next false unless @turns.delete(job)

          call_overflow if @overflow.redeem(job)
          true
        end
      end

      # See FairQueue#partitions.
      #: (untyped, Integer) -> void
      def partitions(topic, more) = @lock.synchronize { @turns.partitions(topic, more) }

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
      def size = @lock.synchronize { @turns.size }

      # Jobs by where they are: {running: 3, waiting: 17, aside: 0}
      #: () -> Hash[Symbol, Integer]
      def counts = @lock.synchronize { { running: @running, waiting: @turns.size, aside: @aside + @overflow.size } }

      private

      def retired
        @retiring -= 1
        wake
        nil
      end

      # 0: hooks of an end, 1: attempts_to_build, 2: the last jobs of a partition, 3: others.
      def rank(job)
        case job.kind
        when :revoked, :shutdown then 0
        when :assigned then 1
        else job.closing ? 2 : FairQueue::ALL
        end
      end

      # Of what may run now.
      def ranks
        return 1 if @ending

        @held ? 2 : FairQueue::ALL
      end

      # Is a place free, besides those for who comes back?
      def room? = @places.nil? || @running + @returning < @places

      def take
        last = !@held && !@closed && !@places.nil? && @places > 1 && @running + @returning + 1 >= @places
        job = @turns.shift(rank: ranks, reserved: last)
        job ||= @turns.shift(rank: 0) if last # a rebalance waits for it
        return unless job

        @running += 1
        @ordinary += 1 if rank(job) == FairQueue::ALL
        job
      end

      def wait
        @idle += 1
        @changed.wait(@lock)
      ensure
        @idle -= 1
      end

      # A place is free. Who waits for one may not be the one who is woken first.
      def wake
        return @changed.broadcast if @returning.positive?

        @changed.signal if @idle.positive? && @turns.size.positive?
      end

      # Do jobs wait that nobody takes, while places of those aside are free? Then a worker is to be hired.
      def short?
        return false unless @hired < @aside && @idle < @turns.count(ranks)

        @hired += 1
        true
      end

      # Where the process may have no more threads, the job waits for one of those that there are.
      def spawn_worker
        hired = false
        @spawn_worker.call
        hired = true
      rescue ThreadError
        nil
      ensure
        @lock.synchronize { @hired -= 1 } unless hired
      end

      def leave(job, later)
        short = @lock.synchronize do
          return false if @spawn_worker.nil? || @held || @closed
          return put_off(job, later) unless @overflow.redeem(job) || @aside + @overflow.promised < ASIDE

          @aside += 1
          @running -= 1
          @turns.finished(job)
          wake
          short?
        end
        spawn_worker if short
        true
      end

      # false, as of every job that goes on where it is.
      def put_off(job, later)
        if later
          job.later = later
          @overflow.add(job)
        end
        false
      end

      # Places aside are free: who waits for one comes to a worker first.
      def call_overflow
        @overflow.call(ASIDE - @aside - @overflow.promised) do |job, topic|
          @turns.push(job, topic, rank: rank(job))
          @changed.signal
        end
      end

      def await_place(place)
        @lock.synchronize do
          @returning += 1
          begin
            @changed.wait(@lock) until @held || @closed || @running < @places
          ensure
            @returning -= 1
          end
          Thread.handle_interrupt(NEVER) do
            place << true
            @running += 1
          end
        end
      end

      def come_back(place)
        @lock.synchronize do
          @aside -= 1
          @running += 1 if place.empty?
          call_overflow
          next unless @hired > @aside

          @hired -= 1
          @retiring += 1
          @changed.broadcast
        end
      end

      def tell_idle
        return unless @on_idle && @ordinary.zero?

        @on_idle.call
        @on_idle = nil
      end
    end
  end
end
