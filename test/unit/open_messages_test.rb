# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/errors"
require "pelton/consuming/partition/keyed/key_queue"
require "pelton/consuming/partition/keyed/open_messages"

# Which messages of a keyed backlog are not done, and what may be stored. (With their backlog: test/unit/keyed_test.rb.)
class OpenMessagesTest < Minitest::Test
  Item = Pelton::Consuming::Item
  Message = Struct.new(:offset, :leader_epoch)

  # Stands for a BatchTracker.
  Tracker = Struct.new(:first_offset, :end, :before, :items, :left, :released) do
    def over? = items.empty?
    def finish = (self.left -= 1).zero?
    def release = self.released = true
  end

  # Stands for KeyQueues and Unmarked.
  class Notes < Array
    def drop(item) = self << item.offset
    def add(item, _passed) = self << [:add, item.offset]
    def remove = self << :remove
  end

  def setup
    @key_queues = Notes.new
    @unmarked = Notes.new
    @open = Pelton::Consuming::OpenMessages.new(@key_queues, @unmarked)
  end

  # A batch with these offsets, of the leader epoch that is their tens digit.
  def add(*offsets, first: offsets.first, last: offsets.last)
    tracker = Tracker.new(first, [last + 1, last / 10].freeze, nil, [], offsets.size)
    offsets.each { |offset| tracker.items << Item.new(Message.new(offset, offset / 10), tracker) }
    @open.add(tracker)
    tracker
  end

  def finish(*offsets) = offsets.each { |offset| @open.finish(@open[offset]) }

  # They finish, because the flow dropped them.
  def drop(*offsets)
    offsets.each { |offset| @open[offset].dropped = true }
    finish(*offsets)
  end

  def test_everything_before_the_first_open_message_is_done
    assert_equal [nil, nil], [@open.done, @open.first_offset]
    add(5, 6, 9)
    add(20, 21, first: 18)
    assert_equal [nil, 5], [@open.done, @open.first_offset], "nothing is known of what was before"
    finish(6)
    assert_nil @open.done
    finish(5)
    assert_equal [9, 0], @open.done
    finish(9)
    assert_equal [20, 2], @open.done, "a `where` left out 18 and 19"
    finish(20, 21)
    assert_equal [[22, 2], nil], [@open.done, @open.first_offset]
  end

  def test_before_a_batch_is_done_where_the_one_before_ended
    add(5, 6, last: 8)
    add(10, 11)
    finish(5, 6)
    assert_equal [9, 0], @open.done
  end

  def test_a_batch_of_which_where_left_nothing_is_done_at_once
    tracker = add(first: 5, last: 9)
    assert_equal [10, 0], @open.done
    @open.release
    assert_nil tracker.released
  end

  def test_the_highest_finished_offset
    add(5, 6, 7)
    assert_equal(-1, @open.highest)
    finish(6)
    finish(5)
    assert_equal 6, @open.highest
  end

  def test_a_message_that_is_finished_but_not_marked_is_open
    add(5, 6)
    passed = []
    @open.pass(@open[5], passed)
    assert_equal [nil, 5, [[:add, 5]], [5]], [@open.done, @open.highest, @unmarked, @key_queues]
    finish(5)
    assert_equal [[6, 0], [[:add, 5], :remove], [5]], [@open.done, @unmarked, @key_queues]
  end

  def test_finished_messages_behind_the_first_open_one_will_be_repeated
    add(5, 6, 7, 8)
    assert_nil @open.repeats
    finish(6, 8)
    assert_equal({ offset: 5, count: 2 }, @open.repeats)
    drop(7)
    assert_equal({ offset: 5, count: 2 }, @open.repeats, "a dropped message is not processed again")
    finish(5)
    assert_nil @open.repeats
  end

  def test_of_ten_thousand_dropped_messages_the_last_half_is_remembered
    add(*0..10_000)
    drop(*1..9_999)
    assert_nil @open.repeats
    drop(10_000)
    assert_equal({ offset: 0, count: 5_000 }, @open.repeats)
  end

  def test_dropped_messages_before_the_first_open_one_are_forgotten_first
    add(*0..12_000)
    drop(*0..6_000)
    drop(*6_002..10_000)
    assert_equal [6_001, nil], [@open.first_offset, @open.repeats]
  end

  def test_a_released_partition_releases_each_batch_that_is_not_over
    over = add(5)
    left = add(6, 7)
    finish(5, 6)
    @open.release
    assert_equal [nil, true], [over.released, left.released]
  end

  def test_after_a_seek_back_nothing_from_there_on_counts_as_finished
    add(5, 6, 7)
    finish(5, 6)
    @open.reset_for_seek(6, 0, done: false)
    assert_equal [5, nil], [@open.highest, @open.repeats]
    @open.reset_for_seek(100, 0, done: false)
    assert_equal 5, @open.highest
    @open.reset_for_seek(nil, 0, done: false)
    assert_equal(-1, @open.highest)
  end

  def test_a_seek_keeps_open_messages_and_done_says_where_it_goes_on
    add(5, 6)
    finish(5)
    @open.reset_for_seek(3, 4, done: true)
    assert_equal [6, 4, [6]], [@open.first_offset, @open[6].seek_count, @open.from(nil).map(&:offset)]
    finish(6)
    assert_equal [3, -1], @open.done
    @open.reset_for_seek(nil, 5, done: true)
    assert_nil @open.done
    @open.reset_for_seek(3, 5, done: false)
    assert_nil @open.done
  end
end
