# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/consuming/partition/keyed/key_queue"

# The messages of one key by themselves: which of them a job gets. (With their backlog: test/unit/keyed_test.rb.)
class KeyQueueTest < Minitest::Test
  KeyQueue = Pelton::Consuming::KeyQueue
  Item = Pelton::Consuming::Item
  Message = Struct.new(:offset, :leader_epoch)

  def setup
    @key_queue = KeyQueue.new(7)
    @items = {}
  end

  def add(*offsets)
    offsets.each { |offset| @key_queue.add(@items[offset] = Item.new(Message.new(offset, 0), nil)) }
  end

  def finish(*offsets)
    @items.fetch_values(*offsets).each do |item|
      @key_queue.drop(item)
      item.finish
    end
  end

  def take(limit: 100, now: nil, horizon: nil, one_by_one: false)
    @key_queue.take(limit, now, horizon, one_by_one).map(&:offset)
  end

  def test_a_job_gets_as_many_as_the_limit_allows
    add(3, 5, 8)
    assert_equal [[3, 5, 8], [3, 5], [3]], [3, 2, 1].map { |limit| take(limit: limit) }
    assert_same @key_queue, @items.fetch(5).key_queue
  end

  def test_up_to_an_offset_each_message_gets_a_job_of_its_own
    add(3, 5, 8)
    @key_queue.alone_until = 5
    assert_equal [3], take
    finish(3)
    assert_equal [5], take
    finish(5)
    assert_equal [8], take
    add(9)
    assert_equal [8, 9], take
  end

  def test_items_behind_the_horizon_are_left
    add(3, 5, 8)
    assert_equal [3, 5], take(horizon: 5)
    assert_equal [3, 5], take(horizon: 7)
  end

  def test_items_that_are_due_later_wait_but_not_the_first_one
    add(3, 5, 8, 9)
    { 3 => 20.0, 5 => 10.0, 8 => 10.1 }.each { |offset, due| @items.fetch(offset).due = due }
    assert_equal [3, 5], take(now: 10.0)
    assert_equal [3, 5, 8, 9], take(now: 10.1)
    assert_equal [3, 5, 8, 9], take
  end

  def test_after_a_failure_one_by_one_gets_a_hundred_and_each_time_twice_as_many
    add(*0..999)
    sizes = [true, false, false].map do |tried|
      @key_queue.leave
      @key_queue.come_back(tried)
      [take(limit: 1000, one_by_one: true).size, take(limit: 1000).size]
    end
    assert_equal [[100, 1000], [200, 1000], [400, 1000]], sizes
  end

  def test_items_that_were_finished_out_of_order_are_in_no_job
    add(1, 2, 3, 4, 5)
    finish(2, 4)
    assert_equal [1, 3, 5], take
    finish(1)
    assert_equal 3, @key_queue.first.offset
    finish(3)
    assert_equal [5, [5]], [@key_queue.first.offset, take]
    finish(5)
    assert_empty @key_queue
  end

  def test_gaps_behind_a_small_job_are_closed_by_the_next_one
    add(1, 2, 3, 4, 5)
    finish(4)
    assert_equal [1, 2], take(limit: 2)
    assert_equal [1, 2, 3, 5], take
  end

  def test_unfinished_items_before_an_offset
    add(1, 2, 3, 4)
    finish(2)
    assert_equal [[], [1], [1, 3]], [1, 3, 4].map { |offset| @key_queue.before(offset).map(&:offset) }
  end

  def test_a_key_is_apart_while_it_is_retried_and_up_to_an_offset
    add(3, 5)
    refute_predicate @key_queue, :apart?
    @key_queue.attempt = 1
    assert_predicate @key_queue, :apart?
    @key_queue.attempt = 0
    %i[apart_until= alone_until=].each do |name|
      apart = [2, 3, 4, nil].map { |offset| (@key_queue.public_send(name, offset) && nil) || @key_queue.apart? }
      assert_equal [false, true, true, false], apart, name
    end
  end

  def test_attempts_count_jobs_that_began_a_message
    add(3, 5)
    @key_queue.leave
    assert_equal [true, 1], [@key_queue.out, @key_queue.attempt]
    @key_queue.come_back(true)
    assert_equal [false, 1], [@key_queue.out, @key_queue.attempt]
    @key_queue.leave
    @key_queue.come_back(false)
    assert_equal 1, @key_queue.attempt, "a job that did not begin it is no attempt"
    finish(3)
    assert_equal 0, @key_queue.attempt
    @key_queue.leave
    finish(5)
    assert_equal 1, @key_queue.attempt, "the job goes on with the next message"
  end

  def test_a_key_goes_behind_the_others_unless_it_waits_or_was_not_begun
    add(3, 5)
    turns = [[true, nil], [true, 9.0], [false, nil]].map do |tried, wake_at|
      @key_queue.turn = 4
      @key_queue.wake_at = wake_at
      @key_queue.leave
      @key_queue.come_back(tried)
      @key_queue.turn
    end
    assert_equal [nil, 4, 4], turns
    @key_queue.wake_at = nil
    @key_queue.leave
    finish(3)
    @key_queue.come_back(false)
    assert_nil @key_queue.turn, "it moved on"
  end
end
