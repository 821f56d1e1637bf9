# frozen_string_literal: true

require_relative "../test_helper"
require "support/native_kit"
require "pelton/producer"

# What sends messages in other ways than one by one, on the native extension and the embedded cluster.
class NativeSendingTest < Minitest::Test
  include NativeKit

  PARTITIONERS = %w[consistent consistent_random murmur2 murmur2_random fnv1a fnv1a_random].freeze

  def setup
    @bus = Pelton::Notifications.new
    @producers = []
  end

  def teardown = @producers.each { |producer| producer.close(timeout: 0.5) }

  # A Pelton::Producer.
  def sender(kafka = {}, queue_timeout: 5, poller: nil)
    config = Pelton::Config.new
    config.polling.poller = poller
    config.queue_timeout = queue_timeout
    config.kafka = { **server, "linger.ms" => 1, "log_level" => 0, **kafka }
    Pelton::Producer.new(config.freeze, bus: @bus).tap { |made| @producers << made }
  end

  def events(name)
    @seen ||= {}
    @seen[name] ||= [].tap { |list| @bus.subscribe(name) { |event| list << event.payload } }
  end

  # --- partitions ---

  def test_a_partition_key_goes_where_the_same_key_goes
    topic = new_topic(7)
    keys = Array.new(50) { |number| "key-#{number}" } << "\0" << ("k" * 5_000) << "ключ"
    PARTITIONERS.each do |name|
      made = sender({ "partitioner" => name })
      by_key = keys.map { |key| made.produce_async(topic: topic, payload: "x", key: key) }
      by_partition_key = keys.map { |key| made.produce_async(topic: topic, payload: "x", partition_key: key) }
      Pelton::Delivery.wait_all(by_key + by_partition_key, timeout: 60)
      assert_equal by_key.map(&:partition), by_partition_key.map(&:partition), name
      assert_operator by_key.map(&:partition).uniq.size, :>, 3
    end
  end

  def test_a_variant_s_partitioner
    topic = new_topic(7)
    keys = Array.new(30) { |number| "key-#{number}" }
    expected = keys.map { |key| Native::Producer.partition("fnv1a", key, 7) }
    variant = sender.with(partitioner: :fnv1a)
    sent = variant.produce_many_sync(keys.map { |key| { topic: topic, payload: "x", key: key } }, timeout: 60)
    assert_equal expected, (sent.reports.map { |report| report[1] })
    assert_nil Native::Producer.partition("random", "k", 7)
  end

  def test_partition_count
    made = sender
    assert_equal 3, made.partition_count(new_topic(3))
    assert_raises(Pelton::InvalidMessageError) { made.partition_count("no topic!") }
    lost = sender(NOWHERE)
    error = nil
    took = seconds { error = assert_raises(Pelton::WaitTimeout) { lost.partition_count("orders", timeout: 0.3) } }
    assert_operator took, :<, 30
    assert_match(/partition count of orders not finished after 0.3 s/, error.message)
  end

  # --- whole batches ---

  def test_a_bad_message_keeps_its_whole_batch_from_being_sent
    topic = new_topic
    made = sender
    good = { topic: topic, payload: "x", partition: 0 }
    { topic: 7, payload: 5, key: :k, partition: -7, timestamp: "now", headers: [1] }.each do |name, value|
      bad = { **good, name => value }
      [[good, good, bad], [good, good, { **bad, label: "L" }]].each do |rows|
        error = assert_raises(Pelton::InvalidMessageError) { made.produce_many_async(rows) }
        assert_equal [name.to_s, value, 2], [error.key, error.value, error.index]
      end
    end
    assert_equal 0, made.produce_sync(**good).offset
  end

  def test_flush_returns_false_when_messages_without_a_waiter_failed
    failed = events("producer.flush_failed")
    topic = new_topic
    made = sender({ "message.max.bytes" => 2_000 })
    large = { topic: topic, payload: "y" * 3_000 }
    made.produce_many_async([{ **large, label: 1 }, { **large, label: 2 }])
    refute made.flush(timeout: 60)
    assert_equal [{ topic => { MSG_SIZE_TOO_LARGE: 2 } }, 0], failed.first.values_at(:failures, :pending)
    made.produce_async(topic: topic, payload: "x")
    assert made.flush(timeout: 60)
    assert_equal({ topic => { MSG_SIZE_TOO_LARGE: 2 } }, made.failures)
    assert_equal 1, failed.size
  end

  def test_a_variants_failures_are_its_producers
    topic = new_topic
    made = sender
    # (`produce_async` raises if it knows the number of partitions by then.)
    made.with(acks: 1).produce_many_async([{ topic: topic, payload: "x", partition: 7 }])
    refute made.flush(timeout: 60)
    assert_equal({ topic => { _UNKNOWN_PARTITION: 1 } }, made.failures)
  end

  def test_too_large_message_of_a_batch_is_reported_without_a_waiter
    failed = events("message.delivery_failed")
    topic = new_topic
    made = sender({ "message.max.bytes" => 2_000 })
    made.produce_many_async([{ topic: topic, payload: "x" }, { topic: topic, payload: "y" * 3_000, label: "big" }])
    refute made.flush(timeout: 60), "a message failed"
    assert made.flush(timeout: 60), "none since the last flush"
    assert_equal({ topic => { MSG_SIZE_TOO_LARGE: 1 } }, made.failures)
    eventually { failed.any? }
    assert_equal [[:MSG_SIZE_TOO_LARGE, topic, "big", "big"]],
                 (failed.map { |event| [event[:error].name, event[:topic], event[:label], event[:error].label] })
    assert_raises(Pelton::DeliveryError) { made.produce_async(topic: topic, payload: "y" * 3_000) }
  end

  def test_checks_are_those_of_sending
    check = Native::Producer.method(:check)
    assert_nil check.call({ topic: "a", payload: nil, key: "", partition: -1, headers: { "a" => [nil] } })
    assert_nil check.call({ topic: "a", payload: "", timestamp: Time.now, label: 1 })
    [{ topic: "a b", payload: "x" }, { topic: "a" }, { topic: "a", payload: "x", pratition: 1 }, 7].each do |message|
      assert_raises(Pelton::InvalidMessageError) { check.call(message) }
    end
  end

  # --- labels ---

  def test_failures_without_a_waiter_have_their_labels
    failed = events("message.delivery_failed")
    made = sender(NOWHERE.merge("message.timeout.ms" => 100))
    label = Object.new
    made.produce_async(topic: "orders", payload: "x", label: label)
    made.produce_many_async([{ topic: "orders", payload: "x" }, { topic: "orders", payload: "x", label: 2 }])
    made.produce_async(topic: "orders", payload: "x")
    eventually(10) { failed.size == 4 }
    assert_equal [label, 2, nil, nil].map(&:hash).sort, failed.map { |event| event[:label].hash }.sort
  end

  def test_an_event_that_waits_to_be_read_gets_no_other_message_s_label
    gate = Thread::Queue.new
    failed = []
    @bus.subscribe("message.delivery_failed") do |event|
      gate.pop if failed.empty?
      failed << event.payload.values_at(:topic, :label)
    end
    made = sender(NOWHERE)
    2_000.times { made.produce_many_async([{ topic: "plain", payload: "x" }]) }
    made.purge
    eventually(10) { made.pending.zero? }
    2.times { GC.start } # their memory is free again
    4_000.times.map { |number| made.produce_async(topic: "labelled", payload: "x", label: number) }
    gate.close
    eventually(10) { failed.size >= 2_000 }
    assert_equal [["plain", nil]], failed.first(2_000).uniq
  ensure
    gate&.close
  end

  def test_awaited_failures_have_their_labels
    made = sender(NOWHERE.merge("message.timeout.ms" => 100))
    delivery = made.produce_many_async([{ topic: "orders", payload: "x", label: "A" }])
    error = assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
    assert_equal [:_MSG_TIMED_OUT, "A"], [error.name, error.label]
    late = sender(NOWHERE).produce_async(topic: "orders", payload: "x", label: "B")
    error = assert_raises(Pelton::WaitTimeout) { late.wait(timeout: 0.05) }
    assert_match(/delivery to orders not finished after 0.05 s; the message may still be delivered/, error.message)
    refute_predicate late, :done?
  end

  def test_labels_are_not_kept
    # Of the shared one other tests take events away.
    poller = Pelton::Poller.new("labels")
    made = sender(poller: poller)
    topic = new_topic
    3_000.times { |number| made.produce_async(topic: topic, payload: "x", label: number) }
    assert made.flush(timeout: 60)
    600.times { |number| made.produce_async(topic: topic, payload: "x", label: number) }
    assert_operator poller.labels.size, :<=, 4_000
    assert made.flush(timeout: 60)
    4_000.times { made.produce_sync(topic: topic, payload: "x", label: 1) }
    assert_operator poller.labels.size, :<=, 1_500
  end

  # --- costs ---

  def test_sending_makes_one_object_a_message
    made = sender
    topic = new_topic
    message = { topic: topic, payload: "x", key: "k", headers: nil }
    made.produce_sync(**message)
    one_by_one = allocations { 1_000.times { made.produce_async(topic: topic, payload: "x", key: "k") } }
    assert_operator one_by_one, :<=, 1_200
    rows = Array.new(1_000) { message }
    assert_operator allocations { made.produce_many_async(rows) }, :<=, 20
    made.flush(timeout: 60)
  end

  # --- buffer ---

  def test_messages_refused_by_a_full_queue_return_to_the_buffer
    topic = new_topic
    made = sender({ "queue.buffering.max.messages" => 10 }, queue_timeout: 0.05)
    made.produce_sync(topic: new_topic, payload: "connected")
    NativeKit.cluster.round_trip_time(-1, 2000)
    made.buffer_many(Array.new(25) { |number| { topic: topic, payload: number.to_s, partition: 0 } })
    error = assert_raises(Pelton::QueueFullError) { made.flush_buffer_async }
    assert_equal 15, made.buffered
    assert_equal 10, made.pending
    assert_equal 25, error.delivery.size
    NativeKit.cluster.round_trip_time(-1, 0)
    until made.buffered.zero?
      assert made.flush(timeout: 60)
      begin
        made.flush_buffer_async
      rescue Pelton::QueueFullError
        nil
      end
    end
    assert made.flush(timeout: 60)
    assert_equal Array.new(25, &:to_s), messages(topic, 25).map(&:raw_payload)
  ensure
    NativeKit.cluster.round_trip_time(-1, 0)
  end

  def test_purge
    made = sender(NOWHERE)
    delivery = made.produce_async(topic: "orders", payload: "x")
    made.buffer(topic: "orders", payload: "y")
    assert_equal 2, made.purge
    assert_equal :_PURGE_QUEUE, assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }.name
    assert_equal [0, 0], [made.pending, made.close(timeout: 5)]
  end

  # --- in transactions ---

  def test_labels_partition_keys_and_the_buffer_in_a_transaction
    topic = new_topic(4)
    made = sender({ "transactional.id" => topic })
    expected = Native::Producer.partition("murmur2", "k", 4)
    alone = made.produce_sync(topic: topic, payload: "1", label: :one, partition_key: "k")
    assert_equal [:one, expected, 4], [alone.label, alone.partition, made.partition_count(topic)],
                 "label, partition, number of partitions"
    inside = made.transaction do
      made.buffer(topic: topic, payload: "2", label: :two, partition_key: "k")
      made.flush_buffer_async
    end
    assert_equal [[:two], true], [inside.labels, inside.delivered?]
    made.buffer(topic: topic, payload: "3", label: :three, partition_key: "k")
    assert_predicate made.flush_buffer_sync, :delivered?
    assert_predicate made.with(timeout: 5).produce_sync(topic: topic, payload: "4"), :delivered?
    assert_raises(Pelton::ConfigError) { made.with(acks: 1) }
  end

  # --- waiting ---

  def test_wait_all
    made = sender
    topic = new_topic
    deliveries = Array.new(500) { |number| made.produce_async(topic: topic, payload: number.to_s) }
    assert_same deliveries, Pelton::Delivery.wait_all(deliveries, timeout: 60)
    assert(deliveries.all?(&:delivered?))
    lost = sender(NOWHERE)
    open = Array.new(3) { lost.produce_async(topic: "orders", payload: "x") }
    took = seconds do
      error = assert_raises(Pelton::WaitTimeout) { Pelton::Delivery.wait_all([deliveries.first, *open], timeout: 0.2) }
      assert_match(/3 of 4 deliveries to orders not finished after 0.2 s/, error.message)
    end
    assert_operator took, :<, 30
  end

  # --- a full queue ---

  def test_waiting_for_room_is_reported_at_most_once_a_second
    full = events("producer.queue_full")
    made = sender({ **NOWHERE, "queue.buffering.max.messages" => 1 }, queue_timeout: 0.1)
    made.produce_async(topic: "orders", payload: "x")
    took = seconds do
      3.times { assert_raises(Pelton::QueueFullError) { made.produce_async(topic: "orders", payload: "x") } }
    end
    eventually { full.any? }
    made.close(timeout: 0)
    eventually { full.sum { |event| event[:waits] } == 3 }
    assert_operator full.size, :<=, took.floor + 2, "one at once, one a second, one at the end"
    assert_includes 0.29..took, full.sum { |event| event[:seconds] }
    assert_equal [made.name], full.map { |event| event[:client] }.uniq
  end
end
