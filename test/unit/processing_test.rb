# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# The parts of consuming one by one: backlog, steps, flow.
class ProcessingTest < Minitest::Test
  include Pelton::Consuming

  def batch(*offsets) = Fakes::Batch.new(offsets.map { |offset| Fakes::Message.new("orders", 0, offset, "x") })
  def offsets(messages) = messages&.map(&:offset)
  def bus = @bus ||= Pelton::Notifications.new

  # --- backlog ---

  # What the backlog gives next, as if the share before had come back.
  SLOT = Struct.new(:process?).new(false)

  def give(backlog)
    @share&.then { |share| backlog.put_back(share) }
    @share = backlog.next(SLOT)
    @share&.messages
  end

  def finish(backlog, offset = @share.messages.last_offset, mark: true) = backlog.finish(@share, offset, 7, mark: mark)

  def test_backlog_gives_batches_in_order_and_lets_them_go_when_they_are_done
    backlog = Backlog.new(10)
    assert_nil give(backlog)
    first = batch(0, 1, 2)
    second = batch(3, 4)
    backlog.add(first)
    backlog.add(second)
    assert_same first, give(backlog)
    assert_nil backlog.next(SLOT), "one share at a time"
    assert_equal 1, backlog.attempt(@share)
    finish(backlog)
    assert_equal [[3, 7], 0], [backlog.done, first.releases]
    assert_same second, give(backlog)
    assert_equal 1, first.releases
    finish(backlog)
    assert_nil give(backlog)
    assert_equal [[5, 7], 1], [backlog.done, second.releases]
  end

  def test_backlog_cuts_to_the_limit
    backlog = Backlog.new(2)
    all = batch(0, 1, 2)
    backlog.add(all)
    assert_equal [0, 1], offsets(give(backlog))
    finish(backlog)
    assert_equal [2, 7], backlog.done
    assert_equal [2], offsets(give(backlog))
  end

  def test_backlog_tries_again_from_the_first_unfinished
    backlog = Backlog.new(10)
    all = batch(0, 1, 5, 6)
    backlog.add(all)
    give(backlog)
    assert_equal 0, backlog.position(@share)
    backlog.mark(all[1])
    assert_equal 2, backlog.position(@share)
    assert_equal 1, backlog.attempt(@share)
    backlog.again(@share, nil)
    assert_equal [5, 6], offsets(give(backlog))
    assert_equal 2, backlog.attempt(@share)
    backlog.mark(all[0])
    assert_equal 2, backlog.attempt(@share)
    assert_equal [2, 7], backlog.done
  end

  def test_backlog_waits_for_the_time_of_a_retry
    backlog = Backlog.new(10)
    all = batch(0)
    backlog.add(all)
    give(backlog)
    backlog.again(@share, 5.0)
    assert_equal 5.0, backlog.wake_at
    assert_nil give(backlog)
    backlog.wake(4.9)
    assert_nil give(backlog)
    backlog.wake(5.0)
    assert_equal [0], offsets(give(backlog))
    assert_nil backlog.wake_at
  end

  def test_backlog_marks_between_two_tries
    backlog = Backlog.new(10)
    all = batch(4, 5, 6)
    backlog.add(all)
    give(backlog)
    backlog.again(@share, nil)
    backlog.put_back(@share)
    @share = nil
    backlog.mark(all[0])
    assert_equal 0, backlog.attempt(nil)
    assert_equal [5, 6], offsets(give(backlog))
    assert_equal 1, backlog.attempt(@share)
  end

  def test_backlog_one_by_one
    backlog = Backlog.new(10)
    backlog.add(batch(0, 1, 2, 3))
    give(backlog)
    backlog.again(@share, nil, alone_until: 1)
    assert_equal [0], offsets(give(backlog))
    assert_equal 2, backlog.attempt(@share)
    finish(backlog)
    assert_equal [1, 7], backlog.done
    assert_equal [1], offsets(give(backlog))
    assert_equal 1, backlog.attempt(@share)
    backlog.finish(@share, 1, 7, mark: false, seen: @share.messages)
    assert_equal [1, 7], backlog.done
    assert_equal [2, 3], offsets(give(backlog))
  end

  def test_message_that_did_not_start_is_no_attempt
    backlog = Backlog.new(10)
    backlog.add(batch(0))
    give(backlog)
    backlog.later(@share, 5.0)
    assert_nil give(backlog)
    backlog.wake(5.0)
    assert_equal [0], offsets(give(backlog))
    assert_equal 1, backlog.attempt(@share)
  end

  def test_an_untouched_batch_makes_no_message_objects
    untouched = batch(0, 1, 2)
    untouched.define_singleton_method(:messages) { raise "message objects" }
    backlog = Backlog.new(10)
    backlog.add(untouched)
    assert_same untouched, give(backlog)
    finish(backlog)
    assert_nil give(backlog)
    assert_empty untouched.from(3, 10)
    assert_equal 1, untouched.releases
  end

  def test_backlog_release_keeps_what_a_job_reads
    backlog = Backlog.new(10)
    backlog.release
    batches = [batch(0), batch(1), batch(2)]
    batches.each { |batch| backlog.add(batch) }
    give(backlog)
    backlog.release
    assert_equal [0, 1, 1], batches.map(&:releases)
    backlog.put_back(@share)
    backlog.release
    assert_equal [1, 1, 1], batches.map(&:releases)
  end

  # --- steps and flow ---

  NO_JITTER = Pelton::Backoff.new(1, 30, random: Struct.new(:rand).new(0.0))

  def topic(retries: nil, afterwards: :stop, manual: false)
    Class.new(Pelton::Routing::Topic) { def back_off = NO_JITTER }
         .new("orders", "C", { retries: retries, then: afterwards, manual_offsets: manual })
  end

  def flow(**options) = Flow.for(topic(**options), bus)
  def failed(*offsets, attempt: 1) = Result.new(RuntimeError.new, batch(*offsets), attempt, offsets.one?)

  def test_success_is_marked
    result = Result.new(nil, batch(1, 2), 1)
    assert_equal Outcome.done(mark: true), flow.settle(result)
    assert_equal Outcome.done(mark: false), flow(manual: true).settle(result)
  end

  def test_failure_behind_the_last_message_has_nothing_to_run_again
    none = batch(1).from(2, 1)
    assert_equal Outcome.done(mark: true), flow.settle(Result.new(RuntimeError.new, none, 1))
    assert_equal Outcome.done(mark: false), flow(manual: true).settle(Result.new(RuntimeError.new, none, 1))
  end

  def test_retries_for_ever
    assert_equal [1, 2, 4], ([1, 2, 3].map { |attempt| flow.settle(failed(1, 2, attempt: attempt)).delay })
    outcome = flow.settle(failed(1, 2, attempt: 1000))
    assert_equal [:again, 30.0, false], [outcome.kind, outcome.delay, outcome.alone], "outcome, delay, alone"
  end

  def test_limited_retries_count_for_one_message
    limited = flow(retries: 2)
    assert_equal [:again, true], limited.settle(failed(1, 2, attempt: 9)).to_h.values_at(:kind, :alone)
    assert_equal %i[again again stop], ([1, 2, 3].map { |attempt| limited.settle(failed(1, attempt: attempt)).kind })
    assert_equal :skip, flow(retries: 2, afterwards: :skip).settle(failed(1, attempt: 3)).kind
    assert_equal :skip, flow(retries: 0, afterwards: :skip).settle(failed(1, attempt: 1)).kind
  end

  def test_steps_are_asked_in_order
    seen = []
    step = Struct.new(:name, :seen) do
      def reason = :none
      def admit(messages) = (seen << :"admit #{name}") && messages
      def ready(messages) = (seen << :"ready #{name}") && messages
      def settle(_result) = (seen << :"settle #{name}") && nil
    end
    flow = Flow.new([step.new(:a, seen), Struct.new(:nothing).new, step.new(:b, seen)])
    all = batch(1)
    assert_same all, flow.start(all).messages
    assert_raises(Pelton::Error) { flow.settle(Result.new(nil, all, 1)) }
    assert_equal ["admit a", "admit b", "ready a", "ready b", "settle a", "settle b"], seen.map(&:to_s)
  end

  def test_steps_are_switched_on_by_the_topic
    off = Class.new { def self.for(_topic, _bus) = nil }
    assert_equal Outcome.done(mark: true), Flow.for(topic, bus, [off, Steps::Mark]).settle(Result.new(nil, batch(1), 1))
  end

  def test_instrument
    events = []
    executor = Struct.new(:earlier) { def attempt_of(job) = job.attempt + earlier }.new(1) # it was in a retry topic
    job = Job.new(executor, :consume, { group: "g", topic: "orders", partition: 0 }, batch(1, 2), 2)
    bus.subscribe("consumer.consumed") { |event| events << event }
    instrument = Instrument.new(bus)
    instrument.around(job) { job.given = 2 }
    job.given = nil
    assert_raises(NotImplementedError) { instrument.around(job) { raise NotImplementedError } }
    assert_equal [[nil, 2, 3, "orders"], [NotImplementedError, 0, 3, "orders"]],
                 (events.map { |event| [event[:error]&.class, event[:messages], event[:attempt], event[:topic]] })
    assert_operator events.first[:seconds], :>=, 0
  end

  def test_instrument_counts_calls_with_messages
    counts = Pelton::Native::CallCounts.new([60.0], [10.0])
    counter = Object.new.tap { |object| object.define_singleton_method(:calls) { |_facts| counts } }
    instrument = Instrument.new(bus)
    job = Job.new(nil, :consume, { group: "g", topic: "orders", partition: 3 }, batch(1, 2), 1)
    tick = Job.new(nil, :tick, job.facts)
    call = lambda do |counted|
      counted.queued_at = 5.0
      counted.begun_at = (batch(1).timestamp_ms / 1000.0) + 7
      counted.given = 2
      instrument.begin(counted, 5.5)
      instrument.around(counted) { return_of_call }
    end
    call.(job) # nothing counts
    bus.add_counter(counter)
    assert_equal :returned, call.(job)
    call.(tick)
    define_singleton_method(:return_of_call) { raise NotImplementedError }
    assert_raises(NotImplementedError) { call.(job) }
    taken = counts.take
    assert_equal [4, 1, [[2, 0], 1.0], [[2, 0], 4]], taken.values_at(:messages, :failures, :waits, :sizes)
    assert_equal({ 3 => 7.0 }, taken[:partitions])
    assert_in_delta 14.0 + taken[:seconds].last, taken[:ages].last
    bus.unsubscribe(counter)
    assert_raises(NotImplementedError) { call.(job) }
    assert_nil counts.take
  end

  def return_of_call = :returned
end
