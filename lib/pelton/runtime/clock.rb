# frozen_string_literal: true

require_relative "../errors"

module Pelton
  # Time for deadlines and durations: monotonic seconds. The wall clock is for comparisons with messages' timestamps.
  module Clock
    # More seconds than that (30 years) are for ever: Ruby cannot wait for 1e300 s.
    EVER = 1e9
    private_constant :EVER

    module_function

    #: () -> Float
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Seconds since 1970.
    #: () -> Float
    def wall = Process.clock_gettime(Process::CLOCK_REALTIME)

    # The same, if it is a time to wait: seconds >= 0, or nil for ever. Raises ConfigError.
    #: (Numeric?) -> Numeric?
    def check(timeout)
      return if timeout.nil?
      return timeout if timeout.is_a?(Numeric) && timeout.real? && timeout >= 0 && timeout.to_f.finite?

      raise ConfigError.new(:timeout, timeout, "expected a number of seconds >= 0 or nil")
    end

    # The point of time so many seconds from now; nil for nil. Raises ConfigError for what is no time to wait.
    #: (Numeric?) -> Float?
    def deadline(timeout) = check(timeout) && timeout < EVER ? now + timeout : nil

    # The seconds left until a point of time, never less than 0; nil (forever) for nil.
    #: (Float?) -> Float?
    def left(deadline)
      return unless deadline

      seconds = deadline - now
      seconds.positive? ? seconds : 0.0
    end
  end
end
