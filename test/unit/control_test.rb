# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# A coordinator whose topic filters, expires, delays or throttles: what is marked, when, and what is told.
class ControlTest < Minitest::Test
  include CoordinatorKit

  def dropped = named("message.dropped").map { |event| event.payload.values_at(:reason, :count, :offset) }

  def keeping(*offsets) = { filters: [->(message) { offsets.include?(message.offset) }] }

  # What the last job asked the listener for, in seconds from now.
  def last_wait = @owner.named(:retry_at).last.last - Pelton::Clock.now

  def test_filtered_messages_are_marked_in_order
    coordinator(**keeping(1, 2)).receive(all = batch(0, 1, 2, 3))
    coordinator.receive(batch(4, 5))
    3.times { work }
    assert_equal [:assigned, [1, 2]], @log
    assert_equal [[4, 7], [6, 7]], @ownership.marks
    assert_equal 1, all.releases
    assert_equal [[:filtered, 2, 0], [:filtered, 2, 4]], dropped
    assert_predicate self, :idle?
  end

  def test_a_failure_among_filtered_messages_runs_the_rest_again_and_counts_for_its_message
    coordinator(retries: 1, backoff: 0..0, then: :skip, **keeping(1, 4)).receive(batch(0, 1, 2, 3, 4))
    work
    script do |consumer|
      consumer.mark_as_consumed(consumer.messages.first) if consumer.messages.first.offset == 1
      raise "poison"
    end
    work until idle?
    assert_equal [:assigned, [1, 4], [4]], @log.first(3)
    assert_equal [[4, 2]], named("message.skipped").map { |event| event.payload.values_at(:offset, :attempts) }
    assert_equal [5, 7], @ownership.marks.last
    assert_equal 3, dropped.sum { |_, count, _| count }
  end

  def test_filtered_messages_need_no_manual_mark
    coordinator(manual_offsets: true, **keeping(3)).receive(batch(0, 1))
    coordinator.receive(batch(2, 3))
    script { |consumer| consumer.mark_as_consumed(consumer.messages.first) }
    3.times { work }
    assert_equal [[2, 7], [4, 7]], @ownership.marks
  end

  def test_a_wait_is_no_attempt_and_no_call_of_consume
    coordinator(throttle: [2, 60]).receive(batch(0, 1, 2))
    @bus.subscribe("consumer.consumed") { |event| (@consumed ||= []) << event[:attempt] }
    3.times { work }
    assert_equal [:assigned, [0, 1]], @log
    assert_equal [[2, 7]], @ownership.marks
    assert_in_delta 60, last_wait, 5
    assert_predicate self, :idle?
    wake
    work
    assert_equal [1], @consumed
    assert_equal 2, @owner.named(:retry_at).size
    assert_empty named("consumer.retrying")
  end

  def test_delayed_while_more_comes_and_at_the_end
    now = (Pelton::Clock.wall * 1000).round
    coordinator(delay: 30)
    later = Fakes::Batch.new([Fakes::Message.new("orders", 0, 0, "x", timestamp_ms: now)])
    coordinator.receive(later)
    2.times { work }
    assert_in_delta 30, last_wait, 5
    coordinator.receive(old = batch(1))
    assert_predicate self, :idle?, "what is behind waits"
    coordinator.end(:revoked)
    work
    assert_equal %i[assigned revoked], @log
    assert_equal [1, 1], [later.releases, old.releases]
    assert_empty @ownership.marks
    wake
    assert_predicate self, :idle?
  end

  def test_expired_messages
    coordinator(expire_after: 60).receive(batch(0, 1)) # of 2023
    2.times { work }
    assert_equal [[:assigned], [[2, 7]], [[:expired, 2, 0]]], [@log, @ownership.marks, dropped],
                 "calls, marks, dropped messages"
  end

  # --- pause ---

  # One that has consumed offset 0.
  def consumer
    @consumer ||= begin
      found = nil
      script { |consumer| found = consumer }
      coordinator.receive(batch(0))
      2.times { work }
      script { nil }
      @log.clear
      found
    end
  end

  def test_pause_holds_until_its_time_and_keeps_new_messages
    assert consumer.pause(30)
    assert_in_delta 30, last_wait, 5
    coordinator.receive(later = batch(1))
    assert_predicate self, :idle?
    assert_predicate consumer, :paused?
    coordinator.wake_up(Pelton::Clock.now + 29)
    assert_predicate self, :idle?
    coordinator.wake_up(Pelton::Clock.now + 31)
    refute_predicate consumer, :paused?
    assert_equal 0, later.releases
    work
    assert_equal [[1]], @log
  end

  def test_a_pause_without_an_end_has_no_timer_and_ends_with_resume
    timers = @owner.named(:retry_at).size
    assert consumer.pause
    coordinator.receive(batch(1))
    assert_equal timers, @owner.named(:retry_at).size
    coordinator.wake_up(Float::MAX)
    assert_predicate self, :idle?
    2.times { consumer.resume } # also a partition that is not paused
    work
    assert_equal [[1]], @log
  end

  def test_unmarked_messages_at_a_pause_come_again_without_counting_as_a_retry
    coordinator.receive(batch(0, 1, 2))
    attempts = []
    script do |consumer|
      attempts << consumer.attempt
      consumer.mark_as_consumed(consumer.messages.first)
      consumer.pause(30) if consumer.messages.size == 3
    end
    2.times { work }
    assert_equal [[1, 7]], @ownership.marks
    assert_predicate self, :idle?
    coordinator.wake_up(Pelton::Clock.now + 31)
    work
    assert_equal [[0, 1, 2], [1, 2]], @log.drop(1)
    assert_equal [1, 1], attempts
    assert_equal [3, 7], @ownership.marks.last
    assert_empty named("consumer.retrying")
  end

  def test_a_pause_from_another_thread_leaves_the_running_batch_alone
    coordinator.receive(batch(0, 1))
    coordinator.receive(batch(2))
    script { |consumer| Pelton::Threads.start("test") { consumer.pause }.join }
    2.times { work }
    assert_equal [[2, 7]], @ownership.marks
    assert_predicate self, :idle?
  end

  def test_a_pause_survives_errors
    coordinator(backoff: 0..0).receive(batch(0))
    script do |consumer|
      consumer.pause(30) unless consumer.retrying?
      raise "failed" unless consumer.retrying?
    end
    2.times { work }
    assert_predicate self, :idle?
    coordinator.wake_up(Pelton::Clock.now + 31)
    work
    assert_equal [:assigned, [0], [0]], @log
    assert_equal [[1, 7]], @ownership.marks
  end

  # A pause ends when the partition is revoked, so the partition is not paused when it is assigned again.
  def test_a_pause_ends_with_the_partition
    consumer.pause
    coordinator.receive(received = batch(1))
    coordinator.end(:revoked)
    work
    assert_equal [[:revoked], 1], [@log, received.releases]
    refute consumer.pause(1)
    consumer.resume
    assert_predicate self, :idle?
    @coordinator = nil
    coordinator.receive(batch(1))
    2.times { work }
    assert_equal [:revoked, :assigned, [1]], @log
  end

  def test_bad_pauses
    [-1, "1", Float::NAN].each { |seconds| assert_raises(Pelton::ConfigError) { consumer.pause(seconds) } }
    refute_predicate consumer, :paused?
  end

  # --- ticks ---

  def test_ticks_come_between_jobs_and_are_not_piled_up
    coordinator(tick_every: 5)
    assert_in_delta 5, last_wait, 4
    work
    coordinator.wake_up(Pelton::Clock.now + 6)
    work
    assert_equal %i[assigned tick], @log
    coordinator.receive(batch(0))
    coordinator.receive(batch(1))
    script do
      # Two come due while it runs.
      2.times { |number| coordinator.wake_up(Pelton::Clock.now + (6 * (number + 2))) } if @log.last == [0]
    end
    work until idle?
    assert_equal [:assigned, :tick, [0], :tick, [1]], @log
    assert_equal [1, 2], @ownership.marks.map(&:first)
  end

  def test_ticks_that_were_missed_do_not_come_in_a_burst
    coordinator(tick_every: 5)
    work
    late = Pelton::Clock.now + 100 # as after a suspended process
    [late, late + 1, late + 4].each do |now|
      coordinator.wake_up(now)
      work until idle?
    end
    assert_equal %i[assigned tick], @log
    coordinator.wake_up(late + 6)
    work until idle?
    assert_equal %i[assigned tick tick], @log
  end

  def test_ticks_in_a_pause_and_errors_in_one
    coordinator(tick_every: 5)
    work
    Consumer.hooks[:tick] = lambda do |consumer|
      consumer.pause
      raise "failed"
    end
    coordinator.wake_up(Pelton::Clock.now + 6)
    work
    coordinator.receive(batch(0))
    coordinator.wake_up(Pelton::Clock.now + 12)
    work
    assert_equal %i[assigned tick tick], @log
    assert_predicate self, :idle?
    assert_equal(%w[consumer.tick] * 2, named("error.occurred").map { |event| event[:source] })
    coordinator.end(:revoked)
    work
    coordinator.wake_up(Float::MAX)
    assert_equal :revoked, @log.last
    assert_predicate self, :idle?
  end

  # --- the end of a partition ---

  def at_end = coordinator.change_state { |state| state.at_end = true }

  # The end of a partition is reported behind its messages, and must not advance the stored position (librdkafka issue
  # 4844).
  def test_end_of_partition_is_reported_after_its_messages_and_marks_nothing
    coordinator.receive(batch(0, 1))
    script { |consumer| raise "failed" unless consumer.retrying? }
    at_end
    2.times { work }
    assert_predicate self, :idle?
    coordinator.wake_up(Pelton::Clock.now + 60)
    work until idle?
    assert_equal [:assigned, [0, 1], [0, 1], :reached_end], @log
    assert_equal [[2, 7]], @ownership.marks
    at_end
    work
    assert_equal :reached_end, @log.last
    assert_equal [[2, 7]], @ownership.marks
  end

  def test_outdated_end_of_partition_is_not_reported
    at_end
    coordinator.receive(batch(0))
    work until idle?
    assert_equal [:assigned, [0]], @log
    at_end
    work
    assert_predicate self, :idle?
    assert_equal :reached_end, @log.last
  end

  def test_a_message_that_failed_is_not_refused_at_its_retry
    seen = []
    refusing = ->(message) { !seen.include?(message.offset) }
    coordinator(retries: 1, backoff: 0..0, then: :skip, filters: [refusing]).receive(batch(0, 1))
    work
    script do |consumer|
      seen.concat(consumer.messages.map(&:offset))
      raise "poison"
    end
    work until idle?
    assert_equal [[0, 2], [1, 2]], named("message.skipped").map { |event| event.payload.values_at(:offset, :attempts) }
    assert_empty dropped
    assert_equal [[1, 7], [2, 7]], @ownership.marks
  end

  def test_dropped_messages_are_reported_once_although_their_neighbors_are_retried
    coordinator(backoff: 0..0, **keeping(1, 3)).receive(batch(0, 1, 2, 3))
    work
    failures = [IOError, IOError]
    script { failures.shift&.then { |error| raise error } }
    work until idle?
    assert_equal [:assigned, [1, 3], [1, 3], [1, 3]], @log
    assert_equal [[:filtered, 2, 0]], dropped
  end

  def test_filter_whose_new_raises_loses_no_message
    broken = Class.new { def self.new = raise(IOError, "no list") }
    coordinator(filters: [broken]).receive(batch(0, 1))
    work until idle?
    assert_equal [:assigned, [0, 1]], @log
    assert_equal ["filter"] * 2, named("error.occurred").map { |event| event[:source] }
  end

  # Processes message by message; its class has the script.
  class OneByOne < Pelton::Consumer
    class << self
      attr_accessor :script, :log
    end

    def process(message)
      self.class.log << message.offset
      self.class.script&.call(self)
    end
  end

  def one_by_one(**settings)
    OneByOne.log = @log
    topic = Pelton::Routing::Topic.new("orders", OneByOne, { max_messages: 100, backoff: 0..0 }.merge(settings))
    flow = Pelton::Consuming::Flow.for(topic, @bus)
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                jobs: @jobs, bus: @bus, owner: @owner).start
  end

  def test_a_pause_that_is_over_before_process_returns_is_no_endless_loop
    pauses = 1
    OneByOne.script = lambda do |consumer|
      next unless (pauses -= 1) >= 0

      consumer.pause(5)
      consumer.resume
    end
    one_by_one.receive(batch(0, 1, 2))
    2.times { work }
    assert_equal [0], @log
    wake
    work until idle?
    assert_equal [0, 0, 1, 2], @log
    assert_equal [3, 7], @ownership.marks.last
  end

  # They were taken for given, with the failed one, and came however old.
  def test_behind_a_failed_message_those_that_were_never_begun_are_asked_again
    OneByOne.script = lambda do |_|
      next unless @log == [0]

      @late = true
      raise "poison"
    end
    one_by_one(filters: [->(message) { !@late || message.offset == 2 }]).receive(batch(0, 1, 2, 3))
    work until idle?
    assert_equal [0, 0, 2], @log
    assert_equal [[:filtered, 2, 0]], dropped
    assert_equal [4, 7], @ownership.marks.last
  end

  def test_error_before_the_first_message_is_not_counted_for_a_healthy_message
    OneByOne.script = nil
    one_by_one(filters: [->(message) { message.offset != 2 || Thread.exit }], retries: 1, then: :skip)
    coordinator.receive(batch(0, 1, 2, 3))
    20.times do
      Pelton::Threads.start("test") { work }.join unless idle?
      wake
    end
    assert_equal [0, 1, 3], @log
    assert_equal [2], named("message.skipped").map { |event| event[:offset] }
  end
end
