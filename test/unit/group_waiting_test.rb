# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# A group that joins, and gets no answer for long.
class GroupWaitingTest < Minitest::Test
  include ServerKit

  # After `kill -9`, the next server was silent for 45 s.
  def test_a_group_that_waits_for_its_first_partitions_says_so
    timers = start.instance_variable_get(:@listeners).first.instance_variable_get(:@timers)
    eventually { timers.pending.include?(:join) }
    timers.set(:join, Pelton::Clock.now)
    subscription.wake
    waiting = event("group.waiting")
    assert_equal "g", waiting[:group]
    assert_operator waiting[:seconds], :>=, 0
    refute_includes timers.pending, :join, "once"
  end

  def test_a_group_that_has_got_its_partitions_does_not_say_that_it_waits
    timers = start.instance_variable_get(:@listeners).first.instance_variable_get(:@timers)
    eventually { timers.pending.include?(:join) }
    subscription.assign_now
    event("rebalance.finished")
    refute_includes timers.pending, :join
  end

  # It named a killed member, although the topic did not exist.
  def test_a_group_whose_client_has_reported_an_error_names_no_other_reason
    timers = start.instance_variable_get(:@listeners).first.instance_variable_get(:@timers)
    eventually { timers.pending.include?(:join) }
    subscription.push(:error, Pelton::KafkaError.new(3, "UNKNOWN_TOPIC_OR_PART", "no topic", false, false), nil, nil)
    event("error.occurred")
    refute_includes timers.pending, :join
  end
end
