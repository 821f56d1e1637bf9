# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "support/server_kit"

# The end of a partition with `concurrency`: what lies before finished messages is finished first.
class ClosingTest < Minitest::Test
  include CoordinatorKit

  class Single < Pelton::Consumer
    class << self
      attr_accessor :log
    end

    def process(message)
      Fiber.yield
      self.class.log << message.offset
      raise IOError, "on purpose" if message.raw_payload == "bad"
    end

    def shutdown = self.class.log << :shutdown
    def revoked = self.class.log << :revoked
  end

  def setup
    super
    Single.log = @log
    @under_way = []
  end

  # keys: "aab" is three messages; bad: offsets that fail.
  def partition(keys, bad: [], consumer: Single, **settings)
    topic = Pelton::Routing::Topic.new("orders", consumer,
                                       { max_messages: 100, backoff: 1..1, concurrency: 3, **settings })
    flow = Pelton::Consuming::Flow.for(topic, @bus)
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                jobs: @jobs, bus: @bus, owner: @owner).start
    work until idle?
    @log.clear
    messages = keys.chars.each_with_index.map do |key, index|
      Fakes::Message.new("orders", 0, index, bad.include?(index) ? "bad" : "x", key: key == "-" ? nil : key)
    end
    coordinator.receive(@batch = Fakes::Batch.new(messages))
    work # its keys are asked for
    begin_jobs
  end

  # Those that are in the queue, each up to its first message.
  def begin_jobs
    until idle?
      fiber = Fiber.new { work }
      fiber.resume
      @under_way << fiber if fiber.alive?
    end
  end

  # One message more of the job that was begun as the nth.
  def step(number, times = 1)
    times.times { @under_way.fetch(number).resume }
  end

  # Whatever is there, until there is nothing.
  def run_out
    until @under_way.none?(&:alive?) && idle?
      begin_jobs
      @under_way.each { |fiber| fiber.resume if fiber.alive? }
    end
  end

  def end_in(seconds, reason = :shutdown) = coordinator.end(reason, Pelton::Clock.now + seconds)
  def committed = @ownership.marks.last&.first
  def messages = @log.grep(Integer)

  def test_stop_finishes_messages_before_finished_ones_and_starts_none_behind_them
    partition("aabbccaabbcc")
    step(2, 4) # key c is done up to 11
    step(1, 2) # b up to 3; 8 is begun
    end_in(100)
    run_out
    assert_equal((0..11).to_a, messages.sort)
    assert_equal 12, committed
    assert_equal [:shutdown] * 3, @log.last(3), "hooks come last"
    assert_nil coordinator.take_repeats
    assert_equal 1, @batch.releases
    assert_equal 1, @owner.named(:ended).size
  end

  def test_stop_starts_no_message_behind_a_finished_or_running_one
    partition("abcabcabcabc")
    step(0) # 0 is done, 3 begun
    end_in(100)
    run_out
    assert_equal [0, 1, 2, 3], messages.sort
    assert_equal 4, committed
  end

  # The first unfinished message of b's job is 3, which was dropped; what runs is 5.
  def test_stop_finishes_messages_before_a_running_one_behind_a_dropped_one
    partition("abababa", filters: [->(message) { message.offset != 3 }])
    step(1) # 1 is done, 5 is begun
    end_in(100)
    run_out
    assert_equal [0, 1, 2, 4, 5], messages.sort, "4 lies before 5, 6 behind it"
    assert_equal 6, committed
    assert_nil coordinator.take_repeats
  end

  # The same where what was dropped comes last: it is done when its job is.
  def test_stop_finishes_messages_before_the_dropped_rest_of_a_job
    partition("ababa", filters: [->(message) { message.offset != 3 }])
    end_in(100)
    run_out
    assert_equal [0, 1, 2], messages.sort
    assert_equal 4, committed
    assert_nil coordinator.take_repeats
  end

  class Whole < Pelton::Consumer
    def consume
      Fiber.yield
      Single.log.concat(messages.map(&:offset))
    end
  end

  # The job has all four, and room for two; when it has ended there is room for the others.
  def test_stop_does_not_start_messages_that_the_throttle_held_back
    partition("aaaa", consumer: Whole, throttle: [2, 0.001])
    end_in(100)
    Pelton::Clock.stub(:now, Pelton::Clock.now + 1) { run_out }
    assert_equal [0, 1], messages
    assert_equal 2, committed
  end

  def test_stop_without_time_still_finishes_running_messages
    partition("abcbcbc")
    step(1, 3)
    step(2, 3)
    coordinator.end(:revoked)
    run_out
    assert_equal 7, committed
    assert_equal 3, @log.count(:revoked)
    assert_nil coordinator.take_repeats
  end

  def test_stop_that_runs_out_of_time_counts_messages_that_will_repeat
    partition("aabcbcbc")
    step(1, 3)
    step(2, 3)
    coordinator.end(:revoked)
    run_out
    assert_equal 1, committed, "a's second message is not begun"
    assert_equal({ offset: 1, count: 6, late: true }, coordinator.take_repeats)
    assert_nil coordinator.take_repeats, "told once"
  end

  def test_a_key_in_its_back_off_is_tried_once_more
    partition("abbb", bad: [0])
    step(0)
    step(1, 3)
    assert_equal 1, @owner.named(:retry_at).size
    end_in(100)
    refute_includes @log, :shutdown, "its back-off is waited for"
    wake
    run_out
    assert_equal [0, 1, 2, 3, 0], messages
    assert_equal({ offset: 0, count: 3, late: false }, coordinator.take_repeats, "it failed again: that has no end")
    assert_equal 3, @log.count(:shutdown)
  end

  def test_messages_that_a_filter_dropped_counted_as_repeated
    partition("abcb", bad: [0], backoff: 60..60, filters: [->(message) { message.offset != 2 }])
    step(0)
    step(1, 2)
    end_in(20)
    run_out
    assert_equal [0, 1, 3], messages
    assert_equal({ offset: 0, count: 2, late: true }, coordinator.take_repeats)
  end

  def test_an_end_behind_which_a_filter_dropped_all_repeats_nothing
    partition("abb", bad: [0], backoff: 60..60, filters: [->(message) { message.offset.zero? }])
    step(0)
    end_in(20)
    run_out
    assert_equal [0], messages
    assert_nil coordinator.take_repeats
  end

  def test_a_message_that_a_filter_dropped_after_the_end_began_did_not_count_as_repeated
    consumer = Class.new(Single)
    consumer.log = @log
    partition("abb", bad: [0], backoff: 60..60, consumer: consumer, filters: [lambda { |message|
      end_in(20) if message.offset == 1
      message.offset != 2
    }])
    run_out
    assert_operator coordinator.take_repeats.to_h.fetch(:count, 0), :<=, 1, "1 at most was processed"
  end

  def test_stop_does_not_wait_for_a_key_whose_back_off_is_too_long
    partition("abbb", bad: [0], backoff: 60..60)
    step(0)
    step(1, 3)
    end_in(20)
    run_out
    assert_equal({ offset: 0, count: 3, late: true }, coordinator.take_repeats)
    assert_equal 3, @log.count(:shutdown)
  end

  def test_stop_does_not_wait_for_a_back_off_with_nothing_finished_behind_it
    partition("a", bad: [0])
    step(0)
    end_in(100)
    run_out
    assert_equal 3, @log.count(:shutdown)
    assert_nil coordinator.take_repeats
  end

  def test_a_message_that_fails_during_the_end_goes_where_its_topic_says
    partition("abb", bad: [0], retries: 0, then: :skip)
    step(1, 2)
    end_in(100)
    run_out
    assert_equal 3, committed
    assert_equal [0], named("message.skipped").map { |event| event[:offset] }
    assert_nil coordinator.take_repeats
  end

  def test_the_end_of_the_time_takes_back_jobs_that_no_worker_has
    partition("abccc", bad: [0, 1])
    step(0)
    step(1)
    step(2, 3)
    end_in(100)
    wake
    assert_equal 2, @jobs.size
    coordinator.end(:shutdown)
    run_out
    assert_equal [0, 1, 2, 3, 4], messages
    assert_equal({ offset: 0, count: 3, late: true }, coordinator.take_repeats)
  end

  def test_a_worker_that_comes_too_late_begins_no_job_of_the_last_ones
    partition("abb", bad: [0])
    step(0)
    step(1, 2)
    end_in(5)
    wake
    assert_equal 1, @jobs.size
    Pelton::Clock.stub(:now, Pelton::Clock.now + 6) { run_out }
    assert_equal [0, 1, 2], messages
    assert_equal({ offset: 0, count: 2, late: true }, coordinator.take_repeats)
  end

  def test_time_that_is_over_ends_the_wait
    partition("abb", bad: [0], backoff: 3..3)
    step(0)
    Pelton::Clock.stub(:now, failed = Pelton::Clock.now) { step(1, 2) }
    end_in(30)
    refute_includes @log, :shutdown
    assert_in_delta failed + 2.7, @owner.named(:retry_at).last.last, 0.3001, "3 s, or up to a fifth less"
    Pelton::Clock.stub(:now, Pelton::Clock.now + 31) { coordinator.change_state }
    run_out
    assert_equal 3, @log.count(:shutdown)
  end

  # The calls before tell how long one may take.
  def test_nothing_is_begun_that_would_take_until_the_deadline
    partition("aabb")
    Pelton::Clock.stub(:now, Pelton::Clock.now + 20) { step(1, 2) } # a call of 20 s
    end_in(21)
    run_out
    assert_equal [2, 3, 0], messages
    assert_equal({ offset: 1, count: 2, late: true }, coordinator.take_repeats)
  end

  def test_a_partition_that_is_lost_in_the_middle_finishes_nothing_more
    partition("aabbbb")
    step(1, 4)
    end_in(100, :revoked)
    coordinator.abandon
    assert_equal({ offset: 0, count: 4, late: true }, coordinator.take_repeats)
    run_out
    assert_equal [2, 3, 4, 5, 0], messages, "only what runs"
    assert_nil committed
    assert_equal 3, @log.count(:revoked)
  end

  def test_stop_does_not_wait_for_an_endless_pause
    partition("aabb")
    step(1, 2)
    coordinator.change_state { |state| state.pause(nil) }
    step(0)
    end_in(100)
    run_out
    assert_equal [2, 3, 0], messages
    assert_equal 3, @log.count(:shutdown)
    assert_equal({ offset: 1, count: 2, late: false }, coordinator.take_repeats)
  end

  def test_stop_waits_for_a_pause_that_ends_in_time
    partition("aabb")
    step(1, 2)
    coordinator.change_state { |state| state.pause(Pelton::Clock.now + 5) }
    step(0)
    end_in(100)
    refute_includes @log, :shutdown
    wake
    run_out
    assert_equal 4, committed
  end
end
