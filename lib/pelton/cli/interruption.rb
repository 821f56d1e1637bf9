# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../server/signals"

module Pelton
  class CLI
    # Ctrl-C (INT) and TERM during a long command. The first one asks the loop to stop: at once if it waits, otherwise
    # after the current item. The second one ends the process at once. Use it in the main thread.
    #   interruption.each(app.each("orders", follow: true)) { |message| … }
    #   puts "stopped at #{place}" if interruption.requested?
    class Interruption
      # Raised by the signal handler where the main thread waits.
      class Stop < ::Interrupt; end
      private_constant :Stop

      def initialize
        @requested = false
        # true: no item is in work, so the wait may end.
        @waiting = false
        @signals = Signals.new(%w[INT TERM]) { handle }
      end

      # true after the first signal.
      #: () -> bool
      def requested? = @requested
      # A redrive asks it so, as it asks a Background::Stop.
      alias stop? requested?

      # Yields each item until there is none, or a signal came. It never stops inside of the block.
      #: (_Each[untyped]) { (untyped) -> void } -> void
      def each(items)
        interruptible do
          items.each do |item|
            @waiting = false
            yield item
            @waiting = true
            break if @requested
          end
        end
      end

      # Runs the block, which changes nothing, such as a question; the first signal ends it. Returns what the block
      # returns; nil after a signal.
      #: [T] () { () -> T } -> T?
      def during(&block) = interruptible(&block)

      # Waits. Returns true if a signal came.
      #: (Numeric) -> bool
      def wait(seconds)
        interruptible { Clock.wait(seconds) }
        @requested
      end

      # Puts the earlier handlers back.
      #: () -> void
      def restore = @signals.restore

      private

      def interruptible
        @waiting = true
        yield unless @requested
      rescue Stop
        nil
      ensure
        @waiting = false
      end

      def handle
        exit!(130) if @requested
        @requested = true
        raise Stop if @waiting
      end
    end
  end
end
