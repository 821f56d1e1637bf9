# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# A coordinator whose topic filters, expires, delays or throttles: what is marked, when, and what is told.
class ControlTest < Minitest::Test
  include CoordinatorKit

  def dropped = named("messages.dropped").map { |event| event.payload.values_at(:reason, :count, :offset) }

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

  def test_marked_by_hand_what_is_filtered_is_marked_with_the_next
    coordinator(manual_offsets: true, **keeping(3)).receive(batch(0, 1))
    coordinator.receive(batch(2, 3))
    script { |consumer| consumer.mark_as_consumed(consumer.messages.first) }
    3.times { work }
    assert_equal [[4, 7]], @ownership.marks
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
    assert_equal [[:assigned], [[2, 7]], [[:expired, 2, 0]]], [@log, @ownership.marks, dropped]
  end
end
