# frozen_string_literal: true

module Pelton
  # Time for deadlines and durations: monotonic seconds. The wall clock is for comparisons with messages' timestamps.
  module Clock
    module_function

    #: () -> Float
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Seconds since 1970.
    #: () -> Float
    def wall = Process.clock_gettime(Process::CLOCK_REALTIME)

    # The seconds left until a point of time, never less than 0; nil (forever) for nil.
    #: (Float?) -> Float?
    def left(deadline)
      return unless deadline

      seconds = deadline - now
      seconds.positive? ? seconds : 0.0
    end
  end
end
