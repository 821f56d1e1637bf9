# frozen_string_literal: true

require_relative "../test_helper"
require "support/keyed_kit"

# Marked by hand, where the order is per key.
class KeyedUnmarkedTest < Minitest::Test
  include KeyedKit

  # Messages that are finished and not marked: nothing more is given, and what is marked counts.
  def with_unmarked(limit)
    unmarked = Pelton::Consuming::Unmarked
    before = unmarked::LIMIT
    unmarked.send(:remove_const, :LIMIT)
    unmarked.const_set(:LIMIT, limit)
    yield
  ensure
    unmarked.send(:remove_const, :LIMIT)
    unmarked.const_set(:LIMIT, before)
  end

  # Processes what is there; each message with the consumer that had it.
  def seen
    @seen ||= begin
      @deed = ->(consumer) { consumer.messages.each { |message| @seen << [consumer, message] } }
      []
    end
  end

  def test_unmarked_messages_beyond_the_limit_hold_the_partition_back_until_marks_come
    with_unmarked(10) do
      seen
      keyed("a" * 20, manual_offsets: true, max_messages: 1)
      start.each { |offsets| finish(*offsets) } until idle?
      assert_equal 10, seen.size, "nothing more is given"
      assert_empty marked
      message = @owner.named(:failed).map { |_, error, _| error.message }
      assert_equal 1, message.size
      assert_match(/10 messages were processed and not marked as consumed.*Call mark_as_consumed/, message.first)
      wake
      assert_predicate self, :idle?
      assert seen[2].first.mark_as_consumed(seen[2].last)
      assert_equal [3], marked, "what was said to be marked is"
      start.each { |offsets| finish(*offsets) } until idle?
      assert_equal 13, seen.size
      assert_equal 1, @owner.named(:failed).size, "told once"
      assert seen.last.first.mark_as_consumed(seen.last.last)
      assert_equal 13, marked.last
      start.each { |offsets| finish(*offsets) } until idle?
      assert_equal 20, seen.size
      assert seen.last.first.mark_as_consumed(seen.last.last)
      assert_equal 20, marked.last
    end
  end

  def test_unmarked_messages_are_reported_again_after_the_marks_caught_up
    with_unmarked(4) do
      seen
      keyed("a" * 12, manual_offsets: true, max_messages: 1)
      2.times do
        start.each { |offsets| finish(*offsets) } until idle?
        assert seen.last.first.mark_as_consumed(seen.last.last)
      end
      assert_equal 2, @owner.named(:failed).size
    end
  end

  def test_each_object_may_mark_what_it_holds_in_its_last_method
    held = {}.compare_by_identity
    @deed = ->(consumer) { (held[consumer] ||= []).concat(consumer.messages.to_a) }
    keyed("abab", manual_offsets: true, max_messages: 1)
    start.each { |offsets| finish(*offsets) } until idle?
    assert_equal [4, []], [held.values.sum(&:size), marked]
    Consumer.hooks[:revoked] = ->(consumer) { held[consumer]&.each { |message| consumer.mark_as_consumed(message) } }
    coordinator.end(:revoked, Pelton::Clock.now + 30)
    work until idle?
    assert_equal 4, marked.last
  end

  # Marked messages once stayed counted. After 100,000 of them the partition was held back for good.
  def test_marked_messages_are_not_counted_as_unmarked
    with_unmarked(5) do
      seen
      30.times do |round|
        keyed("ab", from: round * 2, manual_offsets: true)
        start.each { |offsets| finish(*offsets) } until idle?
        seen.last(2).each { |consumer, message| assert consumer.mark_as_consumed(message) }
      end
      assert_equal 60, marked.last
      assert_empty @owner.named(:failed)
    end
  end
end
