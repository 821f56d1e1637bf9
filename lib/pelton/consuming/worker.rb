# frozen_string_literal: true

require_relative "../runtime/threads"

module Pelton
  module Consuming
    # A thread that runs jobs. If the user's code kills it (Thread#kill, Thread.exit), the job fails with WorkerKilled,
    # and the worker starts another thread.
    class Worker
      attr_reader :name, :thread

      #: (String, JobsQueue, Notifications, ?Integer) -> void
      def initialize(name, jobs, bus, priority = 0)
        @name = name
        @priority = priority
        @jobs = jobs
        @bus = bus
        # The current thread of the worker; set by `start`, which the server's thread or the killed thread calls.
        @thread = nil
        # No other thread is started any more: the worker was ended by `kill`, or got no job.
        @ended = false
      end

      #: () -> self
      def start
        # The new thread inherits the deferral, so it is replaced even if it is killed before its first step.
        Thread.handle_interrupt(Object => :never) do
          @thread = Threads.start(@name, priority: @priority, report: method(:report)) { work }
        end
        self
      end

      # Did it end, and is no other thread started?
      #: () -> bool
      def over? = @ended && !@thread.alive?

      # Kills the thread, also in the middle of a job. For a forced stop.
      #: () -> void
      def kill
        @ended = true
        @thread&.kill
      end

      private

      # A kill or raise by another thread takes effect in the user's code (see Executor#perform) or while there is no
      # job, never between the two. So a popped job always runs, and a job that ran is always settled.
      def work
        Thread.handle_interrupt(Object => :never) do
          while (job = Thread.handle_interrupt(Threads::ON_BLOCKING) { @jobs.pop })
            begin
              job.call
            ensure
              job.clear if @jobs.finished(job)
              job = nil
            end
          end
          @ended = true
        end
      ensure
        replace unless @ended
      end

      def replace
        start
        @bus.publish("worker.replaced", worker: @name)
      end

      def report(error) = @bus.publish("error.occurred", error: error, source: "worker")
    end
  end
end
