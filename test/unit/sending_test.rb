# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/delivery"

# Partition keys, labels, variants, waiting for all: on the fake native side.
class SendingTest < Minitest::Test
  def setup
    @native = Fakes::Native.new
    @config = Pelton::Config.new
    @bus = Pelton::Notifications.new
    @producer = Pelton::Producer.new(@config, bus: @bus, native: @native.to_module)
  end

  def teardown = @producer.close

  def fake = @native.producers.first
  def sent = @native.producers.flat_map(&:messages)
  def questions = fake.calls.select { |call| call.first == :partition_count }

  # --- partition_key ---

  def test_a_partition_key_chooses_the_partition_and_is_not_sent
    @producer.produce_async(topic: "a", payload: "x", key: "k", partition_key: "b")
    @producer.produce_many_async([{ topic: "a", payload: "y", partition_key: "c" }, { topic: "a", payload: "z" }])
    @producer.tombstone_async(topic: "a", key: "k", partition_key: "d")
    assert_equal [["a", "x", "k", 98 % 4, nil, nil], ["a", "y", nil, 99 % 4, nil, nil], ["a", "z", nil, nil, nil, nil],
                  ["a", nil, "k", 100 % 4, nil, nil]], sent
    assert_equal [[:partition_count, "a", 10]], questions
  end

  def test_partition_keys_that_cannot_be
    ["", 7].each do |key|
      error = assert_raises(Pelton::InvalidMessageError) do
        @producer.produce_async(topic: "a", payload: "x", partition_key: key)
      end
      assert_equal ["partition_key", key], [error.key, error.value]
    end
    error = assert_raises(Pelton::InvalidMessageError) do
      @producer.produce_many_async([{ topic: "a", payload: "x" },
                                    { topic: "a", payload: "x", partition: 1, partition_key: "k" }])
    end
    assert_equal "message 1: partition_key: a String of 1 byte is not allowed, expected nil: a partition is given",
                 error.message
    random = Pelton::Producer.new(@config, native: @native.to_module, kafka: { "partitioner" => "random" })
    error = assert_raises(Pelton::InvalidMessageError) do
      random.produce_async(topic: "a", payload: "x", partition_key: "k")
    end
    random.close
    assert_match(/the partitioner random ignores keys/, error.message)
    assert_empty sent
  end

  # They were made of the config anew for each such message, many times dearer than one with a key.
  def test_the_clients_options_are_made_once
    made = 0
    @config.define_singleton_method(:kafka_with) { |*given, **more| super(*given, **more).tap { made += 1 } }
    send = lambda do
      @producer.produce_async(topic: "a", payload: "x", partition_key: "b")
      @producer.produce_many_async([{ topic: "a", payload: "y", partition_key: "c" }])
      @producer.with(acks: 1)
      @producer.with(partitioner: :fnv1a).produce_async(topic: "a", payload: "z", key: "k")
      @producer.transactional?
    end
    send.call
    before = made
    3.times { send.call }
    assert_equal 0, made - before
  end

  def test_the_count_of_partitions_is_asked_for_once
    assert_equal 4, @producer.partition_count("a", timeout: 3)
    fake.on_count = ->(_) { 2 }
    assert_equal 4, @producer.partition_count("a")
    assert_equal [[:partition_count, "a", 3]], questions
  end

  # A missing topic does not cost each message a request to Kafka.
  def test_a_missing_topic_is_not_asked_for_with_each_message
    @producer.produce_async(topic: "b", payload: "x")
    fake.on_count = ->(_) { Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic or partition") }
    3.times do
      error = assert_raises(Pelton::DeliveryError) do
        @producer.produce_async(topic: "a", payload: "x", partition_key: "k")
      end
      assert_equal ["a", 3, :UNKNOWN_TOPIC_OR_PART], [error.topic, error.code, error.name]
    end
    assert_equal 1, questions.size
  end

  # --- labels ---

  def test_labels
    label = Object.new
    delivery = @producer.produce_async(topic: "a", payload: "x", label: label)
    assert_same label, delivery.label
    assert_equal [label], delivery.labels
    assert_same delivery, delivery.wait
    assert_equal 1, delivery.size

    many = @producer.produce_many_sync([{ topic: "a", payload: "x", label: 1 }, { topic: "a", payload: "x" }])
    assert_equal [1, nil], many.labels
    assert_equal [["a", "x", nil, nil, nil, nil]] * 3, sent
  end

  def test_errors_of_labeled_messages_have_the_label
    failed = ->(name) { Pelton::DeliveryError.new(-1, name, "no", false, false, "a", 0) }
    @producer.produce_async(topic: "a", payload: "x")
    fake.on_send = lambda do |rows, delivery|
      delivery.reports = rows.map { |row| ["a", 0, nil, (failed.call(:BAD) if row[:payload] == "bad")] }
      delivery.define_singleton_method(:wait) { |**| reports.each { |row| raise row.last if row.last } }
    end
    delivery = @producer.produce_many_async([{ topic: "a", payload: "good", label: "A" },
                                             { topic: "a", payload: "bad", label: "B" }])
    error = assert_raises(Pelton::DeliveryError) { delivery.wait }
    assert_equal [:BAD, "B"], [error.name, error.label]
    assert_equal "B", delivery.error.label
    assert_equal([nil, "B"], delivery.reports.map { |report| report.last&.label })
  end

  OpenTransaction = Struct.new(:id, :labels, :settled) { def settled? = settled }

  def test_labels_are_looked_up_by_place_and_forgotten_when_done
    labels = Pelton::Labels.new(Struct.new(:emitted).new(0))
    labels.add(first = OpenTransaction.new(0, ["a", "b"], false))
    assert_equal %w[a b], [labels.of(0, 0), labels.of(0, 1)]
    assert_nil labels.of(1, 0)
    assert_nil labels.of
    (1..10_000).each { |id| labels.add(OpenTransaction.new(id, ["x"], true)) }
    assert_operator labels.size, :<=, 1_000
    assert_equal "a", labels.of(0, 0)
    first.settled = true
    (10_001..12_000).each { |id| labels.add(OpenTransaction.new(id, ["x"], true)) }
    assert_nil labels.of(0, 0)
  end

  def test_a_label_was_forgotten_whose_event_waited_behind_many
    poller = Struct.new(:emitted).new(0)
    labels = Pelton::Labels.new(poller)
    all = Array.new(30_000) { |id| OpenTransaction.new(id, [id.to_s], true) }
    all.each do |transaction|
      poller.emitted += 1
      labels.add(transaction)
    end
    found = all.map { |transaction| labels.of(transaction.id, 0).tap { labels.published } }
    assert_equal all.flat_map(&:labels), found
    (30_001..100_000).each { |id| labels.add(OpenTransaction.new(id, ["x"], true)) }
    assert_operator labels.size, :<=, 1_000
  end

  # --- variants ---

  def test_variants_of_the_same_client
    variant = @producer.with(timeout: 3, queue_timeout: 0.5)
    assert_equal 3, variant.produce_sync(topic: "a", payload: "x").waited
    assert_equal 1, variant.produce_sync(topic: "a", payload: "x", timeout: 1).waited
    assert_equal 0.5, fake.calls.last[6]
    rows = [{ topic: "a", payload: "y", key: "b" }, { topic: "a", payload: "z" }]
    variant.with(partitioner: :fnv1a).produce_many_sync(rows)
    assert_equal [["a", "y", "b", 98 % 4, nil, nil], ["a", "z", nil, nil, nil, nil]], sent.last(2)
    assert_equal({ timeout: 3, queue_timeout: 0.5 }, variant.options)
    assert_equal 1, @native.producers.size
    assert_equal 10, @producer.produce_sync(topic: "a", payload: "x") && fake.calls.last[6]
  end

  def test_variants_that_need_a_client_of_their_own_share_it
    fast = @producer.with(acks: 1, compression: :zstd)
    assert_empty @native.producers
    fast.produce_async(topic: "a", payload: "1")
    @producer.with(compression: "zstd", acks: "1", timeout: 1).produce_async(topic: "a", payload: "2")
    @producer.with(acks: 0).produce_async(topic: "a", payload: "3")
    @producer.produce_async(topic: "a", payload: "4")
    assert_equal [%w[1 2], %w[3], %w[4]],
                 (@native.producers.map { |producer| producer.messages.map { |message| message[1] } })
    assert_equal %w[1 zstd], @native.producers[0].config.values_at("acks", "compression.codec")
    assert_equal ["0", nil], @native.producers[1].config.values_at("acks", "compression.codec")
    assert_nil @native.producers[2].config["acks"]
  end

  def test_flush_pending_and_close_reach_the_clients_of_variants
    @producer.with(message_timeout: 1.5).produce_async(topic: "a", payload: "1")
    @producer.produce_async(topic: "a", payload: "2")
    assert_equal ["1500", nil], fake.config.values_at("message.timeout.ms", "request.timeout.ms")
    @producer.with(request_timeout: 2.5).produce_async(topic: "a", payload: "3")
    assert_equal "2500", @native.producers.pop.config["request.timeout.ms"]
    @native.producers.each_with_index { |producer, index| producer.undelivered = index + 1 }
    refute @producer.flush(timeout: 1)
    assert_equal 3, @producer.pending
    assert_equal 3, @producer.purge
    assert_equal 3, @producer.close(timeout: 1)
    assert_raises(Pelton::ClosedError) { @producer.with(acks: 0) }
  end

  def test_messages_sent_are_those_of_the_producer_and_of_its_variants
    assert_equal 0, @producer.sent
    2.times { @producer.produce_async(topic: "a", payload: "1") }
    @producer.with(acks: 0).produce_async(topic: "a", payload: "2")
    assert_equal 3, @producer.sent
  end

  def test_variants_that_cannot_be
    { acks: 2, compression: "rar", compression_level: "high", message_timeout: 0, request_timeout: -1,
      partitioner: "random", timeout: "long", queue_timeout: -1 }.each do |name, value|
      error = assert_raises(Pelton::ConfigError) { @producer.with(name => value) }
      assert_equal [name.to_s, value], [error.key, error.value]
    end
    error = assert_raises(Pelton::ConfigError) { @producer.with(ack: 1) }
    assert_match(/unknown option.*did you mean acks/, error.message)
    16.times { |number| @producer.with(message_timeout: number + 1) }
    assert_match(/16 clients/, assert_raises(Pelton::ConfigError) { @producer.with(message_timeout: 60) }.message)
    @producer.with(message_timeout: 3)
  end

  def test_variants_of_idempotent_and_transactional_producers
    @config.kafka = { "enable.idempotence" => true }
    assert_raises(Pelton::ConfigError) { @producer.with(acks: 1) }
    @producer.with(acks: :all, compression: :lz4).produce_async(topic: "a", payload: "x")
    transactional = Pelton::Producer.new(@config, native: @native.to_module, kafka: { "transactional.id" => "t" })
    assert_raises(Pelton::ConfigError) { transactional.with(compression: :lz4) }
    transactional.with(timeout: 1)
  end

  def test_middleware_is_for_variants_too
    variant = @producer.with(acks: 1)
    @producer.middleware.append(->(message) { message.merge(payload: "#{message[:payload]}!") })
    variant.produce_async(topic: "a", payload: "x")
    @producer.with(timeout: 1).produce_async(topic: "a", payload: "x")
    assert_equal %w[x! x!], (sent.map { |message| message[1] })
  end

  # --- wait_all ---

  def test_wait_all
    deliveries = Array.new(3) { Fakes::Delivery.new("a", 0, 0) }
    assert_same deliveries, Pelton::Delivery.wait_all(deliveries, timeout: 60)
    assert(deliveries.all? { |delivery| delivery.waited.between?(30, 60) })
    Pelton::Delivery.wait_all(deliveries)
    assert_equal [nil] * 3, deliveries.map(&:waited)
    assert_empty Pelton::Delivery.wait_all([])
  end

  def test_wait_all_raises_the_first_failure_when_all_are_done
    errors = [nil, :ONE, nil, :TWO].map { |name| name && Pelton::DeliveryError.new(-1, name, "no") }
    deliveries = errors.map { |error| Fakes::Delivery.new("a", 0, 0, error: error) }
    error = assert_raises(Pelton::DeliveryError) { Pelton::Delivery.wait_all(deliveries, timeout: 5) }
    assert_equal :ONE, error.name
    assert deliveries.last.waited
  end

  def test_wait_all_reports_the_number_of_open_deliveries
    late = Pelton::WaitTimeout.new("delivery", "a", 0)
    failed = Pelton::DeliveryError.new(-1, :ONE, "no")
    deliveries = [nil, failed, late, late].map { |error| Fakes::Delivery.new("a", 0, 0, error: error) }
    deliveries.last(2).each { |delivery| delivery.define_singleton_method(:done?) { false } }
    error = assert_raises(Pelton::WaitTimeout) { Pelton::Delivery.wait_all(deliveries, timeout: 5) }
    assert_match(/\A2 of 4 deliveries to a not finished after 5 s; the message may still be delivered/, error.message)
    assert_same failed, error.cause
  end

  def test_known_partition_count_does_not_hide_a_close
    assert_equal 4, @producer.partition_count("a")
    @producer.close
    assert_raises(Pelton::ClosedError) { @producer.partition_count("a") }
    assert_raises(Pelton::ClosedError) { @producer.produce_async(topic: "a", payload: "x", partition_key: "k") }
  end

  def test_a_count_of_what_is_no_topic_or_within_what_is_no_time
    error = assert_raises(Pelton::InvalidMessageError) { @producer.partition_count(nil) }
    assert_equal ["topic", nil], [error.key, error.value]
    assert_raises(Pelton::ConfigError) { @producer.partition_count("a", timeout: "5") }
  end

  # --- bad input ---

  BAD = { nil => "message", 5 => "message", { "topic" => "a" } => "message", { topic: "a" } => "message",
          { topic: "a", payload: "x", header: {} } => "message" }.freeze

  def refused(key, index, &block)
    error = assert_raises(Pelton::InvalidMessageError, &block)
    assert_equal [key, index], [error.key, error.index]
  end

  def test_a_bad_message_of_a_batch_is_named_also_beside_labels_keys_middleware_and_variants
    same = ->(message) { message }
    variant = @producer.with(partitioner: :murmur2)
    good = { topic: "a", payload: "x", key: "k", label: 1 }
    BAD.each do |bad, key|
      [@producer, variant].each { |producer| refused(key, 1) { producer.produce_many_async([good, bad]) } }
      refused(key, 1) { @producer.buffer_many([good, bad]) }
      @producer.middleware.append(same)
      refused(key, 1) { @producer.produce_many_async([good, bad]) }
      @producer.middleware.remove(same)
    end
    refused("topic", nil) { @producer.produce_async(topic: nil, payload: "x", partition_key: "k") }
    refused("topic", nil) { variant.produce_async(topic: 5, payload: "x", key: "k") }
    assert_equal [[], 0], [sent, @producer.buffered], "offsets sent, buffered"
  end

  def test_argument_that_is_not_a_batch_is_refused
    [nil, { topic: "a", payload: "x" }, "x"].each do |batch|
      %i[produce_many_async produce_many_sync tombstone_many_async tombstone_many_sync buffer_many].each do |name|
        refused("messages", nil) { @producer.public_send(name, batch) }
      end
    end
  end

  def test_unknown_keys_added_by_middleware_raise
    [->(message) { message.merge(header: {}) }, ->(message) { message.transform_keys(&:to_s) },
     ->(message) { message.except(:payload) }].each do |wrong|
      @producer.middleware.append(wrong)
      refused("message", nil) { @producer.produce_async(topic: "a", payload: "x") }
      refused("message", nil) { @producer.buffer(topic: "a", payload: "x") }
      @producer.middleware.remove(wrong)
    end
  end

  def test_false_is_a_label_and_no_partition_key
    assert_equal [false], @producer.produce_async(topic: "a", payload: "x", label: false).labels
    refused("partition_key", nil) { @producer.produce_async(topic: "a", payload: "x", partition_key: false) }
  end

  def test_the_error_of_a_single_labelled_message_speaks_of_no_batch
    refused("partition_key", nil) { @producer.produce_async(topic: "a", payload: "x", label: 1, partition_key: "") }
  end

  def test_bad_tombstones
    assert_raises(ArgumentError) { @producer.tombstone_sync(topic: "a", key: "k", index: 3) }
    good = { topic: "a", key: "k" }
    { nil => "message", { topic: "a" } => "key", { **good, payload: "x" } => "payload" }.each do |bad, key|
      refused(key, 1) { @producer.tombstone_many_async([good, bad]) }
    end
    assert_empty sent
  end
end
