# frozen_string_literal: true

module Pelton
  module Consuming
    # A Mutex for short sections that have to be whole: who holds it is not interrupted. A Thread#kill, a Timeout or any
    # other Thread#raise comes when the section is over, be it waited for. (What a signal's handler raises in the main
    # thread does not wait: Ruby has no word for that.)
    class Lock
      # Compared by identity, Ruby takes it as it is: no copy a call.
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
