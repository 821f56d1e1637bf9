# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# Transactions that mark nothing, and what is marked beside one.
class ExactlyOnceMixedTest < Minitest::Test
  include TransactionalKit

  def test_a_silent_abort_before_the_mark_lost_its_messages
    tries = 0
    consume(0, 1, backoff: 0..0) do |consumer|
      tries += 1
      consumer.transaction do |tx|
        tx.produce_async(topic: "out", payload: tries.to_s)
        raise Pelton::AbortTransaction if tries == 1

        consumer.mark_as_consumed(consumer.messages.last)
      end
    end
    assert_equal [:assigned, [0, 1], [0, 1]], @log
    assert_equal [["2"], [2], [], []], [out, sent, marked, errors], "payloads, offsets sent, offsets marked, errors"
  end

  def test_a_silent_abort_that_consume_itself_makes_good
    consume(0, 1) do |consumer|
      consumer.transaction { raise Pelton::AbortTransaction }
      consumer.transaction { consumer.messages.each { |message| consumer.mark_as_consumed(message) } }
    end
    assert_equal [[:assigned, [0, 1]], [2], []], [@log, sent, errors], "calls, offsets sent, errors"
  end

  # --- transactions that mark only some messages of a call ---

  # They were not delivered again, and the mark of the next call passed them.
  def test_messages_that_no_transaction_marked_come_in_the_next_call
    attempts = []
    consume(0, 1, 2, 3) do |consumer|
      attempts << consumer.attempt
      first = consumer.messages.first
      consumer.transaction { consumer.mark_as_consumed(first) } unless first.offset == 2
    end
    assert_equal [[:assigned, [0, 1, 2, 3], [1, 2, 3], [2, 3]], [1, 2], [4], []], [@log, sent, marked, errors],
                 "calls, offsets sent, offsets marked by a return, errors"
    assert_equal [1, 1, 1], attempts, "the rest is no retry"
  end

  def test_rest_of_a_call_whose_transaction_marked_some_is_left_for_the_next_owner
    script do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
      coordinator.end(:revoked)
    end
    coordinator.receive(batch(0, 1, 2))
    work until idle?
    assert_equal [[:assigned, [0, 1, 2], :revoked], [1], []], [@log, sent, marked], "calls, offsets sent and marked"
  end

  def test_rest_of_a_call_is_not_filtered_again_and_dropped_messages_are_done
    asked = []
    consume(0, 1, 2, 3, filters: [->(message) { (asked << message.offset) && message.offset.odd? }]) do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
    end
    assert_equal [[:assigned, [1, 3], [3]], [2, 4], []], [@log, sent, errors], "calls, offsets sent, errors"
    assert_equal [0, 1, 2, 3], asked
  end

  # Otherwise the same call would come for ever.
  def test_transaction_that_marks_only_an_older_message_leaves_the_rest_to_the_return
    older = nil
    consume(0) { |consumer| older = consumer.messages.first }
    script { |consumer| consumer.transaction { consumer.mark_as_consumed(older) } }
    coordinator.receive(batch(1, 2))
    work until idle?
    assert_equal [[:assigned, [0], [1, 2]], [1], [1, 3]], [@log, sent, marked], "calls, offsets sent, offsets marked"
  end

  def test_with_manual_offsets_the_rest_of_a_call_waits_for_a_mark
    consume(0, 1, manual_offsets: true) do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
    end
    assert_equal [[:assigned, [0, 1]], [1], []], [@log, sent, marked], "calls, offsets sent, offsets marked"
  end

  # What another thread marks in the meantime is behind the transaction's offset, too.
  def test_progress_stored_during_a_transaction_does_not_take_back_its_offset
    consume(0, 1, 2) do |consumer|
      consumer.transaction do
        consumer.mark_as_consumed(consumer.messages.last)
        Thread.new { consumer.mark_as_consumed(consumer.messages.first) }.join
      end
    end
    assert_equal [[1], [3]], [marked, sent], "offsets marked, offsets sent"
    assert_operator @ownership.unmarks, :>, 0
    assert_equal [1, 1], [@ownership.commits, marked.size]
  end

  # --- messages of `process` that finished before a transaction of the same job ---

  # Finishes messages without a transaction, and takes the last one in a transaction.
  class Late < Pelton::Consumer
    def process(message)
      transaction { mark_as_consumed(message) } if message.offset == 2
    end
  end

  # librdkafka would commit their offset behind that of the transaction, and take the group back.
  def test_nothing_is_stored_while_a_transaction_sends_its_offset
    topic = Pelton::Routing::Topic.new("orders", Late, { max_messages: 100, backoff: 0..0 })
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    found = nil
    @ownership.on_send = lambda do
      coordinator.store_marks # as the listener may do at any time
      found = [marked.dup, @ownership.commits, @ownership.unmarks]
    end
    coordinator.receive(batch(0, 1, 2))
    work until idle?
    coordinator.store_marks
    assert_equal [[[2], 1, 1], [3], [2]], [found, sent, marked], "before the offset was sent, offsets sent and marked"
  end
end
