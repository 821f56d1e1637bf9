# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# A call of a transactional producer raises a message's failure, outside of a block, too: there it waits for its own
# commit. The failure came before that wait, so it was published as well: an event, an ERROR line, a count in
# `failures`, and false from `flush`. test/native/awaited_failures_test.rb has the producers without transactions.
class EmbeddedAwaitedFailuresTest < Minitest::Test
  include EmbeddedApp

  PRODUCE = 0

  # name => how a producer sends a message. Outside of a block, each waits.
  CALLS = {
    produce_sync: ->(made, message) { made.produce_sync(**message) },
    produce_async: ->(made, message) { made.produce_async(**message) },
    label: ->(made, message) { made.produce_async(**message, label: :x) },
    produce_many_sync: ->(made, message) { made.produce_many_sync([message] * 2) },
    produce_many_async: ->(made, message) { made.produce_many_async([message] * 2) },
    labels: ->(made, message) { made.produce_many_async([{ **message, label: :x }]) },
    buffer: ->(made, message) { made.buffer(**message).flush_buffer_sync },
    tombstone_sync: ->(made, message) { made.tombstone_sync(**message.except(:payload)) },
    within_a_block: ->(made, message) { made.transaction { |tx| tx.produce_sync(**message) } },
    many_within_a_block: ->(made, message) { made.transaction { |tx| tx.produce_many_sync([message] * 2) } }
  }.freeze

  # name => [error, partition, knows the partitions before?]. The topic has one partition.
  WAYS = {
    refused_at_once: [:_UNKNOWN_PARTITION, 99, true],
    refused_with_the_metadata: [:_UNKNOWN_PARTITION, 99, false],
    refused_by_the_broker: [:MSG_SIZE_TOO_LARGE, 0, true]
  }.freeze

  def transactional = app(kafka: { "transactional.id" => "id-#{@apps.size}" }, reload_backoff: 0.05)

  # Events come in order: this one is of a message that nothing waits for.
  def published
    last = app.producer
    last.produce_many_async([{ topic: topic, payload: "x", partition: 99 }])
    last.flush(timeout: 60)
    eventually(20) { happened("message.delivery_failed").any? { |event| event[:client] == last.name } }
    happened("message.delivery_failed").reject { |event| event[:client] == last.name }
  end

  WAYS.each do |way, (name, partition, known)|
    define_method("test_failure_of_a_transactional_producer_#{way}_was_an_event_although_it_was_raised") do
      CALLS.each do |call, sends|
        made = transactional.producer
        topic = topic()
        made.produce_sync(topic: topic, payload: "x", partition: 0) if known
        @cluster.push_errors(PRODUCE, [10]) if way == :refused_by_the_broker
        message = { topic: topic, payload: "x", key: "k", partition: partition }
        error = assert_raises(Pelton::DeliveryError, call) { sends.call(made, message) }
        assert_equal [name, partition], [error.name, error.partition], call
        assert_equal({}, made.failures, call)
        assert made.flush(timeout: 60), call
      end
      assert_empty published
    end
  end

  # librdkafka counts only failures of messages that it accepted. So the other messages were committed.
  def test_a_transaction_was_committed_without_the_message_of_a_batch_that_was_refused_at_once
    app = transactional
    topic = topic()
    app.producer.produce_sync(topic: topic, payload: "first", partition: 0)
    rows = [0, 99].map { |partition| { topic: topic, payload: "x", partition: partition } }
    [rows, rows.map { |row| { **row, label: :x } }].each do |messages|
      sent = nil
      error = assert_raises(Pelton::DeliveryError) do
        app.producer.transaction { |tx| sent = tx.produce_many_async(messages) }
      end
      assert_equal [99, :_UNKNOWN_PARTITION], [error.partition, sent.error.name]
    end
    assert_equal 99, assert_raises(Pelton::DeliveryError) { app.producer.produce_many_async(rows) }.partition
    committed = -> { happened("transaction.committed").count { |event| event[:client] == app.producer.name } }
    assert_equal [1, 3], [committed.call, happened("transaction.aborted").size], "only the first message's"
    assert_equal [topic] * 2, (published.map { |event| event[:topic] }), "of the messages in blocks"
  end

  # Nothing waits for a message inside of the block; the block's caller gets the transaction's error.
  def test_failure_that_only_the_commit_finds_is_an_event
    made = transactional.producer
    topic = topic()
    made.produce_sync(topic: topic, payload: "x", partition: 0)
    @cluster.push_errors(PRODUCE, [10])
    assert_raises(Pelton::KafkaError) do
      made.transaction { |tx| tx.produce_async(topic: topic, payload: "x", partition: 0) }
    end
    assert_equal [[topic, 0]], (published.map { |event| event.values_at(:topic, :partition) })
    assert_equal({ topic => { MSG_SIZE_TOO_LARGE: 1 } }, made.failures)
  end
end
