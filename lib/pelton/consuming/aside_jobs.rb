# frozen_string_literal: true

module Pelton
  module Consuming
    # Jobs that wait for Kafka and do not count as running, so other jobs may run meanwhile (see JobsQueue#aside). Each
    # keeps the thread of a worker, so additional workers are started for the others, and there is a limit. Beyond it, a
    # job that can be called again ends, waits without a thread, and goes to a worker again when an earlier job is back.
    # Not thread-safe: the jobs queue's lock guards it, except for `spawn`.
    class AsideJobs
      # Most jobs that are aside at a time.
      LIMIT = 100
      private_constant :LIMIT

      # Jobs that are aside now, with a thread.
      #: () -> Integer
      attr_reader :count
      # Starts another worker; nil: no job can be aside.
      #: () -> (^() -> void)?
      attr_accessor :spawn_worker

      # lock: the jobs queue's.
      #: (Mutex) -> void
      def initialize(lock)
        @lock = lock
        @spawn_worker = nil
        @count = 0
        # Workers that were started in addition, because jobs are aside.
        @extra_workers = 0
        # {job => true}: jobs beyond the limit whose worker is not done with them yet.
        @ending = {}.compare_by_identity
        # {job => its topic}: jobs beyond the limit that wait, in the order in which they ended.
        @waiting = {}.compare_by_identity
        # {job => true}: jobs that waited, and went to the workers again. A place below the limit is reserved for each.
        @reserved = {}.compare_by_identity
      end

      # Jobs that are aside, or wait because of the limit.
      #: () -> Integer
      def size = @count + @ending.size + @waiting.size

      # Does a job wait because of the limit?
      #: () -> bool
      def waiting? = !@waiting.empty?

      # The job is aside from now on; false: the limit is reached.
      #: (Job) -> bool
      def enter(job)
        return false unless unreserve(job) || free.positive?

        @count += 1
        true
      end

      # A job is not aside any more.
      #: () -> void
      def leave = @count -= 1

      # The job cannot be aside. With `later`, it will end now and be called again with this as its `later`. Returns
      # false.
      #: (Job, untyped) -> bool
      def put_off(job, later)
        if later
          job.later = later
          @ending[job] = true
        end
        false
      end

      # A worker is done with the job. Returns false if the job will be called again.
      #: (Job, untyped) -> bool
      def finished(job, topic)
        @reserved.delete(job)
        return true unless @ending.delete(job)

        @waiting[job] = topic
        false
      end

      # Gives waiting jobs to the block, as many as the limit allows.
      #: () { (Job, untyped) -> void } -> void
      def call_waiting
        while free.positive? && (job, topic = @waiting.first)
          @waiting.delete(job)
          @reserved[job] = true
          yield job, topic
        end
      end

      # Removes the job's reservation; false: it had none.
      #: (Job) -> bool
      def unreserve(job) = !@reserved.delete(job).nil?

      # Takes back a job that has no worker, or is about to have none.
      #: (Job) -> bool
      def delete(job) = !(@ending.delete(job) || @waiting.delete(job)).nil?

      # Is another worker needed, in addition to those whose jobs are aside? Then counts it; call `spawn` next. waiting:
      # number of jobs that wait and that no idle worker will take.
      #: (Integer) -> bool
      def worker_wanted?(waiting)
        return false unless @extra_workers < @count && waiting.positive?

        @extra_workers += 1
        true
      end

      # Starts the worker that was counted. Without the lock. If the process cannot start another thread, the jobs wait
      # for the workers that run.
      #: () -> void
      def spawn
        spawned = false
        @spawn_worker.call
        spawned = true
      rescue ThreadError
        nil
      ensure
        @lock.synchronize { @extra_workers -= 1 } unless spawned
      end

      # Are more additional workers running than jobs aside? Then one of them shall end, and counts no more.
      #: () -> bool
      def release_worker
        return false unless @extra_workers > @count

        @extra_workers -= 1
        true
      end

      private

      def free = LIMIT - @count - @reserved.size
    end
  end
end
