# frozen_string_literal: true

require_relative "threads"

module Pelton
  # Waking fibers that wait for native threads. A fiber under a Fiber.scheduler that waits for Pelton is blocked by its
  # scheduler; native threads put its id into a mailbox, and one Ruby thread of the process, "pelton.fibers", takes ids
  # from there and has the schedulers unblock their fibers. Called by the native extension only (gvl.rs).
  module Fibers
    # Waiting fibers: {id => [scheduler, blocker, fiber, thread]}. Each access is one operation under the GVL, so no
    # Mutex.
    WAITING = {} # rubocop:disable Style/MutableConstant
    LOCK = Mutex.new
    # So many may wait before anybody looks for dead ones among them.
    FEW = 100
    private_constant :WAITING, :LOCK, :FEW

    # The thread that unblocks, and the process it was started in. Set under LOCK.
    @thread = nil
    # How many wait when the dead ones are looked for next.
    @most = FEW

    class << self
      # The current fiber is going to wait. false: it cannot here (in a trap context), so its thread has to.
      #: (Integer, untyped, untyped) -> bool
      def enter(id, scheduler, blocker)
        start unless @thread&.alive?
        forget_dead if WAITING.size >= @most
        WAITING[id] = [scheduler, blocker, Fiber.current, Thread.current]
        true
      rescue ThreadError
        false
      end

      # The fiber does not wait any more.
      #: (Integer) -> void
      def leave(id)
        WAITING.delete(id)
        nil
      end

      private

      # Fibers of a thread that was killed never leave: nobody resumes them.
      def forget_dead
        WAITING.to_a.each { |id, waiting| WAITING.delete(id) unless waiting.last.alive? }
        @most = FEW + (2 * WAITING.size)
      end

      # Also after a fork: threads do not survive one.
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
          # A scheduler that is closed already: its other fibers are no worse off.
          warn("pelton.fibers: #{e.class}: #{e.message}")
        end
      end
    end
  end
end
