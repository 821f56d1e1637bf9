# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/consuming/partition/backlog"
require "pelton/consuming/execution/steps/delay"

# `delay` where the order is per key: each message comes when it is due, in order, whoever else waits.
class KeyedDelayTest < Minitest::Test
  Executor = Struct.new(:process?)

  class Watch
    attr_accessor :wall

    def initialize = @wall = 100.0
  end

  # dues: [[key, seconds from now], …]
  def backlog(*dues, limit: 10)
    @watch = Watch.new
    delay = Pelton::Consuming::Steps::Delay.new(clock: @watch) { |message| message.timestamp_ms / 1000.0 }
    keys = Pelton::Consuming::Keys.new(:key)
    @backlog = Pelton::Consuming::KeyedBacklog.new(limit, executors: 3, keys: keys, delay: delay)
    add(*dues)
  end

  def add(*dues, from: 0)
    messages = dues.each_with_index.map do |(key, seconds), at|
      Fakes::Message.new("orders", 0, from + at, "x", key: key, timestamp_ms: ((100 + seconds) * 1000).round)
    end
    tracker = @backlog.prepare(Fakes::Batch.new(messages))
    @backlog.add(tracker)
    @backlog.sorted(@backlog.unsorted, @backlog.ids(tracker))
  end

  # What is given after so many seconds: [[offsets], …], and is done at once.
  def given_after(seconds, process: true)
    @watch.wall = 100.0 + seconds
    @backlog.wake(Float::INFINITY)
    all = []
    while (share = @backlog.next(Executor.new(process)))
      all << share.messages.map(&:offset)
      @backlog.finish(share, share.messages.last_offset, 7, mark: true)
      @backlog.put_back(share)
    end
    all
  end

  # The last one that was looked at counted for all: most came seconds late, in reversed order.
  def test_each_message_comes_when_it_is_due_and_in_order
    backlog(*(1..20).map { |at| ["k#{at}", at] })
    (1..20).each { |at| assert_equal [[at - 1]], given_after(at) }
    backlog(*(1..20).map { |at| ["k#{at}", at] })
    assert_equal (0..19).map { |at| [at] }, given_after(20)
  end

  def test_the_timer_is_for_the_first_that_will_be_due
    backlog(["a", 50], ["b", 7], ["c", 30])
    assert_empty given_after(0)
    assert_in_delta 7, @backlog.wake_at - Pelton::Clock.now, 5
    assert_equal [[1]], given_after(7)
    assert_in_delta 23, @backlog.wake_at - Pelton::Clock.now, 5
  end

  def test_message_due_later_does_not_delay_other_keys
    backlog(["a", 90], ["b", 1], ["c", 2], ["a", 1])
    assert_equal [[1], [2]], given_after(2, process: false)
    assert_equal [[0, 3]], given_after(90, process: false), "the order of a key is kept"
  end

  def test_only_due_messages_of_a_key_are_given
    backlog(["a", 1], ["a", 2], ["a", 9])
    assert_equal [[0, 1]], given_after(2)
    assert_equal [[2]], given_after(9)
  end

  def test_a_clock_that_was_set_is_noticed_within_a_minute
    backlog(["a", 86_400])
    assert_empty given_after(0)
    assert_in_delta 60, @backlog.wake_at - Pelton::Clock.now, 5
    assert_equal [[0]], given_after(86_401)
  end

  def test_messages_that_arrive_meanwhile_wait_behind_their_key
    backlog(["a", 5], ["b", 5])
    add(["b", 6], ["c", 5], from: 2)
    assert_equal [[0], [1], [3]], given_after(5)
    assert_equal [[2]], given_after(6)
  end

  # Whatever asks for a pause of all.
  def test_of_several_waits_the_shortest_counts
    backlog(["a", 0], ["b", 0], ["c", 0])
    shares = Array.new(3) { @backlog.next(Executor.new(true)) }
    shares.zip([50.0, 20.0, 90.0]) { |share, time| @backlog.later(share, time) }
    shares.reverse_each { |share| @backlog.put_back(share) }
    assert_equal 20.0, @backlog.wake_at
    @backlog.wake(19.0)
    assert_nil @backlog.next(Executor.new(true))
    assert_equal [[0], [1], [2]], given_after(1), "in the order that they had"
  end
end
