# frozen_string_literal: true

require_relative "../test_helper"
require "support/log_contract"
require "pelton/testing"

# Pelton::Testing, as a user's tests use it.
class TestingTest < Minitest::Test
  include LogContract

  def log = Pelton::Testing::Log.new(nil)

  def setup
    @app = Pelton::App.new.configure { |config| config.logger = nil } # failures are on purpose here
    @producers = []
  end

  def teardown = @producers.each(&:close)

  def buffered(**options)
    Pelton::Testing::BufferedProducer.new(Pelton::Config.new, **options).tap { |made| @producers << made }
  end

  # --- in the place of an app's producer ---

  def test_an_app_s_producer_is_replaced_for_a_block
    own = @app.producer
    result = Pelton::Testing.buffer(@app) do |producer|
      assert_same producer, @app.producer
      @app.producer.produce_sync(topic: "orders", payload: '{"id":7}')
      producer.messages("orders").map(&:payload)
    end
    assert_equal [{ "id" => 7 }], result
    assert_same own, @app.producer
  end

  def test_the_app_s_producer_comes_back_after_an_error
    own = @app.producer
    assert_raises(RuntimeError) { Pelton::Testing.buffer(@app) { raise "broken" } }
    assert_same own, @app.producer
    producer = Pelton::Testing.buffer(@app)
    inner = Pelton::Testing.buffer(@app)
    Pelton::Testing.unbuffer(@app)
    assert_predicate inner, :closed?
    assert_same producer, @app.producer
    Pelton::Testing.unbuffer(@app)
    assert_same own, @app.producer
    assert_raises(Pelton::ConfigError) { Pelton::Testing.unbuffer(@app) }
  end

  def test_events_reach_the_app_s_subscribers
    failed = []
    @app.subscribe("message.delivery_failed") { |event| failed << event.payload.values_at(:topic, :label) }
    Pelton::Testing.buffer(@app) do |producer|
      producer.fail_next(:_MSG_TIMED_OUT)
      @app.producer.produce_async(topic: "orders", payload: "x", label: 7)
      eventually { failed.any? }
    end
    assert_equal [["orders", 7]], failed
  end

  def test_events_reach_the_app_s_subscribers_past_a_poller_of_its_own
    @app.configure { |config| config.polling.poller = Pelton::Poller.new("testing") }
    failed = Thread::Queue.new
    @app.subscribe("message.delivery_failed") { |event| failed << event[:topic] }
    Pelton::Testing.buffer(@app) do |producer|
      producer.fail_next(:_MSG_TIMED_OUT)
      @app.producer.produce_async(topic: "orders", payload: "x")
      assert_equal "orders", failed.pop
    end
  end

  def test_testing_helpers_refuse_invalid_arguments
    producer = buffered
    {
      topics: -> { buffered(topics: 5) }, topic: -> { buffered(topics: { orders: 1 }) },
      times: -> { producer.fail_next(7, times: 0) },
      queue_limit: -> { producer.queue_limit = -1 }
    }.each do |key, call|
      assert_equal key.to_s, assert_raises(Pelton::ConfigError, key, &call).key
    end
    assert_equal "topics", assert_raises(Pelton::ConfigError) { buffered(topics: { "a" => 0 }) }.key
    assert_equal "topic", assert_raises(Pelton::ConfigError) { producer.fail_next(7, topic: :orders) }.key
    [nil, "", 1.5, :_MSG_TIMED_UOT].each { |error| assert_raises(Pelton::ConfigError) { Pelton::Testing.error(error) } }
  end

  # --- messages ---

  def test_messages_are_kept_as_they_were
    producer = buffered
    payload = +"1"
    headers = { "a" => +"b" }
    producer.produce_sync(topic: "orders", payload: payload, headers: headers)
    payload << "!"
    headers["a"] << "!"
    assert_equal ["1", { "a" => "b" }], producer.messages.map { |message| [message.raw_payload, message.headers] }.first
    assert_empty producer.messages("other")
    assert_equal 1, producer.clear.produce_sync(topic: "orders", payload: "2").offset
    assert_equal %w[2], producer.messages.map(&:raw_payload)
  end

  def test_topics_that_are_not_there
    producer = buffered(topics: { "orders" => 2 })
    assert_equal 2, producer.partition_count("orders")
    error = assert_raises(Pelton::DeliveryError) { producer.produce_sync(topic: "other", payload: "x") }
    assert_equal :_UNKNOWN_TOPIC, error.name
    error = assert_raises(Pelton::DeliveryError) do
      producer.produce_async(topic: "other", payload: "x", partition_key: "k")
    end
    assert_equal :UNKNOWN_TOPIC_OR_PART, error.name
    error = assert_raises(Pelton::DeliveryError) { producer.produce_async(topic: "orders", payload: "x", partition: 2) }
    assert_equal :_UNKNOWN_PARTITION, error.name
    delivery = producer.produce_many_async([{ topic: "orders", payload: "x" }, { topic: "other", payload: "x" }])
    assert_equal [nil, :_UNKNOWN_TOPIC], (delivery.reports.map { |report| report[3]&.name })
  end

  # --- what Kafka does ---

  def test_failures
    producer = buffered
    producer.fail_next(:_MSG_TIMED_OUT, times: 2, topic: "orders").fail_next(10)
    assert_equal 10, assert_raises(Pelton::DeliveryError) { producer.produce_sync(topic: "a", payload: "x") }.code
    delivery = producer.produce_many_async(Array.new(3) { |number| { topic: "orders", payload: number.to_s } })
    assert_equal [:_MSG_TIMED_OUT, :_MSG_TIMED_OUT, nil], (delivery.reports.map { |report| report[3]&.name })
    error = assert_raises(Pelton::DeliveryError) { delivery.wait }
    assert_equal ["orders", 0, :_MSG_TIMED_OUT], [error.topic, error.partition, error.name]
    assert_equal %w[2], producer.messages.map(&:raw_payload)
    assert_raises(Pelton::ConfigError) { producer.fail_next(:_MSG_TIMED_UOT) }
  end

  def test_failure_during_a_wait_that_times_out_is_reported_once
    told = []
    delivery = Pelton::Testing::Delivery.new(%w[a a]) { |_, index, error| told << [index, error] }
    waiter = Thread.new { delivery.wait(timeout: 60) }
    waiter.report_on_exception = false
    eventually { waiter.stop? }
    assert_raises(Pelton::WaitTimeout) { delivery.wait(timeout: 0) }
    delivery.report(1, nil, nil, :failed)
    assert_empty told
    waiter.kill.join
    assert_raises(Pelton::WaitTimeout) { delivery.wait(timeout: 0) }
    assert_equal [[1, :failed]], told
  end

  def test_a_kafka_that_is_away
    producer = buffered
    delivery = nil
    producer.hold do
      delivery = producer.produce_async(topic: "orders", payload: "1")
      error = assert_raises(Pelton::WaitTimeout) do
        producer.produce_sync(topic: "orders", payload: "2", timeout: 0.05)
      end
      assert_match(/delivery to orders not finished after 0.05 s; the message may still be delivered/, error.message)
      assert_equal [2, false, false], [producer.pending, delivery.done?, producer.flush(timeout: 0.05)],
                   "pending, done, flush"
      assert_empty producer.messages
    end
    assert_equal [0, 0], [producer.pending, delivery.wait(timeout: 60).offset]
    producer.hold
    purged = producer.produce_async(topic: "orders", payload: "3")
    assert_equal 1, producer.purge
    assert_equal :_PURGE_QUEUE, purged.error.name
    waiting = Pelton::Threads.start("test") { producer.produce_sync(topic: "orders", payload: "4", timeout: 60) }
    eventually { producer.pending == 1 }
    producer.release
    assert_equal 2, waiting.value.offset
    producer.hold.produce_async(topic: "orders", payload: "5")
    assert_equal 1, producer.close(timeout: 0.05)
  end

  def test_a_full_queue
    producer = buffered
    producer.queue_limit = 2
    producer.hold do
      producer.buffer_many(Array.new(5) { |number| { topic: "orders", payload: number.to_s } })
      error = assert_raises(Pelton::QueueFullError) { producer.flush_buffer_async }
      assert_equal [nil, nil] + ([:_QUEUE_FULL] * 3), (error.delivery.reports.map { |report| report[3]&.name })
      assert_equal 3, producer.buffered
      [{}, { label: "one" }].each do |more|
        error = assert_raises(Pelton::QueueFullError) { producer.produce_async(topic: "orders", payload: "x", **more) }
        assert_nil error.delivery, "one message has no handle: it was not taken"
        assert_match(/the message was not taken/, error.message)
      end
    end
    producer.flush_buffer_sync
    assert_equal %w[0 1 2 3 4], producer.messages.map(&:raw_payload)
  end

  def test_the_error_of_one_message_that_found_no_room_has_no_delivery
    producer = buffered
    producer.queue_limit = 0
    producer.hold do
      [{}, { label: 1 }, { partition_key: "k" }].each do |more|
        error = assert_raises(Pelton::QueueFullError) { producer.produce_async(topic: "orders", payload: "x", **more) }
        assert_equal [nil, "orders"], [error.delivery, error.topic]
        assert_match(/the message was not taken/, error.message)
      end
    end
  end

  def test_transactions_are_seen_when_they_are_committed
    producer = buffered(kafka: { "transactional.id" => "t" })
    subscription = Object.new
    # As Pelton::Subscription hands them to the native side.
    subscription.define_singleton_method(:send_offsets) do |client, offsets, timeout|
      client.send_offsets(offsets.map { |place, offset| [*place, offset] }, self, timeout)
    end
    producer.transaction do |transaction|
      transaction.produce_sync(topic: "orders", payload: "1")
      transaction.mark_as_consumed({ ["in", 0] => 5 }, subscription)
      assert_empty producer.messages
    end
    assert_equal %w[1], producer.messages.map(&:raw_payload)
    assert_equal({ subscription => { ["in", 0] => 5 } }, producer.marks)
    assert_raises(RuntimeError) do
      producer.transaction do |transaction|
        transaction.produce_async(topic: "orders", payload: "2")
        transaction.mark_as_consumed({ ["in", 0] => 6 }, subscription)
        raise "broken"
      end
    end
    assert_equal [%w[1], 5], [producer.messages.map(&:raw_payload), producer.marks.dig(subscription, ["in", 0])]
  end

  def test_a_plain_producer_takes_the_buffered_client
    producer = Pelton::Producer.new(Pelton::Config.new, native: Pelton::Testing::Buffered)
    assert_equal 0, producer.produce_sync(topic: "orders", payload: "x").offset
    assert_equal 0, producer.close
  end

  def test_testing_works_with_a_config_that_asks_for_tokens
    config = Pelton::Config.new
    config.oauth = ->(_) { flunk "nobody wants a token" }
    producer = Pelton::Testing::BufferedProducer.new(config)
    assert_equal 0, producer.produce_sync(topic: "orders", payload: "x").offset
  ensure
    producer.close
  end

  # --- the cluster ---

  def test_the_cluster_s_errors_latency_and_messages
    Pelton::Testing::Cluster.start(topics: { "orders" => 2 }) do |cluster|
      @app.configure { |config| config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers, "linger.ms" => 0 } }
      producer = @app.producer
      cluster.fail_next(:produce, :NOT_ENOUGH_REPLICAS)
      producer.produce_sync(topic: "orders", payload: "1", partition: 1, timeout: 60)
      cluster.fail_next(:produce, :MSG_SIZE_TOO_LARGE)
      assert_equal :MSG_SIZE_TOO_LARGE, assert_raises(Pelton::DeliveryError) {
        producer.produce_sync(topic: "orders", payload: "x", partition: 0, timeout: 60)
      }.name
      took = cluster.slow(0.3) do
        seconds { producer.produce_sync(topic: "orders", payload: "2", partition: 0, timeout: 60) }
      end
      assert_operator took, :>, 0.25
      assert_equal [[0, "2"], [1, "1"]],
                   (cluster.messages("orders", 2).map { |message| [message.partition, message.raw_payload] })
      cluster.down do
        assert_raises(Pelton::WaitTimeout) { producer.produce_sync(topic: "orders", payload: "3", timeout: 0.3) }
      end
      assert_match(/of 99 messages of orders not finished after 1 s/,
                   assert_raises(Pelton::WaitTimeout) { cluster.messages("orders", 99, timeout: 1) }.message)
      assert_raises(Pelton::ConfigError) { cluster.fail_next(:prodcue, 7) }
      assert_raises(Pelton::ConfigError) { cluster.fail_next(:produce, 7, times: 0) }
      assert_raises(Pelton::ConfigError) { cluster.slow(-1) }
      assert_raises(Pelton::ConfigError) { cluster.messages("orders", 1, timeout: -1) }
      @app.close(timeout: 60)
    end
  end

  # As kafka.apache.org/protocol numbers them.
  def test_requests_of_a_cluster_have_kafka_s_numbers
    cluster = Pelton::Testing::Cluster.allocate
    cluster.define_singleton_method(:push_errors) { |key, codes| [key, codes] }
    { produce: 0, fetch: 1, list_offsets: 2, metadata: 3, offset_commit: 8, offset_fetch: 9, find_coordinator: 10,
      join_group: 11, heartbeat: 12, leave_group: 13, sync_group: 14, init_producer_id: 22, add_partitions_to_txn: 24,
      add_offsets_to_txn: 25, end_txn: 26, txn_offset_commit: 28 }.each do |request, number|
      assert_equal [number, [7, 7]], cluster.fail_next(request, 7, times: 2), request
    end
  end

  def test_a_cluster_s_topic_that_is_gone_and_what_it_was_asked
    Pelton::Testing::Cluster.start(topics: { "orders" => 2 }) do |cluster|
      options = { "bootstrap.servers" => cluster.bootstrap_servers }
      partitions = -> { Pelton::Native.metadata(options, "orders", 30).dig(:topics, "orders") }
      asked = cluster.requests { assert_equal 2, partitions.call }
      assert_operator asked.fetch(:metadata), :>=, 1
      refute_includes asked, :produce
      assert_empty cluster.requests { nil }
      assert_raises(IOError) do
        cluster.without("orders") do
          assert_equal :UNKNOWN_TOPIC_OR_PART, partitions.call.name
          raise IOError
        end
      end
      assert_equal 2, partitions.call
      assert_raises(Pelton::ConfigError) { cluster.without("no topic!") { flunk } }
      assert_raises(Pelton::ConfigError) { cluster.topic_error("orders", :gone) }
    end
  end
end
