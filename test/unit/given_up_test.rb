# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# A partition that gave up after a failure (`then: :stop`).
class GivenUpTest < Minitest::Test
  include CoordinatorKit

  # It answered true, and nothing ran.
  def test_a_seek_lets_a_partition_go_on_that_gave_up
    script { |consumer| raise IOError, "on purpose" if consumer.messages.first.offset == 1 }
    coordinator(retries: 0, max_messages: 1, tick_every: 5).receive(batch(0, 1, 2))
    3.times { work }
    assert_equal 1, coordinator.stopped
    assert_predicate self, :idle?
    consumer = coordinator.executors.first.consumer
    wake
    work
    assert_equal [:assigned, [0], [1], :tick], @log, "ticks go on"
    assert consumer.seek(2)
    assert_nil coordinator.stopped
    coordinator.receive(batch(2, 3))
    2.times { work }
    assert_equal [[2], [3]], @log.last(2)
    assert_equal [4, 7], @ownership.marks.last
  end

  def test_a_seek_lets_a_keyed_partition_go_on_that_gave_up
    failing = true
    script { |_| raise IOError, "on purpose" if failing }
    coordinator(retries: 0, concurrency: 2).receive(batch(0))
    work until idle?
    assert_equal 0, coordinator.stopped
    failing = false
    consumer = coordinator.executors.first.consumer
    assert consumer.seek(0)
    coordinator.receive(batch(0, 1, 2))
    work until idle?
    assert_nil coordinator.stopped
    assert_equal 3, @ownership.marks.last.first
  end

  # A seek past the message answered true, and with `concurrency` the message ran and stopped the partition again.
  def test_a_seek_past_the_failed_message_of_a_keyed_partition_leaves_it_and_no_other
    script { |consumer| raise IOError, "on purpose" if consumer.messages.first.offset == 1 }
    coordinator(retries: 0, concurrency: 2, max_messages: 1).receive(batch(0, 1, 2, 3, 4))
    work until idle?
    assert_equal 1, coordinator.stopped
    consumer = coordinator.executors.first.consumer
    @log.clear
    assert consumer.seek(4)
    coordinator.receive(batch(4, 5))
    work until idle?
    assert_nil coordinator.stopped
    refute_includes @log, [1]
    assert_equal [[4], [5]], @log.last(2).sort
    assert_equal 6, @ownership.marks.last.first
  end

  def test_a_seek_back_of_a_keyed_partition_tries_the_failed_message_again
    failing = true
    script { |consumer| raise IOError, "on purpose" if failing && consumer.messages.first.offset == 1 }
    coordinator(retries: 0, concurrency: 2, max_messages: 1).receive(batch(0, 1, 2))
    work until idle?
    failing = false
    @log.clear
    assert coordinator.executors.first.consumer.seek(1)
    coordinator.receive(batch(1, 2))
    work until idle?
    assert_includes @log, [1]
    assert_equal 3, @ownership.marks.last.first
  end
end
