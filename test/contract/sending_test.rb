# frozen_string_literal: true

require_relative "../test_helper"
require "support/native_kit"
require "pelton/testing"

# What a user sees of a Pelton::Producer: the same on the native client (and the embedded cluster) and on the buffered
# one of pelton/testing. `made(kafka)` opens a producer, `topic(partitions)` makes a topic, `read(topic, count)` gives
# what is in it; in the block of `held`, Kafka does not answer.
module SendingContract
  def test_delivery_names_the_place_of_its_message
    name = topic
    deliveries = Array.new(3) { |number| made.produce_async(topic: name, payload: number.to_s, partition: 0) }
    assert_same deliveries, Pelton::Delivery.wait_all(deliveries, timeout: 60)
    assert_equal [0, 1, 2], deliveries.map(&:offset)
    delivery = deliveries.first
    assert_equal [name, 0, 1, nil, true, true], [delivery.topic, delivery.partition, delivery.size, delivery.error,
                                                 delivery.done?, delivery.delivered?]
    assert_equal [[name, 0, 0, nil]], delivery.reports
    assert_same delivery, delivery.wait
  end

  def test_everything_of_a_message_arrives
    name = topic
    time = Time.at(1_700_000_000, 123, :millisecond)
    made.produce_many_sync([{ topic: name, payload: '{"a":1}', key: "k", partition: 0, timestamp: time,
                              headers: { "one" => "1", "many" => %w[a b] } },
                            { topic: name, payload: "", key: "", partition: 0 },
                            { topic: name, payload: nil, partition: 0, timestamp: 5 }], timeout: 60)
    first, second, third = read(name, 3)
    assert_equal ["k", '{"a":1}', { "a" => 1 }, time, { "one" => "1", "many" => %w[a b] }],
                 [first.key, first.raw_payload, first.payload, first.timestamp, first.headers]
    assert_equal ["", "", false, {}], [second.key, second.raw_payload, second.tombstone?, second.headers]
    assert_equal [nil, nil, true, 5, 0], [third.key, third.payload, third.tombstone?, third.timestamp_ms, third.size]
    assert_equal [0, 1, 2], [first, second, third].map(&:offset)
  end

  def test_consumed_message_has_dig_times_and_place
    name = topic
    made.produce_sync(topic: name, payload: '{"a":{"b":[7]}}', timestamp: 5, headers: { "x" => "1" })
    made.produce_sync(topic: name, payload: nil)
    message, none = read(name, 2)
    assert_equal [7, nil, nil, nil],
                 [message.dig("a", "b", 0), message.dig("c"), message.dig("a", "b", 1), none.dig("a")]
    [-> { message.dig }, -> { none.dig }].each { |call| assert_raises(ArgumentError, &call) }
    assert_raises(TypeError) { message.dig("a", "b", 0, "c") }
    assert_equal [[name, 0], Time.at(0, 5, :millisecond), nil],
                 [message.topic_partition, message.created_at, message.origin]
    assert_in_delta Time.now, message.received_at, 600
    assert_kind_of Integer, message.leader_epoch
    assert_equal "#{name}/0 offset 0, 15 bytes", message.inspect[/ (.*)>/, 1]
    # These are between a native message, its topic's deserializer and its partition's coordinator.
    assert_empty Pelton::Message.public_instance_methods - %i[keep seek_count] - message.public_methods
  end

  def test_keys_choose_partitions
    name = topic(7)
    keys = Array.new(20) { |number| "key-#{number}" }
    expected = keys.map { |key| Pelton::Native::Producer.partition("murmur2", key, 7) }
    sent = keys.map { |key| made.produce_sync(topic: name, payload: "x", key: key) }
    assert_equal expected, sent.map(&:partition)
    sent = keys.map { |key| made.produce_sync(topic: name, payload: "x", partition_key: key) }
    assert_equal expected, sent.map(&:partition)
    assert_equal 7, made.partition_count(name)
  end

  def test_invalid_arguments_are_refused
    name = topic
    good = { topic: name, payload: "x" }
    { topic: "no topic", payload: 5, key: :k, partition: -7, timestamp: "now", headers: 5 }.each do |key, value|
      error = assert_raises(Pelton::InvalidMessageError) { made.produce_async(**good, key => value) }
      assert_equal key.to_s, error.key
      error = assert_raises(Pelton::InvalidMessageError) { made.produce_many_async([good, { **good, key => value }]) }
      assert_equal [key.to_s, 1], [error.key, error.index]
    end
    made.produce_sync(**good) # the topic is known now
    assert_equal :_UNKNOWN_PARTITION, refusal { made.produce_async(**good, partition: 3) }
    assert_equal :MSG_SIZE_TOO_LARGE, refusal { made.produce_async(**good, payload: "x" * 1_000_100) }
    assert_equal 1, made.produce_sync(**good).offset
  end

  # Of the batches, it was an event as well, and named no partition.
  def test_failure_that_a_call_raises_was_counted_as_one_that_no_code_waits_for
    good = { topic: topic, payload: "x", partition: 0 }
    made.produce_sync(**good)
    [-> { made.produce_sync(**good, partition: 9) }, -> { made.produce_many_sync([good, { **good, partition: 9 }]) },
     -> { made.buffer(**good, partition: 9).flush_buffer_sync }].each do |call|
      error = assert_raises(Pelton::DeliveryError, &call)
      assert_equal [:_UNKNOWN_PARTITION, 9], [error.name, error.partition]
    end
    assert_equal [{}, true], [made.failures, made.flush(timeout: 60)]
    delivery = made.produce_many_async([{ **good, partition: 9 }])
    assert_equal [1, false], [made.failures.dig(good[:topic], :_UNKNOWN_PARTITION), made.flush(timeout: 60)]
    assert_equal 9, assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }.partition
  end

  # The copy of what was buffered would have ended in a SystemStackError.
  def test_value_that_contains_itself_is_refused
    list = [].tap { |endless| endless << endless }
    hash = {}.tap { |endless| endless["a"] = endless }
    [{ payload: hash }, { payload: list }, { key: list }, { headers: hash },
     { headers: { "a" => list } }].each do |part|
      message = { topic: topic, payload: "x", **part }
      assert_raises(Pelton::InvalidMessageError) { made.buffer(**message) }
      assert_raises(Pelton::InvalidMessageError) { made.produce_async(**message) }
    end
    assert_equal 0, made.buffered
  end

  def test_more_than_a_delivery_has_places_for
    messages = [{ topic: topic, payload: "x" }.freeze] * 524_288
    error = assert_raises(Pelton::InvalidMessageError) { made.produce_many_async(messages) }
    assert_equal ["batch size", "524288"], [error.key, error.value.to_s]
    assert_includes error.message, "fewer than 524288 messages per call"
    # One less is only too many where one of them is wrong.
    messages[-2..] = [{ topic: topic, payload: 5 }]
    error = assert_raises(Pelton::InvalidMessageError) { made.produce_many_async(messages) }
    assert_equal ["payload", 524_286], [error.key, error.index]
    assert_equal 0, made.pending
  end

  def refusal(&block) = assert_raises(Pelton::DeliveryError, &block).name

  def test_times_that_are_none
    name = topic
    good = { topic: name, payload: "x" }
    delivery = made.produce_sync(**good)
    [-1, -0.5, Float::NAN, Float::INFINITY, "5", :a, true, Complex(1, 2)].each do |time|
      {
        produce_sync: -> { made.produce_sync(**good, timeout: time) },
        produce_many_sync: -> { made.produce_many_sync([good], timeout: time) },
        tombstone_sync: -> { made.tombstone_sync(topic: name, key: "k", timeout: time) },
        tombstone_many_sync: -> { made.tombstone_many_sync([{ topic: name, key: "k" }], timeout: time) },
        variant: -> { made.with(timeout: 10).produce_sync(**good, timeout: time) },
        flush_buffer_sync: -> { made.buffer(**good).flush_buffer_sync(timeout: time) },
        partition_count: -> { made.partition_count(name, timeout: time) },
        wait: -> { delivery.wait(timeout: time) },
        wait_all: -> { Pelton::Delivery.wait_all([], timeout: time) },
        flush: -> { made.flush(timeout: time) },
        disconnect: -> { made.disconnect(timeout: time) },
        close: -> { made.close(timeout: time) }
      }.each do |method, call|
        error = assert_raises(Pelton::ConfigError, "#{method} #{time.inspect}", &call)
        assert_equal "timeout = #{time.inspect}: expected a number of seconds >= 0 or nil", error.message
      end
    end
    assert_equal 8, made.purge # what flush_buffer_sync left in the buffer
    assert_equal 1, made.produce_sync(**good).offset # nothing was sent
    assert made.flush(timeout: 1r)
    assert_same delivery, delivery.wait(timeout: 1e300)
  end

  # Neighbors of the same topic, before and behind one of another.
  def test_reports_of_many_messages_name_the_topic_of_each
    first = topic
    other = topic
    [[first, first, other], [first, other, other], [first, other, first], [other, first, first, other]].each do |names|
      delivery = made.produce_many_sync(names.map { |name| { topic: name, payload: "x" } })
      assert_equal names, delivery.reports.map(&:first)
    end
  end

  def test_wait_for_many_that_times_out_reports_the_open_deliveries
    name = topic
    made.produce_sync(topic: name, payload: "x") # connected
    held do
      many = made.produce_many_async(Array.new(3) { { topic: name, payload: "x" } })
      assert_equal [[name, nil, nil, nil]] * 3, many.reports
      error = assert_raises(Pelton::WaitTimeout) { many.wait(timeout: 0.05) }
      assert_equal "3 of 3 deliveries to #{name} not finished after 0.05 s; the message may still be delivered",
                   error.message
      delivery = made.produce_async(topic: name, payload: "x")
      assert_match(/\Adelivery to #{name} /, assert_raises(Pelton::WaitTimeout) { delivery.wait(timeout: 0) }.message)
      made.purge # or the close waits for them
    end
  end

  def test_options_that_are_none
    { "linger.ms" => "soon", "lingr.ms" => 5, "compression.codec" => "rar" }.each do |option, value|
      error = assert_raises(Pelton::ConfigError) { made(option => value).produce_async(topic: "orders", payload: "x") }
      assert_equal [option, value.to_s], [error.key, error.value]
      @made = nil
    end
  end

  def test_the_buffer_middleware_and_labels
    name = topic
    made.middleware.append(->(message) { message.merge(payload: "#{message[:payload]}!") })
    made.buffer_many([{ topic: name, payload: "1", label: :one }, { topic: name, payload: "2" }])
    delivery = made.flush_buffer_sync(timeout: 60)
    assert_equal [[:one, nil], [0, 1]], [delivery.labels, delivery.reports.map { |report| report[2] }]
    assert_equal %w[1! 2!], read(name, 2).map(&:raw_payload)
  end

  def test_variants
    name = topic
    made.with(acks: 1, timeout: 60).produce_sync(topic: name, payload: "1")
    made.with(partitioner: :fnv1a).produce_sync(topic: name, payload: "2", key: "k")
    assert_equal %w[1 2], read(name, 2).map(&:raw_payload)
  end

  def test_flush_pending_and_close
    name = topic
    made.produce_async(topic: name, payload: "x")
    assert made.flush(timeout: 60)
    assert_equal [0, 0, 0], [made.pending, made.close(timeout: 10), made.close(timeout: 10)], "pending, close, close"
    assert_predicate made, :closed?
    assert_raises(Pelton::ClosedError) { made.produce_async(topic: name, payload: "x") }
    assert_raises(Pelton::ClosedError) { made.buffer(topic: name, payload: "x") }
  end

  def test_transactions
    name = topic
    writer = made("transactional.id" => "contract-#{name}")
    assert_equal :value, (writer.transaction do |transaction|
      transaction.produce_async(topic: name, payload: "1")
      writer.produce_many_async([{ topic: name, payload: "2" }])
      :value
    end)
    assert_nil(writer.transaction do
      writer.produce_async(topic: name, payload: "aborted")
      raise Pelton::AbortTransaction
    end)
    writer.produce_sync(topic: name, payload: "3")
    found = read(name, 3).map(&:raw_payload)
    assert_equal %w[1 2 3], found - ["aborted"] # librdkafka's mock cluster shows aborted ones, too
  end
end

# SendingContract's, with a Kafka that refuses messages: `refuse_next` the next one.
module RefusedContract
  def test_a_transaction_of_which_a_message_failed_is_aborted
    name = topic
    writer = made("transactional.id" => "refused-#{name}")
    writer.produce_sync(topic: name, payload: "1")
    refuse_next
    lost = nil
    error = assert_raises(Pelton::KafkaError) do
      writer.transaction do
        lost = writer.produce_async(topic: name, payload: "aborted")
        lost.wait(timeout: 20) rescue Pelton::DeliveryError # rubocop:disable Style/RescueModifier
        :value
      end
    end
    assert_equal [true, false], [error.abortable?, error.fatal?]
    assert_equal :MSG_SIZE_TOO_LARGE, lost.error.name
    writer.transaction { writer.produce_async(topic: name, payload: "2") }
    refuse_next
    assert_equal :MSG_SIZE_TOO_LARGE, refusal { writer.produce_async(topic: name, payload: "aborted") }, "its own"
    assert_equal(%w[1 2], read(name, 2).map(&:raw_payload))
  end
end

class NativeSendingContractTest < Minitest::Test
  include NativeKit
  include SendingContract
  include RefusedContract

  def made(kafka = {})
    @made ||= begin
      config = Pelton::Config.new
      config.kafka = { **server, "linger.ms" => 1, "log_level" => 0, **kafka }
      Pelton::Producer.new(config.freeze)
    end
  end

  def topic(partitions = 1) = new_topic(partitions)

  def held
    NativeKit.cluster.round_trip_time(1, 60_000) # longer than any stall of this process
    yield
  ensure
    NativeKit.cluster.round_trip_time(1, 0)
  end

  def refuse_next = NativeKit.cluster.push_errors(0, [10]) # produce

  # By partition and offset; one more than asked for, where the mock has an aborted one.
  def read(name, count)
    found = messages(name, count)
    found.any? { |message| message.raw_payload == "aborted" } ? messages(name, count + 1) : found
  end

  def teardown = @made&.close(timeout: 5)
end

class BufferedSendingContractTest < Minitest::Test
  include SendingContract
  include RefusedContract

  def setup = @topics = { "orders" => 1, "wide" => 7 }
  def made(kafka = {}) = @made ||= Pelton::Testing::BufferedProducer.new(topics: @topics, kafka: kafka)
  def topic(partitions = 1) = @topics.key(partitions)
  def held(&block) = made.hold(&block)
  def refuse_next = made.fail_next(:MSG_SIZE_TOO_LARGE)
  def read(name, count) = made.messages(name).tap { |found| assert_equal count, found.size }
  def teardown = @made&.close
end
