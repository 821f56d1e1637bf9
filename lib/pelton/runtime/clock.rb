# frozen_string_literal: true

require_relative "../errors"

module Pelton
  # Time for deadlines and durations: monotonic seconds. The wall clock is for comparisons with messages' timestamps.
  module Clock
    # Longer times (30 years) count as no limit, because Ruby cannot wait for 1e300 s.
    EVER = 1e9
    private_constant :EVER

    module_function

    #: () -> Float
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Seconds since 1970.
    #: () -> Float
    def wall = Process.clock_gettime(Process::CLOCK_REALTIME)

    # Returns the timeout if it is valid: seconds >= 0, or nil for no limit. Raises ConfigError otherwise.
    #: (Numeric?) -> Numeric?
    def check(timeout)
      return if timeout.nil?
      return timeout if timeout.is_a?(Numeric) && timeout.real? && timeout >= 0 && timeout.to_f.finite?

      raise ConfigError.new(:timeout, timeout, "expected a number of seconds >= 0 or nil")
    end

    # The time at which this timeout ends; nil for nil. Raises ConfigError for an invalid timeout.
    #: (Numeric?) -> Float?
    def deadline(timeout) = check(timeout) && timeout < EVER ? now + timeout : nil

    # Seconds left until a deadline, never less than 0; nil (no limit) for nil.
    #: (Float?) -> Float?
    def left(deadline)
      return unless deadline

      seconds = deadline - now
      seconds.positive? ? seconds : 0.0
    end

    # Waits, before another round of something. Can be interrupted; under a Fiber.scheduler only the fiber waits.
    #: (Numeric) -> void
    def wait(seconds)
      deadline = deadline(seconds)
      lock = Mutex.new
      lock.synchronize { ConditionVariable.new.wait(lock, left(deadline)) until left(deadline)&.zero? }
    end
  end
end
