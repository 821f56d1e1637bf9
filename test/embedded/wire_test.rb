# frozen_string_literal: true

# once: this is about librdkafka, whatever the Ruby

require "test_helper"
require "harness/wire"

# What answers on a broker's port is no broker, or a bad one: no client hangs, takes much memory or crashes, but for the
# crashes that librdkafka has (Wire::KNOWN). bin/fuzz wire has more of them.
class WireTest < Minitest::Test
  def test_answers_that_no_broker_gives
    wire = Wire.new(seed: 1, inputs: FalseBroker::MODES.size).call
    assert_empty wire.problems
    assert_equal FalseBroker::MODES.size, wire.clients
  end
end
