# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # Whether a partition may start jobs, besides its messages: the user's pause, ticks, the end of the partition's log,
    # and a stop after a failure. Not thread-safe: the coordinator's lock guards it.
    class PartitionState
      # When the pause ends (monotonic seconds). Float::INFINITY: at `resume`; nil: the partition is not paused.
      attr_reader :paused_until
      # true: the end of the log was reached, and no message came since.
      attr_accessor :at_end
      # The offset at which the partition stopped after a failure: no message is begun until a seek. nil: it did not.
      attr_accessor :stopped

      # every: seconds between two ticks; nil: no ticks.
      #: (Numeric?) -> void
      def initialize(every)
        @every = every
        # When the next tick is due (monotonic seconds); nil: no ticks.
        @tick_at = every && (Clock.now + every)
        @paused_until = nil
        @stopped = nil
        @at_end = false
      end

      # Pauses until `deadline`, or until `resume` if that is nil. Returns until when it was paused before; nil: it was
      # not.
      #: (Float?) -> Float?
      def pause(deadline)
        @paused_until.tap { @paused_until = deadline || Float::INFINITY }
      end

      # Undoes the pause until `deadline`, unless another pause came since. before: what `pause` returned.
      #: (Float?, Float?) -> void
      def undo_pause(deadline, before)
        @paused_until = before if @paused_until == (deadline || Float::INFINITY)
      end

      #: () -> void
      def resume = @paused_until = nil

      #: () -> bool
      def paused? = !@paused_until.nil?

      # Ends a pause whose time has come. Returns true if a tick is due.
      #: (Float) -> bool
      def wake(now)
        resume if paused? && @paused_until <= now
        return false unless @tick_at && @tick_at <= now

        @tick_at = now + @every
        true
      end

      # The next time for `wake`; nil: none.
      #: () -> Float?
      def wake_at
        return @tick_at if @paused_until.nil? || @paused_until == Float::INFINITY
        return @paused_until if @tick_at.nil?

        [@tick_at, @paused_until].min
      end
    end
  end
end
