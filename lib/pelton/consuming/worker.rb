# frozen_string_literal: true

require_relative "../runtime/threads"

module Pelton
  module Consuming
    # A thread that runs jobs. If the user's code kills it (Thread#kill, Thread.exit), its job is told so and another
    # thread takes its place.
    class Worker
      attr_reader :name, :thread

      #: (String, JobsQueue, Notifications, ?Integer) -> void
      def initialize(name, jobs, bus, priority = 0)
        @name = name
        @priority = priority
        @jobs = jobs
        @bus = bus
        # The thread that runs now; set by `start`, from the server's thread or the dying predecessor.
        @thread = nil
        # Nobody takes its place any more: it was killed by `kill`, or got no job.
        @ended = false
      end

      #: () -> self
      def start
        # The new thread begins with what we defer: one killed before its first step is replaced, too.
        Thread.handle_interrupt(Object => :never) do
          @thread = Threads.start(@name, priority: @priority, report: method(:report)) { work }
        end
        self
      end

      # Did it end, with no thread to take its place?
      #: () -> bool
      def over? = @ended && !@thread.alive?

      # Ends the thread, whatever it does. For a forced stop.
      #: () -> void
      def kill
        @ended = true
        @thread&.kill
      end

      private

      # A kill or raise from outside takes effect in the user's code (see Executor#perform) or while there is no job,
      # never between the two: a job that was popped is run, one that was run is settled.
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
