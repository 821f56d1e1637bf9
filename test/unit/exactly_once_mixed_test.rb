# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# Transactions that mark nothing, and what is marked beside one.
class ExactlyOnceMixedTest < Minitest::Test
  include TransactionalKit

  def test_a_silent_abort_before_the_mark_lost_its_messages
    tries = 0
    consume(0, 1, backoff: 0..0) do |one|
      tries += 1
      one.transaction do |tx|
        tx.produce_async(topic: "out", payload: tries.to_s)
        raise Pelton::AbortTransaction if tries == 1

        one.mark_as_consumed(one.messages.last)
      end
    end
    assert_equal [:assigned, [0, 1], [0, 1]], @log
    assert_equal [["2"], [2], [], []], [out, sent, marked, errors], "payloads, offsets sent, offsets marked, errors"
  end

  def test_a_silent_abort_that_consume_itself_makes_good
    consume(0, 1) do |one|
      one.transaction { raise Pelton::AbortTransaction }
      one.transaction { one.messages.each { |message| one.mark_as_consumed(message) } }
    end
    assert_equal [[:assigned, [0, 1]], [2], []], [@log, sent, errors], "calls, offsets sent, errors"
  end

  # What another thread marks in the meantime is behind the transaction's offset, too.
  def test_progress_stored_during_a_transaction_does_not_take_back_its_offset
    consume(0, 1, 2) do |one|
      one.transaction do
        one.mark_as_consumed(one.messages.last)
        Thread.new { one.mark_as_consumed(one.messages.first) }.join
      end
    end
    assert_equal [[1], [3]], [marked, sent], "offsets marked, offsets sent"
    assert_operator @ownership.unmarks, :>, 0
    assert_equal [1, 1], [@ownership.commits, marked.size]
  end
end
