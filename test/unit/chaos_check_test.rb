# frozen_string_literal: true

require "test_helper"
require "harness/chaos_check"
require "harness/options"

# The check behind bin/chaos sees what it is there for.
class ChaosCheckTest < Minitest::Test
  # Two keys in partition 0, one of them with a gap: its producer was killed before it heard of number 1.
  LOG = { 0 => [["a", 0, 0], ["b", 0, 1], ["a", 2, 2], ["b", 1, 3]] }.freeze
  DONE = [["a", 0], ["b", 0], ["a", 2], ["b", 1]].freeze

  def test_all_is_well
    check = ChaosCheck.new(LOG)
    check.confirmed([["a", 0], ["a", 2]])
    assert_equal 0, check.done(rows(DONE))
    assert_empty check.problems
    assert_equal 4, check.messages
  end

  def test_a_confirmed_message_that_is_not_in_the_topic_is_lost
    check = ChaosCheck.new(LOG)
    check.confirmed([["a", 0], ["a", 1], ["c", 0]])
    assert_equal ["confirmed, but not in the topic: 2, a/1, c/0"], check.problems
  end

  def test_message_that_no_member_processed_is_lost
    check = ChaosCheck.new(LOG)
    check.done(rows(DONE - [["b", 1]]))
    assert_equal ["b: lost 1"], check.problems
  end

  def test_key_out_of_order_is_reported
    check = ChaosCheck.new(LOG)
    check.done(rows([["a", 2], ["a", 0], ["b", 0], ["b", 1]]))
    assert_equal ["a: 1/2 did 1 before 0"], check.problems
  end

  def test_repeated_messages_are_counted
    check = ChaosCheck.new(LOG)
    assert_equal 2, check.done(rows(DONE) + rows([["b", 0], ["b", 1]], pid: 7))
    assert_empty check.problems
  end

  def test_produced_message_that_is_duplicated_or_out_of_order_is_reported
    check = ChaosCheck.new(0 => [["a", 1, 0], ["a", 1, 1], ["a", 0, 2]])
    assert_equal ["more than once in the topic: 1, a/1", "in the topic behind 1: 1, a/0"], check.problems
  end

  def test_lost_duplicated_and_reordered_copies_are_reported
    { LOG => [], { 0 => LOG[0].take(3) } => ["partition 0: lost: 1, b/1"],
      { 0 => LOG[0] + [LOG[0].last] } => ["partition 0: more than once: 1, b/1"],
      { 0 => LOG[0].reverse } => ["partition 0: another order"] }.each do |copies, problems|
      check = ChaosCheck.new(LOG)
      check.copied(copies)
      assert_equal problems, check.problems
    end
  end

  def test_options_of_harnesses
    options = Harness::Options.new("x", { work: %w[keys graceful] }, kills: nil, inputs: 5).parse(%w[a --kills 1_000])
    assert_equal [1000, 5, "keys", ["a"]], [options[:kills], options[:inputs], options[:work], options.rest]
    assert_kind_of Integer, options[:seed]
    assert_equal 7, Harness::Options.new("x").parse(%w[--seed 7])[:seed]
    status = nil
    _, told = capture_io do
      Harness::Options.new("x").parse(%w[--kills 3])
    rescue SystemExit => e
      status = e.status
    end
    assert_equal [2, true], [status, told.include?("--kills")]
  end

  private

  def rows(done, pid: 1) = done.map { |key, number| [pid, 2, 0, 0, key, number] }
end
