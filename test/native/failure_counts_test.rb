# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"

class FailureCountsTest < Minitest::Test
  BEFORE = [["a", 3, :UNKNOWN_TOPIC_OR_PART, 1]].freeze

  def error(*rows) = Pelton::Producer::FailureCounts.error(BEFORE, BEFORE + rows)

  def test_error_of_a_new_failure_is_the_brokers_if_there_is_one
    assert_nil error
    late = ["a", -192, :_MSG_TIMED_OUT, 2]
    assert_equal [:_MSG_TIMED_OUT, "a", false], error(late).then { |it| [it.name, it.topic, it.abortable?] }
    dropped = ["a", -152, :_PURGE_QUEUE, 5]
    assert_nil error(dropped)
    assert_equal :_MSG_TIMED_OUT, error(late, dropped).name
    refused = error(late, ["b", 10, :MSG_SIZE_TOO_LARGE, 1])
    assert_equal "Broker: Message size too large (MSG_SIZE_TOO_LARGE, 10) for b", refused.message
  end

  def test_one_more_failure_of_the_same_kind_is_new
    assert_equal :UNKNOWN_TOPIC_OR_PART, Pelton::Producer::FailureCounts.error(BEFORE, [[*BEFORE.first[0..2], 2]]).name
  end
end
