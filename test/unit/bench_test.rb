# frozen_string_literal: true

require "test_helper"
require_relative "../../bench/support"

# What benches make of their rounds.
class BenchTest < Minitest::Test
  def test_the_median_of_two_rounds_is_not_their_maximum
    assert_in_delta 150, Bench.median([200, 100])
    assert_equal 2, Bench.median([3, 1, 2])
    assert_in_delta 2.5, Bench.median([4, 1, 2, 3])
    assert_equal 7, Bench.median([7])
  end
end
