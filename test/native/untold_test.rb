# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "timeout"

# A failure comes to somebody's notice: to those who wait, or as an event, however a wait ends.
class NativeUntoldTest < Minitest::Test
  include NativeKit

  FAR = 300

  def setup = next_events(0)

  def test_failure_during_a_wait_that_times_out_is_reported
    half_failed do |delivery, fail_first|
      waiter = waiting { delivery.wait(timeout: 1) }
      fail_first.call
      assert_raises(Pelton::WaitTimeout) { waiter.value }
      assert_told [[delivery.id, 0]]
    end
  end

  def test_failure_during_a_killed_or_interrupted_wait_is_reported
    ends = { kill: ->(thread) { thread.kill.join }, raise: ->(thread) { assert_raises(Interrupt) { stop(thread) } } }
    ends.each do |name, finish|
      half_failed do |delivery, fail_first|
        waiter = waiting { delivery.wait }
        fail_first.call
        assert_empty failures_told(0.05), name
        finish.call(waiter)
        assert_told [[delivery.id, 0]]
      end
    end
  end

  def test_failure_during_a_wait_ended_by_rubys_timeout_is_reported
    half_failed do |delivery, fail_first|
      waiter = waiting { Timeout.timeout(0.5) { delivery.wait(timeout: FAR) } }
      fail_first.call
      assert_raises(Timeout::Error) { waiter.value }
      assert_told [[delivery.id, 0]]
    end
  end

  def test_failure_is_raised_only_in_the_one_of_two_waits_that_did_not_give_up
    producer = lonely_producer
    delivery = producer.produce("t", "x", nil, -1, nil, nil, 1)
    unwatched = producer.produce("t", "y", nil, -1, nil, nil, 1)
    waiter = waiting { delivery.wait(timeout: FAR) }
    assert_raises(Pelton::WaitTimeout) { delivery.wait(timeout: 0.05) }
    producer.purge
    assert_raises(Pelton::DeliveryError) { waiter.value }
    assert_told [[unwatched.id, 0]]
  end

  def test_every_failure_is_raised_by_a_wait_or_published_whenever_the_wait_ends
    kinds = Array.new(200) do |round|
      producer = lonely_producer
      delivery = producer.produce_many(Array.new(200) { { topic: "t", payload: "x" } }, 1)
      waiter = waiting { delivery.wait(timeout: round.odd? ? 0.001 : FAR) }
      producer.purge
      round.odd? || waiter.raise(Interrupt)
      outcome = outcome_of(waiter)
      eventually { delivery.done? }
      producer.close(0)
      told = failures_told(0).select { |id, _| id == delivery.id }
      assert_equal told.uniq, told
      assert_equal 200, told.size, "#{outcome} in round #{round}" unless outcome == Pelton::DeliveryError
      outcome
    end
    refute_empty kinds - [Pelton::DeliveryError]
  end

  def test_id_belongs_to_one_delivery
    producer = lonely_producer
    ids = Array.new(300) do
      pair = [producer.produce("t", "x", nil, -1, nil, nil, 1),
              producer.produce_many([{ topic: "t", payload: "x" }], 1)]
      pair.map(&:id).tap do
        producer.purge
        eventually { pair.all?(&:done?) }
        pair.clear
        GC.start(full_mark: false)
      end
    end
    assert_nil ids.flatten.tally.find { |_, times| times > 1 }
  end

  private

  # Yields a delivery of two messages, and what lets the first of them fail; the other one stays open.
  def half_failed
    producer = lonely_producer("queue.buffering.max.messages" => "1")
    delivery = nil
    rows = Array.new(2) { |number| { topic: "t", payload: number.to_s } }
    sender = waiting { producer.produce_many(rows, FAR) { |made| delivery = made } }
    yield delivery, lambda {
      producer.purge
      sender.join(10 * Guard::PATIENCE) || flunk("the second message found no room")
      eventually { delivery.reports.first.last }
    }
    refute_predicate delivery, :done?
  ensure
    sender&.kill
    producer.close(0)
    next_events(0)
  end

  def waiting(&block)
    Thread.new(&block).tap do |thread|
      thread.report_on_exception = false
      eventually { thread.stop? }
    end
  end

  def stop(thread)
    thread.raise(Interrupt)
    thread.value
  end

  def outcome_of(waiter)
    waiter.value && :delivered
  rescue Pelton::DeliveryError, Pelton::WaitTimeout, Interrupt => e
    e.class
  end

  # [[id of the delivery, position], …] of the failures told until now.
  def failures_told(timeout)
    next_events(timeout).filter_map { |kind, *facts| facts[6, 2] if kind == :delivery_failed }
  end

  def assert_told(expected)
    found = []
    eventually(5, "an event of #{expected}") { (found += failures_told(0)).size >= expected.size }
    assert_equal expected, found + failures_told(0.05)
  end
end
