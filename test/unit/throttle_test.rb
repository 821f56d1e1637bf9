# frozen_string_literal: true

require_relative "../test_helper"
require "support/keyed_kit"
require "pelton/consuming/execution/steps/throttle"

# Which messages count for `throttle`: those that began.
class ThrottleTest < Minitest::Test
  include CoordinatorKit

  Step = Pelton::Consuming::Steps::Throttle

  class ResourceMonitor
    attr_accessor :now

    def initialize = @now = 0.0
  end

  class One < Pelton::Consumer
    def process(message) = CoordinatorKit::Consumer.script&.call(self, message)
  end

  def setup
    super
    @monitor = ResourceMonitor.new
    @begun = []
  end

  # A coordinator with this throttle, over a clock of ours.
  def throttled(limit, every, consumer: One, **settings)
    topic = Pelton::Routing::Topic.new("orders", consumer, { max_messages: 100, backoff: 0..0, **settings })
    steps = Pelton::Consuming::Flow::STEPS.filter_map { |step| step.for(topic, @bus) }
    flow = Pelton::Consuming::Flow.new(steps << Step.new(limit, every, clock: @monitor))
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                jobs: @jobs, bus: @bus, owner: @owner).start
    topic.concurrency.times { work }
  end

  # Works until nothing is left to do at this time.
  def work_all
    2.times do
      work until idle?
      wake
    end
  end

  # It spent a whole window, and each further try another one.
  def test_a_message_that_fails_does_not_count_for_those_behind_it
    throttled(4, 10)
    script do |consumer, message|
      @begun << message.offset
      raise "failed" if message.offset.zero? && consumer.attempt <= 2
    end
    coordinator.receive(batch(*0..9))
    work_all
    assert_equal [0, 0, 0, 1], @begun
    @monitor.now = 9.9
    work_all
    assert_equal 4, @begun.size
    @monitor.now = 10.0
    work_all
    assert_equal [2, 3, 4, 5], @begun.drop(4)
    @monitor.now = 20.0
    work_all
    assert_equal [0, 0, *0..9], @begun
    assert_equal [10, 7], @ownership.marks.last
  end

  def test_messages_behind_a_pause_do_not_count
    throttled(4, 10)
    script do |consumer, message|
      @begun << message.offset
      consumer.pause(5) if @begun == [0, 1]
    end
    coordinator.receive(batch(*0..9))
    work_all
    coordinator.change_state(&:resume)
    work_all
    assert_equal [0, 1, 1, 2], @begun
  end

  # They were counted when their job began, all at that time.
  def test_a_message_counts_when_it_begins
    throttled(2, 10)
    script do |_, message|
      @begun << [message.offset, @monitor.now]
      @monitor.now += 3
    end
    coordinator.receive(batch(*0..3))
    work_all
    assert_equal [[0, 0.0], [1, 3.0]], @begun
    @monitor.now = 9.9
    work_all
    assert_equal 2, @begun.size
    @monitor.now = 10.0
    work_all
    assert_equal [[2, 10.0], [3, 13.0]], @begun.drop(2), "10 s after the first one, and after the second one"
  end

  def test_a_batch_whose_consume_never_began_does_not_count
    asked = 0
    script { |consumer| @begun.concat(consumer.messages.map(&:offset)) }
    by = ->(message) { (asked += 1) <= 3 ? raise(NotImplementedError, "no key") : message.offset }
    throttled(2, 10, consumer: CoordinatorKit::Consumer, concurrency: 2, by: by)
    coordinator.receive(batch(0, 1))
    4.times { work_all }
    assert_equal [0, 1], @begun
  end

  def test_no_window_has_more_than_the_limit
    random = Random.new(7)
    5.times do
      step = Step.new(10, 5, clock: @monitor)
      all = []
      400.times do |at|
        @monitor.now += random.rand(0.3)
        several = batch(*(at * 10)..((at * 10) + 5))
        if random.rand(2).zero?
          found = step.ready(several)
          next if found.is_a?(Numeric)
          next step.give_back(found) if random.rand(4).zero?

          all.concat([@monitor.now] * found.size)
        elsif step.room(several).is_a?(Numeric) then refute_predicate step, :begin?
        else all << @monitor.now while random.rand(3).positive? && step.begin?
        end
      end
      assert_operator all.size, :>, 100
      all.each { |time| assert_operator all.count { |begun| begun >= time && begun < time + 5 }, :<=, 10 }
    end
  end

  # So a million of them take no million entries. None begins early by that.
  def test_messages_that_begin_within_a_thousandth_of_the_window_leave_it_together
    step = Step.new(3, 10, clock: @monitor)
    [100.0, 100.009, 100.011].each do |now|
      @monitor.now = now
      assert_predicate step, :begin?
    end
    { 110.0 => 0.009, 110.008 => 0.001 }.each do |now, left|
      @monitor.now = now
      assert_in_delta left, step.room(batch(*0..5)), 1e-6
    end
    { 110.01 => 2, 110.012 => 3 }.each do |now, room|
      @monitor.now = now
      assert_equal room, step.room(batch(*0..5)).size
    end
  end

  # All of it is there for whoever is next: nobody is told to wait for what did not begin.
  def test_messages_that_did_not_start_leave_the_throttle_at_once
    step = Step.new(5, 60, clock: @monitor)
    assert_equal 5, step.ready(batch(*0..5)).size
    assert_equal 60.0, step.ready(batch(6))
    step.give_back(batch(*0..4))
    assert_equal 5, step.room(batch(*0..5)).size
    5.times { assert_predicate step, :begin? }
    refute_predicate step, :begin?
    @monitor.now = 30.0
    assert_equal 30.0, step.room(batch(0))
  end
end
