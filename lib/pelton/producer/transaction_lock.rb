# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"

module Pelton
  class Producer
    # Lets one fiber at a time run a transaction of a producer. Unlike a Mutex, it raises an error instead of waiting
    # forever, is free again when its owner's thread is dead, and can be closed.
    class TransactionLock
      # After this many seconds, a waiting thread checks whether the owner's thread is alive. A fiber that is dropped in
      # its transaction runs no ensure.
      PATIENCE = 1
      # Made in advance: an interrupt may come while an ensure builds a Hash.
      NEVER = { Object => :never }.freeze
      private_constant :PATIENCE, :NEVER

      # owner_name: the producer in error messages, "producer pelton.producer#1". limit: returns how many seconds to
      # wait for another fiber's transaction. The block runs when the owner leaves, before another fiber may enter.
      #: (String, limit: ^() -> Numeric) { () -> void } -> void
      def initialize(owner_name, limit:, &on_leave)
        @owner_name = owner_name
        @limit = limit
        @on_leave = on_leave
        @lock = Mutex.new
        # Signaled when the owner leaves.
        @free = ConditionVariable.new
        # The fiber that runs a transaction, its thread, and since when (monotonic seconds). Written under @lock.
        @owner = nil
        @thread = nil
        @since = nil
        @closing = false
      end

      # Runs the block as the owner. Raises WaitTimeout after `limit` seconds, ClosedError after `close`, and
      # TransactionError if another fiber of this thread is the owner.
      #: () { () -> untyped } -> untyped
      def synchronize
        enter
        yield
      ensure
        # The whole `leave` is protected: an interrupt before it would leave the owner behind.
        Thread.handle_interrupt(NEVER) { leave if mine? }
      end

      # Is this fiber the owner?
      #: () -> bool
      def mine? = @owner.equal?(Fiber.current)

      # Is another thread, which the end of the process kills, the owner?
      #: () -> bool
      def other_thread? = !@owner.nil? && !@thread.equal?(Thread.main) && @thread.alive?

      # Lets no further fiber enter, and waits for the owner until the deadline.
      #: (Float?) -> void
      def close(deadline)
        @lock.synchronize do
          @closing = true
          @free.broadcast
          wait(deadline) while occupied? && !Clock.left(deadline)&.zero?
        end
      end

      private

      def enter
        @lock.synchronize do
          came = Clock.now
          while occupied?
            raise TransactionError.new(@owner_name, :other_fiber) if deadlock?

            check_patience(came)
            wait(nil)
          end
          raise ClosedError, @owner_name if @closing

          @owner = Fiber.current
          @thread = Thread.current
          @since = Clock.now
        end
      end

      # A transaction that Kafka has ended by now may wait for this thread, by joining it for example.
      def check_patience(came)
        limit = @limit.call
        raise WaitTimeout.new("another thread's transaction", nil, limit) if Clock.now - [came, @since].max > limit
      end

      def leave
        @lock.synchronize do
          @on_leave.call
          @owner = @thread = nil
          # Wake all: a thread in `close` may be among them.
          @free.broadcast
        end
      end

      def occupied? = @owner && @thread.alive?
      def deadlock? = @thread.equal?(Thread.current) && (Fiber.current.blocking? || !Fiber.scheduler)
      def wait(deadline) = @free.wait(@lock, [PATIENCE, *Clock.left(deadline)].min)
    end
  end
end
