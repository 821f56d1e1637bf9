# frozen_string_literal: true

require_relative "../runtime/backoff"
require_relative "../runtime/clock"

module Pelton
  module Testing
    # The time of one test: it stands still, and only `move_to` moves it. Pelton's Clock returns it to the thread that
    # runs the test; other threads see the real time. Ruby's own Time and sleep are not changed.
    class VirtualClock
      # Prepended to Pelton::Clock's methods when this file is loaded.
      module Current
        def now = VirtualClock.current&.now || super
        def wall = VirtualClock.current&.wall || super

        # A wait takes real time, so it ends also while the clock stands still.
        def left(deadline)
          clock = VirtualClock.current
          clock && deadline ? [super - clock.stood_still, 0.0].max : super
        end
      end

      VARIABLE = :pelton_virtual_clock
      private_constant :VARIABLE

      class << self
        # The clock of this thread, or nil.
        #: () -> VirtualClock?
        def current = Thread.current.thread_variable_get(VARIABLE)

        # Sets the clock of this thread; nil: the real one.
        #: (VirtualClock?) -> void
        def current=(clock)
          Thread.current.thread_variable_set(VARIABLE, clock)
        end
      end

      # Seconds that a due time may lie behind the time that `travel` names, because of rounding.
      TOLERANCE = 0.001

      # Monotonic seconds, as Clock.now.
      #: () -> Float
      attr_reader :now

      def initialize
        @now = @started = real.floor(3)
        # In the middle of a millisecond: what is due in whole ones after a message's timestamp is due, then.
        @wall = Process.clock_gettime(Process::CLOCK_REALTIME).floor(3) + 0.0005
        @moved = real
      end

      # Seconds since 1970.
      #: () -> Float
      def wall = @wall + (@now - @started)

      # Seconds of real time since the clock was moved.
      #: () -> Float
      def stood_still = real - @moved

      # Moves it forward to this time, never back.
      #: (Float) -> void
      def move_to(time)
        @now = [@now, time].max
        @moved = real
      end

      private

      def real = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # Back-offs of a test are not random: always the longest.
    module ExactBackoff
      def delay(failures) = VirtualClock.current ? longest(failures) : super
    end

    Clock.singleton_class.prepend(VirtualClock::Current)
    Backoff.prepend(ExactBackoff)
  end
end
