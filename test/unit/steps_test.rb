# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# The steps that decide what of a job's messages begins and when, one by one, and what the flow makes of them.
class StepsTest < Minitest::Test
  include Pelton::Consuming

  # Both clocks, moved by hand.
  class HandClock
    attr_accessor :now

    def initialize = @now = 1_000.0
    def wall = @now
  end

  def setup
    @clock = HandClock.new
    @bus = Pelton::Notifications.new
    @events = []
    @bus.subscribe("error.occurred") { |event| @events << event }
  end

  # Messages of such an age, in seconds; their offsets count from 0.
  def aged(*ages)
    Fakes::Batch.new(ages.each_with_index.map do |age, offset|
      stamp = age ? ((@clock.wall - age) * 1000).round : -1 # as a native message without a timestamp has it
      Fakes::Message.new("orders", 0, offset, offset.to_s, timestamp_ms: stamp)
    end)
  end

  def fresh(count) = aged(*Array.new(count, 0))
  def offsets(messages) = messages.map(&:offset)
  def filter(*filters) = Steps::Filter.new(filters, @bus)
  def keep(*offsets) = filter(->(message) { offsets.include?(message.offset) })
  def throttle(limit, every) = Steps::Throttle.new(limit, every, clock: @clock)
  def delay(seconds) = Steps::Delay.new(clock: @clock) { |message| (message.timestamp_ms / 1000.0) + seconds }

  # --- filter ---

  def test_filter
    all = fresh(3)
    assert_same all, keep(0, 1, 2).admit(all)
    assert_equal [0, 2], offsets(keep(0, 2).admit(all))
    assert_empty keep.admit(all)
    assert_equal [1], offsets(filter(->(m) { m.offset.positive? }, ->(m) { m.offset < 2 }).admit(all))
  end

  def test_a_filter_that_raises_keeps_its_message
    raising = filter(->(message) { message.offset == 1 ? raise("cannot judge") : nil })
    assert_equal [1], offsets(raising.admit(fresh(3)))
    assert_equal ["filter", "orders", 0, 1, "cannot judge"],
                 [*@events.first.payload.values_at(:source, :topic, :partition, :offset), @events.first[:error].message]
    assert_equal 1, @events.size
  end

  def test_a_class_of_filters_has_an_instance_per_flow
    counting = Class.new do
      def call(_message) = (@seen = @seen.to_i + 1) <= 1
    end
    assert_equal [[0], [0]], (Array.new(2) { offsets(filter(counting).admit(fresh(3))) })
  end

  # A throttle or a delay leaves most of a large batch for later jobs.
  def test_filter_is_not_asked_again_about_waiting_messages
    { throttle: [2, 60], delay: 60 }.each do |word, value|
      asked = []
      filters = [->(message) { (asked << message.offset) && message.offset.even? }]
      topic = Pelton::Routing::Topic.new("orders", Pelton::Consumer, { filters: filters, word => value })
      flow = Flow.new([Steps::Filter.for(topic, @bus), word == :throttle ? throttle(*value) : delay(value)])
      all = fresh(9)
      begun = []
      4.times do
        start = flow.start(all.from(begun.last.to_i, 9))
        begun = [*begun, *offsets(start.messages)].uniq if start.messages
        @clock.now += 30
      end
      assert_equal [(0..8).to_a, [0, 2]], [asked, begun.first(2)], word.to_s
    end
  end

  # --- expire ---

  def test_expire
    step = Steps::Expire.new(60, clock: @clock)
    all = aged(61, 60, nil, 100, 0, -5)
    assert_equal [1, 2, 4, 5], offsets(step.admit(all))
    @clock.now += 1
    assert_equal [2, 4, 5], offsets(step.admit(all)), "looked at anew when the job begins again"
  end

  # --- delay ---

  def test_delay_is_never_early_and_holds_back_later_messages
    step = delay(10)
    all = aged(12, 10, 9, 11)
    assert_equal [0, 1], offsets(step.ready(all))
    rest = all.from(2, 9)
    assert_in_delta 1, step.ready(rest)
    @clock.now += 0.999
    assert_operator step.ready(rest), :>, 0
    @clock.now += 0.001
    assert_same rest, step.ready(rest)
  end

  def test_without_a_timestamp_there_is_no_delay
    topic = Pelton::Routing::Topic.new("orders", "C", { delay: 10 })
    all = aged(nil, nil)
    assert_same all, Steps::Delay.for(topic, @bus).ready(all)
  end

  # --- throttle ---

  def test_throttle_over_a_sliding_window
    step = throttle(5, 60)
    all = fresh(4)
    assert_same all, step.ready(all)
    @clock.now += 30
    assert_equal [0], offsets(step.ready(all))
    assert_in_delta 30, step.ready(all)
    @clock.now += 30
    assert_same all, step.ready(all)
    assert_in_delta 30, step.ready(all)
    @clock.now += 29.9
    assert_in_delta 0.1, step.ready(all)
    @clock.now += 0.2
    assert_equal [0], offsets(step.ready(all))
  end

  def test_throttle_is_exact_for_any_window
    step = throttle(10, 5)
    begun = []
    random = Random.new(7)
    500.times do
      answer = step.ready(fresh(random.rand(1..7)))
      begun.concat([@clock.now] * answer.size) unless answer.is_a?(Numeric)
      @clock.now += answer.is_a?(Numeric) ? answer : random.rand
    end
    assert_operator begun.size, :>, 200
    begun.each { |from| assert_operator begun.count { |time| time >= from && time < from + 5 - 1e-6 }, :<=, 10 }
  end

  # --- together ---

  def test_nothing_switched_on_costs_nothing
    all = fresh(2)
    all.define_singleton_method(:messages) { raise "message objects" }
    start = Flow.new([]).start(all)
    assert_same all, start.messages
    assert_same all, start.done
  end

  def test_dropped_messages_are_done_with_their_job
    all = aged(99, 0, 0, 0, 99)
    start = Flow.new([Steps::Expire.new(60, clock: @clock), keep(1, 3)]).start(all)
    assert_equal [1, 3], offsets(start.messages)
    assert_same all, start.done
    assert_equal({ expired: 2, filtered: 1 }, start.dropped)
  end

  def test_held_back_messages_are_filtered_and_counted_later
    all = fresh(8)
    flow = Flow.new([keep(1, 2, 5, 6), throttle(3, 60)])
    start = flow.start(all)
    assert_equal [[1, 2, 5], [0, 1, 2, 3, 4, 5]], [offsets(start.messages), offsets(start.done)]
    assert_equal({ filtered: 3 }, start.dropped)
    @clock.now += 60
    start = flow.start(all.from(6, 9))
    assert_equal [[6], [6, 7], { filtered: 1 }], [offsets(start.messages), offsets(start.done), start.dropped],
                 "messages, finished messages, dropped messages"
  end

  def test_messages_dropped_before_a_waiting_one_are_done_at_once
    flow = Flow.new([keep(2, 4), delay(10)])
    all = aged(0, 0, 0, 0, 0)
    start = flow.start(all)
    assert_equal [[], [0, 1], { filtered: 2 }, nil],
                 [offsets(start.messages), offsets(start.done), start.dropped, start.wait]
    start = flow.start(all.from(2, 9))
    assert_nil start.messages
    assert_in_delta 10, start.wait
  end

  def test_delay_of_a_filtered_message_delays_no_other
    start = Flow.new([keep, delay(1_000_000)]).start(fresh(3))
    assert_equal [0, 3, nil], [start.messages.size, start.done.size, start.wait],
                 "number of messages, number of finished messages, seconds to wait"
  end

  # No busy loop when two flow rules disagree, or when one asks for no wait and gives nothing. A time far in the
  # future is bounded: a partition must not stay paused for ever.
  def test_waits_are_bounded
    holding = ->(seconds) { Class.new { define_method(:ready) { |_| seconds } }.new }
    waits = [0, -3, 1e-9, 5, 1e15].map { |seconds| Flow.new([holding.(seconds), throttle(1, 1)]).start(fresh(1)).wait }
    assert_equal [0.01, 0.01, 0.01, 5, 60.0], waits
  end

  def test_message_held_by_an_earlier_step_does_not_count_in_a_throttle
    step = throttle(1, 60)
    flow = Flow.new([delay(10), step])
    all = fresh(1)
    2.times { assert_in_delta 10, flow.start(all).wait }
    @clock.now += 10
    assert_same all, flow.start(all).messages
  end
end
