# frozen_string_literal: true

module Pelton
  module Consuming
    # A Mutex for short sections that must run completely. The thread that holds it is not interrupted: a Thread#kill, a
    # Timeout or another Thread#raise takes effect after the section. The same holds while a thread waits for the lock.
    # Only an error that a signal handler raises in the main thread is not deferred, because Ruby cannot do that.
    class Lock
      # Ruby does not copy a Hash that compares by identity, so a call allocates nothing.
      NEVER = { Object => :never }.compare_by_identity.freeze
      private_constant :NEVER

      def initialize
        @mutex = Mutex.new
      end

      #: () { () -> untyped } -> untyped
      def synchronize(&section)
        Thread.handle_interrupt(NEVER) { @mutex.synchronize(&section) }
      end
    end
  end
end
