# frozen_string_literal: true

module Pelton
  # How long to wait before the next attempt. The first wait is `minimum`; each further one doubles, up to `maximum`. A
  # random part of up to a fifth is subtracted, so that clients that failed together do not retry together.
  #   Backoff.new(1, 30).delay(1) # => 0.8 … 1.0
  #   Backoff.new(1, 30).delay(9) # => 24.0 … 30.0
  class Backoff
    JITTER = 0.2

    attr_reader :minimum, :maximum

    #: (Numeric, Numeric, ?random: Random | singleton(Random)) -> void
    def initialize(minimum = 1, maximum = 30, random: Random)
      @minimum = minimum.to_f
      @maximum = maximum.to_f
      @random = random
      freeze
    end

    # Seconds to wait after the n-th failure (the first is 1).
    #: (Integer) -> Float
    def delay(failures) = longest(failures) * (1.0 - (JITTER * @random.rand))

    # The most that it can be.
    #: (Integer) -> Float
    def longest(failures) = [@minimum * (2.0**[failures - 1, 64].min), @maximum].min
  end
end
