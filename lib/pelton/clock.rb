# frozen_string_literal: true

module Pelton
  # Time for deadlines and durations: monotonic seconds, never the wall clock.
  module Clock
    module_function

    #: () -> Float
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # The seconds left until a point of time, never less than 0; nil (forever) for nil.
    #: (Float?) -> Float?
    def left(deadline)
      return unless deadline

      seconds = deadline - now
      seconds.positive? ? seconds : 0.0
    end
  end
end
