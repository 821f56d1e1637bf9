# frozen_string_literal: true

require_relative "../../runtime/threads"
require_relative "work"

module Pelton
  module Parallel
    # A pool's worker that is a thread: the twin of RactorWorker, for every Ruby. Used by the dispatcher's thread only.
    class ThreadWorker
      # A queue as a Ractor::Port.
      class Mailbox < Thread::Queue
        alias receive pop

        # Workers may still tell of their ends.
        def close = nil
      end

      #: () -> Mailbox
      def self.mailbox = Mailbox.new

      # Can it be given this? Everything can.
      #: (untyped) -> nil
      def self.refusal(_object) = nil

      attr_reader :id
      # What it was given and has not done.
      attr_reader :part

      # port: where it says [:ready, id], [:done, id, values, errors] and, at its end, :exited.
      #: (String, Integer, Mailbox) -> void
      def initialize(name, id, port)
        @id = id
        @port = port
        @orders = Thread::Queue.new
        @part = nil
        @ready = false
        @ended = false
        # With the interrupts deferred that the new thread inherits: one killed before its first step says so, too.
        @thread = Thread.handle_interrupt(Object => :never) { Threads.start(name) { live } }
      end

      #: () -> bool
      def ready? = @ready
      #: () -> bool
      def free? = @ready && @part.nil?
      #: () -> void
      def ready(_control = nil) = @ready = true
      #: () -> bool
      def alive? = !@ended

      # false: it has ended, and has not taken it.
      #: (Part) -> bool
      def give(part)
        return false if @ended

        @part = part
        @orders << [part.inputs, part.job]
        true
      end

      # The part that it was given: it has it no more.
      #: () -> Part?
      def take_back = @part.tap { @part = nil }

      # It ends when it has done what it was given.
      #: () -> void
      def stop = @orders << nil
      #: () -> void
      def kill = @thread.kill

      # Errors by index, as a worker told them.
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

      # A method of its own, so that nothing of it is kept alive by who waits for the next.
      def work(order) = order && (@port << [:done, @id, *Work.run(*order)])
    end
  end
end
