# frozen_string_literal: true

require "test_helper"

# For test/unit/runner_test.rb: tests that make no assertion, and some that do.
class NoAssertion < Minitest::Test
  def setup = assert(true)
  def teardown = assert(true)

  def test_nothing = 1 + 1
  def test_an_assertion = assert_equal(2, 1 + 1)
  def test_a_condition_that_is_waited_for = eventually { true }
end
