# frozen_string_literal: true

require_relative "threads"

module Pelton
  # Wakes fibers that wait for native threads. Under a Fiber.scheduler, a fiber that waits for Pelton is blocked by its
  # scheduler. Native threads put the fiber's id into a mailbox. One Ruby thread of the process, "pelton.fibers", takes
  # ids from there and asks the schedulers to unblock the fibers. Only the native extension calls this (gvl.rs).
  module Fibers
    # Waiting fibers: {id => [scheduler, blocker, fiber, thread]}. Each access is one operation under the GVL, so no
    # Mutex.
    WAITING = {} # rubocop:disable Style/MutableConstant
    LOCK = Mutex.new
    # With fewer waiting fibers, `enter` does not look for dead ones.
    FEW = 100
    private_constant :WAITING, :LOCK, :FEW

    # The thread that unblocks fibers. Set under LOCK.
    @thread = nil
    # With this many waiting fibers, `enter` looks for dead ones.
    @most = FEW

    class << self
      # The current fiber is about to wait. Returns false if it cannot wait here (in a signal handler), so its thread
      # must.
      #: (Integer, untyped, untyped) -> bool
      def enter(id, scheduler, blocker)
        start unless @thread&.alive?
        forget_dead if WAITING.size >= @most
        WAITING[id] = [scheduler, blocker, Fiber.current, Thread.current]
        true
      rescue ThreadError
        false
      end

      # The fiber no longer waits.
      #: (Integer) -> void
      def leave(id)
        WAITING.delete(id)
        nil
      end

      private

      # Fibers of a killed thread are never resumed, so they never call `leave`.
      def forget_dead
        WAITING.to_a.each { |id, waiting| WAITING.delete(id) unless waiting.last.alive? }
        @most = FEW + (2 * WAITING.size)
      end

      # Starts the thread, also after a fork, which threads do not survive.
      def start
        LOCK.synchronize do
          @thread = Threads.start("pelton.fibers") { loop { unblock_next } } unless @thread&.alive?
        end
      end

      def unblock_next
        Native.next_fibers(nil).each do |id|
          scheduler, blocker, fiber, thread = WAITING[id]
          scheduler.unblock(blocker, fiber) if thread&.alive?
        rescue StandardError => e
          # For example, the scheduler is already closed. Other fibers are still unblocked.
          $stderr.write("pelton.fibers: #{e.class}: #{e.message}\n")
        end
      end
    end
  end
end
