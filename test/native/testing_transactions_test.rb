# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"

# Transactions of consumers, run by pelton/testing/minitest: which producer is part of them, and commits that Kafka does
# not confirm.
class TestingTransactionsTest < Minitest::Test
  # As in docs/guides/state-in-memory.md.
  class TotalsConsumer < Pelton::Consumer
    def consume
      @totals ||= stored
      @totals = transaction do |tx|
        totals = @totals.dup
        messages.each do |message|
          totals[message.key] = totals.fetch(message.key, 0) + message.payload["cents"]
          tx.produce_async(topic: "totals", key: message.key, payload: totals[message.key].to_s)
        end
        mark_as_consumed(messages.last)
        totals
      end
    rescue Pelton::Error
      @totals = nil
      raise
    end

    private

    def stored = Pelton.each("totals").to_h { |message| [message.key, Integer(message.raw_payload)] }
  end

  # Produces to one topic in each way of the table in docs/guides/transactions.md; its first transaction is aborted.
  class WaysConsumer < Pelton::Consumer
    def process(message)
      producer.produce_sync(topic: "outside", payload: message.offset.to_s)
      transaction do |tx|
        tx.produce_async(topic: "tx", payload: message.offset.to_s)
        producer.produce_sync(topic: "inside", payload: message.offset.to_s)
        Pelton.producer.produce_sync(topic: "plain", payload: message.offset.to_s)
        mark_as_consumed(message)
        raise IOError, "aborted" if attempt == 1
      end
    end
  end

  def setup
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "billing"
    end
    Pelton.routes do
      topic("payments", to: TotalsConsumer) do
        decode :json
        backoff 1..1
        transactional "shop"
      end
      topic("limited", to: TotalsConsumer) do
        decode :json
        dead_letters "limited.dead", retries: 0
        backoff 1..1
        transactional "shop"
      end
      topic("ways", to: WaysConsumer) do
        backoff 1..1
        transactional "shop"
      end
    end
    create_topic("totals")
  end

  def totals = produced_messages("totals").map(&:raw_payload)
  def pay = produce("payments", { "cents" => 500 }, key: "7")
  def reasons = consumer_errors.map { |error| error.is_a?(Pelton::TransactionError) ? error.reason : error.class }

  def test_only_messages_of_the_block_and_of_its_producer_are_part_of_the_transaction
    produce("ways", "x")
    assert_equal [%w[0], [], [], %w[0]], ways
    travel 1
    assert_equal [%w[0 0], %w[0], %w[0], %w[0 0]], ways
  end

  def ways = %w[outside tx inside plain].map { |topic| produced_messages(topic).map(&:raw_payload) }

  def test_a_message_that_fails_aborts_its_transaction
    fail_next(:MSG_SIZE_TOO_LARGE, topic: "totals")
    pay
    assert_equal [[], nil], [totals, committed_offset("payments")]
    assert_equal([[Pelton::DeliveryError, :MSG_SIZE_TOO_LARGE, "totals", true]],
                 consumer_errors.map { |error| [error.class, error.name, error.topic, error.abortable?] })
    travel 1
    assert_equal [%w[500], 1], [totals, committed_offset("payments")]
  end

  # An outage makes a dead letter of a valid message if it outlasts the retries and ends while the copy is sent.
  def test_result_that_times_out_is_a_failed_attempt
    fail_next(:_MSG_TIMED_OUT, topic: "totals")
    produce("limited", { "cents" => 500 }, key: "7")
    assert_dead_lettered("limited", error: Pelton::DeliveryError, attempts: 1)
  end

  def test_message_that_succeeds_after_its_copy_failed_has_no_letter
    fail_next(:_MSG_TIMED_OUT, topic: "totals")
    fail_next(:_MSG_TIMED_OUT, topic: "limited.dead")
    produce("limited", { "cents" => 500 }, key: "7")
    assert_equal [[], nil], [totals, committed_offset("limited")]
    travel 1
    assert_equal [%w[500], 1], [totals, committed_offset("limited")]
    refute_dead_lettered("limited")
  end

  # The rebalance waits for the call.
  def test_transaction_of_a_revoked_partition_is_committed
    calls = revoke_before_the_mark(lost: false)
    pay
    assert_equal [%i[marked revoked], [], %w[500], 1],
                 [calls, consumer_errors, totals, committed_offset("payments")]
    pay
    assert_equal %w[500], totals
  end

  def test_transaction_of_a_lost_partition_is_aborted_and_comes_again_once_it_is_back
    calls = revoke_before_the_mark(lost: true)
    pay
    assert_equal [%i[revoked], [], nil], [calls, totals, committed_offset("payments")]
    assert_empty consumer_errors, "AssignmentLost is no failure of the consumer"
    assign("payments", 0)
    assert_equal [%w[500], 1], [totals, committed_offset("payments")]
  end

  def test_commit_that_failed_unconfirmed_is_repeated
    pay
    fail_next_commit
    pay
    assert_equal [%w[500], 1], [totals, committed_offset("payments")]
    assert_equal [:unknown], reasons
    travel 1
    assert_equal [%w[500 1000], 2], [totals, committed_offset("payments")]
  end

  def test_commit_that_succeeded_unconfirmed_is_not_repeated
    pay
    fail_next_commit(:committed)
    pay
    assert_equal [:unknown], reasons
    travel 1
    assert_equal %i[unknown committed], reasons
    assert_equal [%w[500 1000], 2], [totals, committed_offset("payments")]
    pay
    assert_equal [%w[500 1000 1500], 3], [totals, committed_offset("payments")]
  end

  def test_unconfirmed_commit_publishes_an_aborted_transaction
    ended = []
    %w[transaction.committed transaction.aborted].each { |name| Pelton.subscribe(name) { |event| ended << event } }
    fail_next_commit(:committed)
    pay
    assert_equal [["transaction.aborted", :unknown]], ended.map { |event| [event.name, event[:error].reason] }
  end

  def test_unconfirmed_commit_outside_of_consumers_has_the_reason_unknown
    pool = Pelton.producer_pool(size: 1, kafka: { "transactional.id" => "one" })
    send = -> { pool.transaction { |tx| tx.produce_async(topic: "receipts", payload: "x") } }
    { committed: 1, unknown: 1 }.each do |reason, count|
      fail_next_commit(reason)
      assert_equal :unknown, assert_raises(Pelton::TransactionError, &send).reason
      assert_equal count, produced_messages("receipts").size, reason
    end
    send.call
    assert_equal 2, produced_messages("receipts").size
  end

  def test_another_outcome_is_refused
    assert_raises(Pelton::ConfigError) { fail_next_commit(:lost) }
  end

  private

  # The consumer's next call loses its partition before it marks. Returns what happens: :marked, :revoked.
  def revoke_before_the_mark(lost:)
    test = self
    calls = []
    consumer = consumer_for("payments")
    consumer.define_singleton_method(:revoked) { calls << :revoked }
    consumer.define_singleton_method(:mark_as_consumed) do |message|
      test.revoke("payments", 0, lost: lost)
      super(message).tap { calls << :marked }
    end
    calls
  end
end
