# frozen_string_literal: true

require_relative "../../runtime/threads"
require_relative "work"

module Pelton
  module Parallel
    # A pool's worker that is a thread, for every Ruby. It has the same methods as RactorWorker. Used by the
    # dispatcher's thread only.
    class ThreadWorker
      # A queue with the methods of a Ractor::Port.
      class Mailbox < Thread::Queue
        alias receive pop

        # Does nothing, because workers may still report their end.
        def close = nil
      end

      #: () -> Mailbox
      def self.mailbox = Mailbox.new

      # The reason why a worker cannot use this object: always nil.
      #: (untyped) -> nil
      def self.refusal(_object) = nil

      attr_reader :id
      # The task that it has not finished, or nil.
      attr_reader :task

      # port: receives [:ready, id], [:done, id, values, errors] and, at the end, :exited.
      #: (String, Integer, Mailbox) -> void
      def initialize(name, id, port)
        @id = id
        @port = port
        @orders = Thread::Queue.new
        @task = nil
        @ready = false
        @ended = false
        # The thread inherits deferred interrupts, so one that is killed before its first step reports its end, too.
        @thread = Thread.handle_interrupt(Object => :never) { Threads.start(name) { live } }
      end

      #: () -> bool
      def ready? = @ready
      #: () -> bool
      def free? = @ready && @task.nil?
      #: () -> void
      def ready(_control = nil) = @ready = true
      #: () -> bool
      def alive? = !@ended

      # Returns false if the worker has ended and did not take the task.
      #: (Task) -> bool
      def give(task)
        return false if @ended

        @task = task
        @orders << [task.inputs, task.job]
        true
      end

      # Returns the worker's task and removes it.
      #: () -> Task?
      def take_back = @task.tap { @task = nil }

      # Ends the worker after its current task.
      #: () -> void
      def stop = @orders << nil
      #: () -> void
      def kill = @thread.kill

      # The errors of a worker's answer, by index.
      #: (Hash[Integer, Exception]) -> Hash[Integer, Exception]
      def errors(failures) = failures

      private

      def live
        Thread.handle_interrupt(Object => :immediate) do
          @port << [:ready, @id]
          nil while work(@orders.pop)
        end
      ensure
        @ended = true
        @port << :exited
      end

      # A separate method, so that the wait for the next order does not keep this one's objects alive.
      def work(order) = order && (@port << [:done, @id, *Work.run(*order)])
    end
  end
end
