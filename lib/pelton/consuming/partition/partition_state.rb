# frozen_string_literal: true

require_relative "../../runtime/clock"

module Pelton
  module Consuming
    # What holds the jobs of a partition besides its messages, or asks for some: the user's pause, ticks, the end of the
    # partition. Not thread-safe, its coordinator's lock guards it.
    class PartitionState
      # When the pause ends; Float::INFINITY: with `resume`; nil: there is none.
      attr_reader :paused_until
      # Was the end of the partition reached, and nothing came since?
      attr_accessor :at_end

      # every: seconds between two ticks; nil: none.
      #: (Numeric?) -> void
      def initialize(every)
        @every = every
        # Monotonic seconds.
        @tick_at = every && (Clock.now + every)
        @paused_until = nil
        @at_end = false
      end

      # Until then, nil: until `resume`. Returns until when it was paused before; nil: it was not.
      #: (Float?) -> Float?
      def pause(deadline)
        @paused_until.tap { @paused_until = deadline || Float::INFINITY }
      end

      # The pause until then does not count, unless another came since. before: what `pause` returned.
      #: (Float?, Float?) -> void
      def take_back(deadline, before)
        @paused_until = before if @paused_until == (deadline || Float::INFINITY)
      end

      #: () -> void
      def resume = @paused_until = nil

      #: () -> bool
      def paused? = !@paused_until.nil?

      # The time is `now`. Returns whether a tick is due.
      #: (Float) -> bool
      def wake(now)
        resume if paused? && @paused_until <= now
        return false unless @tick_at && @tick_at <= now

        @tick_at = now + @every
        true
      end

      # When `wake` has something to do; nil: never.
      #: () -> Float?
      def wake_at
        return @tick_at if @paused_until.nil? || @paused_until == Float::INFINITY
        return @paused_until if @tick_at.nil?

        [@tick_at, @paused_until].min
      end
    end
  end
end
