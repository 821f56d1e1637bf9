# frozen_string_literal: true

require "test_helper"

# For test/unit/runner_test.rb: a file whose only test is skipped.
class AllSkipped < Minitest::Test
  def test_skipped = skip("it cannot run here")
end
