# frozen_string_literal: true

require_relative "../test_helper"
require "support/log_contract"
require "tmpdir"
require "pelton/testing/minitest"

# What surrounds the consumers of a test: constants that hold clients, threads, clusters, formats, Rails' time.
class TestingSessionTest < Minitest::Test
  Pelton.config.logger = nil # failures are on purpose
  # As an application does it when it boots.
  TRACE = ->(message) { { **message, headers: { "trace" => "42", **message[:headers].to_h } } }
  Pelton.producer.middleware.append(TRACE)
  PRODUCER = Pelton::Producer.new(Pelton::Config.new)
  POOL = Pelton.producer_pool(size: 2, kafka: { "transactional.id" => "pool" })

  class OrdersConsumer < Pelton::Consumer
    class << self
      attr_accessor :broken
    end

    def seen = @seen ||= []

    def process(message)
      raise KeyError, "poison" if self.class.broken

      seen << [message.key, message.offset]
      producer.produce_sync(topic: "shipped", key: message.key, payload: message.raw_payload)
    end
  end

  class PoolConsumer < Pelton::Consumer
    def process(message)
      transaction(POOL) do |tx|
        tx.produce_async(topic: "paid", payload: message.raw_payload)
        mark_as_consumed(message)
        raise KeyError, "poison" if message.raw_payload == "bad" && attempt == 1
      end
    end
  end

  class BackgroundConsumer < Pelton::Consumer
    attr_reader :thread

    def assigned
      @thread = background("beside") do |stop|
        Pelton.producer.produce_sync(topic: "beside", payload: "x")
        stop.wait
      end
    end

    def consume = nil
  end

  def setup
    Pelton.configure { |config| config.group_id = "billing" }
  end

  include LogContract

  def log = Pelton::Testing::Memory::ProducerLog.new({ "bootstrap.servers" => "memory" })

  def orders(&settings) = Pelton.routes { topic("orders", to: OrdersConsumer, &settings) }

  # The flow of the guide: three attempts, a retry topic, dead letters, redrive.
  def test_a_whole_flow
    orders do
      retries 2, backoff: 1..1
      retry_in 60
      dead_letters "orders.dead"
    end
    OrdersConsumer.broken = true
    produce("orders", { "id" => 7 }, key: "7")
    travel 62
    assert_dead_lettered("orders", error: KeyError, attempts: 4)
    OrdersConsumer.broken = false
    assert_equal 1, Pelton.dead_letters("orders.dead").redrive.handled
    run_consumers
    assert_produced("shipped", key: "7", payload: { "id" => 7 })
    assert_equal 0, Pelton.dead_letters("orders.dead").redrive.handled
  ensure
    OrdersConsumer.broken = false
  end

  2.times do |number|
    define_method("test_clients_in_constants_use_the_topics_of_the_test_that_runs_#{number}") do
      Pelton.routes { topic("in", to: PoolConsumer) { backoff 1..1 } }
      assert_equal 0, PRODUCER.produce_sync(topic: "in", payload: "good").offset
      consumer_for("in")
      produce("in", "bad")
      assert_equal ["good"], produced_messages("paid").map(&:raw_payload)
      assert_equal 1, committed_offset("in")
      travel 1
      assert_equal %w[good bad], produced_messages("paid").map(&:raw_payload)
      assert_equal 2, committed_offset("in")
    end
  end

  def test_middleware_of_the_app_s_producer_is_kept
    2.times { Pelton.producer.produce_sync(topic: "a", payload: "x") }
    assert_equal([{ "trace" => "42" }] * 2, produced_messages("a").map(&:headers))
    assert_equal 1, Pelton.producer.middleware.to_a.size
  end

  class CopyingConsumer < Pelton::Consumer
    def process(message)
      transaction { |tx| tx.produce_sync(topic: "copies", payload: message.raw_payload) }
    end
  end

  def test_messages_of_a_transactional_route_and_of_a_pool_have_the_middleware
    Pelton.middleware.append(->(message) { { **message, headers: { **message[:headers], "test" => "1" } } })
    Pelton.routes { topic("in", to: CopyingConsumer) { transactional "copies" } }
    produce("in", "x")
    assert_equal([{ "trace" => "42", "test" => "1" }], produced_messages("copies").map(&:headers))
    POOL.transaction { |tx| tx.produce_async(topic: "b", payload: "x") }
    assert_equal([{ "trace" => "42" }], produced_messages("b").map(&:headers))
  end

  def test_threads_of_a_consumer_end_with_the_test
    Pelton.routes { topic("orders", to: BackgroundConsumer) }
    consumer = consumer_for("orders")
    eventually { produced_messages("beside").any? }
    assert_predicate consumer.thread, :alive?
    Pelton::Testing::Session.current.close
    refute_predicate consumer.thread, :alive?
  end

  def test_a_thread_of_the_code_under_test_uses_the_topics_of_the_test
    Pelton::Threads.start("test") { Pelton.producer.produce_sync(topic: "a", payload: "x") }.join
    assert_produced("a")
  end

  def test_with_concurrency_jobs_run_one_after_the_other_in_turns_of_the_keys
    orders { concurrency 3, by: :key }
    produce_together { %w[a b a c b].each { |key| produce("orders", "{}", key: key) } }
    assert_equal({ "a" => [0, 2], "b" => [1, 4], "c" => [3] },
                 consumed_messages("orders").group_by(&:key).transform_values { |all| all.map(&:offset) })
    first = consumed_messages("orders").map(&:offset)
    assert_committed("orders", up_to: 4)
    stop_consumers
    assert_equal first, consumed_messages("orders").map(&:offset)
  end

  class BatchConsumer < Pelton::Consumer
    def ids = @ids ||= []
    def consume = ids << messages.map { |message| message.payload["id"] }
  end

  # As karafka-testing wants it. It would do nothing, and the test would pass.
  def test_a_call_of_consume_by_the_test_is_an_error
    Pelton.routes { topic("clicks", to: BatchConsumer) }
    consumer = consumer_for("clicks")
    error = assert_raises(Pelton::ConsumerError) { consumer.consume }
    assert_includes error.message, "BatchConsumer#consume has no messages here: in a test, `produce`"
    message = produce("clicks", { "id" => 1 })
    assert_equal [[1]], consumer.ids
    assert_raises(Pelton::ConsumerError) { consumer.consume }
    consumer.define_singleton_method(:messages) { [message, message] } # a test may give it messages of its own
    consumer.consume
    assert_equal [[1], [1, 1]], consumer.ids
  end

  def test_avro_with_schemas_from_files
    Dir.mktmpdir do |folder|
      schema = '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "int" }] }'
      File.write(File.join(folder, "orders-value.7.avsc"), schema)
      registry = Pelton::Registry.files(folder)
      orders { decode :avro, registry: registry }
      message = produce("orders", { "id" => 7 })
      assert_equal [{ "id" => 7 }, "\0\0\0\0\a\x0e".b], [message.payload, message.raw_payload]
      assert_equal [{ "id" => 7 }], consumed_messages("orders").map(&:payload)
    end
  end

  class ReadingConsumer < Pelton::Consumer
    def process(message) = message.payload
  end

  # A test of the route's `on_failure` had no way to take the registry away.
  def test_empty_file_of_a_folder_is_a_registry_that_does_not_answer
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "99.avsc"), "")
      registry = Pelton::Registry.files(folder)
      Pelton.routes do
        topic("orders", to: ReadingConsumer) do
          decode :avro, registry: registry
          on_failure(dead_letters: ["orders.dead"]) do |failure|
            failure.error.missing? ? [:dead_letter, "orders.dead"] : :retry
          end
        end
      end
      create_topic("orders", partitions: 2)
      produce("orders", [0, 99].pack("CN"), partition: 0)
      assert_retried("orders", error: Pelton::SchemaUnavailable)
      refute_dead_lettered("orders")
      produce("orders", [0, 98].pack("CN"), partition: 1)
      assert_dead_lettered("orders", to: "orders.dead", error: Pelton::SchemaUnavailable)
    end
  end

  ORDER_V1 = '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "int" }] }'
  ORDER_V2 = '{ "type": "record", "name": "Order", "fields": [{ "name": "id", "type": "long" },
                { "name": "note", "type": "string", "default": "none" }] }'
  READ = { "id" => 7, "note" => "none" }.freeze

  # A reader has a schema of its own, which no producer registered.
  def test_a_route_s_reader_schema_need_not_be_in_the_folder
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "orders-value.7.avsc"), ORDER_V1)
      orders { decode :avro, registry: Pelton::Registry.files(folder), schema: ORDER_V2 }
      message = produce("orders", { "id" => 7 })
      assert_equal [READ, "\0\0\0\0\a\x0e".b], [message.payload, message.raw_payload]
    end
  end

  def test_single_object_payloads_have_the_subject_s_schema_not_the_reader_s
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "orders-value.avsc"), ORDER_V1)
      registry = Pelton::Registry.files(folder)
      orders { decode :avro, registry: registry, schema: ORDER_V2, framing: :single_object }
      assert_equal READ, produce("orders", { "id" => 7 }).payload
    end
  end

  def test_payloads_without_a_framing_have_the_writer_s_schema
    orders { decode :avro, writer: ORDER_V1, schema: ORDER_V2 }
    message = produce("orders", { "id" => 7 })
    assert_equal [READ, "\x0e".b], [message.payload, message.raw_payload]
  end

  def test_a_key_that_is_no_string_is_written_as_the_route_reads_it
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "orders-value.7.avsc"), ORDER_V1)
      File.write(File.join(folder, "orders-key.8.avsc"), ORDER_V1.sub("Order", "OrderKey"))
      registry = Pelton::Registry.files(folder)
      orders do
        decode :avro, registry: registry
        key_deserializer :avro, registry: registry
      end
      message = produce("orders", { "id" => 7 }, key: { "id" => 1 })
      assert_equal [{ "id" => 1 }, "\0\0\0\0\b\x02".b], [message.key, message.raw_key]
      assert_equal({ "id" => 7 }, message.payload)
      assert_equal "\0\0\0\0\b\x04".b, produce("orders", nil, key: "\0\0\0\0\b\x04").raw_key.b
      error = assert_raises(Pelton::EncodeError) { produce("orders", nil, key: { "id" => "one" }) }
      assert_includes error.message, "OrderKey"
    end
  end

  def test_a_json_key_is_written_as_json
    orders { key_deserializer :json }
    assert_equal ['{"id":1}', { "id" => 1 }], produce("orders", nil, key: { "id" => 1 }).then { [_1.raw_key, _1.key] }
  end

  def test_a_key_without_a_format_of_keys_is_refused
    readers = { "plain" => nil, "text" => :utf8, "own" => ->(message) { message.raw_key } }
    Pelton.routes do
      readers.each { |name, reader| topic(name, to: OrdersConsumer) { key_deserializer reader if reader } }
    end
    readers.each_key do |topic|
      error = assert_raises(Pelton::InvalidMessageError) { produce(topic, nil, key: { "id" => 1 }) }
      assert_match(/key.*String, because the route does not decode it/, error.message)
    end
  end

  def test_a_value_that_no_format_can_write_is_refused
    orders { decode :bytes }
    error = assert_raises(Pelton::InvalidMessageError) { produce("orders", { "id" => 7 }) }
    assert_match(/payload.*String, because the route does not decode it/, error.message)
  end

  def test_a_deserializer_makes_the_payload
    orders do
      decode :json
      deserializer(->(message) { message.decoded.fetch("id") })
    end
    assert_equal 7, produce("orders", { "id" => 7 }).payload
  end

  def test_an_embedded_cluster_in_a_test_is_used
    cluster = Pelton::EmbeddedCluster.start(topics: { "orders" => 1 })
    Pelton.configure { |config| config.kafka = { "bootstrap.servers" => cluster.bootstrap_servers } }
    assert_equal 0, Pelton.producer.produce_sync(topic: "orders", payload: "x").offset
    assert_equal 1, Pelton.admin.offsets({ ["orders", 0] => :end }).fetch(["orders", 0])
  ensure
    Pelton.close
    cluster.close
  end

  def test_a_buffered_producer_takes_the_messages_of_its_block
    Pelton::Testing.buffer do |producer|
      Pelton.producer.produce_sync(topic: "a", payload: "1")
      assert_equal ["1"], producer.messages("a").map(&:raw_payload)
    end
    refute_produced("a")
  end

  def test_other_requests_of_the_admin_client_name_what_to_do
    Pelton.admin.create_topic("a", partitions: 3)
    assert_equal 3, Pelton.admin.topics("a")["a"].partitions.size
    assert_equal :TOPIC_ALREADY_EXISTS, assert_raises(Pelton::KafkaError) { Pelton.admin.create_topic("a") }.name
    error = assert_raises(Pelton::ConfigError) { Pelton.admin.groups }
    assert_match(/needs a Kafka: start a Pelton::Testing::Cluster/, error.message)
    assert_raises(Pelton::ConfigError) { Pelton.each("missing").to_a }
  end

  def test_a_consumer_reads_a_declared_topic_before_its_first_message
    Pelton.topics do
      topic "totals", partitions: 1
      deleted "old"
    end
    orders { retry_in 60 }
    reader = Class.new(Pelton::Consumer) do
      attr_reader :found

      def assigned = @found = Pelton.each("totals", "orders.retry.60").to_a
      def consume = nil
    end
    Pelton.routes { topic("prices", to: reader) }

    assert_empty consumer_for("prices").found
    assert_empty consumer_errors
    assert_match(/"old": does not exist/, assert_raises(Pelton::ConfigError) { Pelton.each("old").to_a }.message)
  end

  def test_a_client_outside_of_tests_is_refused
    orders
    producer = Pelton::Producer.new(Pelton::Config.new)
    producer.produce_sync(topic: "a", payload: "x")
    Pelton::Testing::Session.current.close
    error = assert_raises(Pelton::ClosedError) { producer.produce_sync(topic: "a", payload: "x") }
    assert_match(/whose test has ended/, error.message)
    assert_raises(Pelton::ConfigError) { produce("orders", "{}") }
  end
end

# Rails' `travel` moves both clocks. (A process of its own, because ActiveSupport changes Ruby's classes.)
class TestingRailsTimeTest < Minitest::Test
  PROGRAM = <<~RUBY
    require "active_support"
    require "active_support/test_case"
    require "active_support/testing/time_helpers"
    require "minitest/autorun"
    require "pelton/testing/minitest"

    class TickConsumer < Pelton::Consumer
      def ticks = @ticks ||= []
      def tick = ticks << Time.now
      def consume = nil
    end

    class TimeTest < ActiveSupport::TestCase
      include ActiveSupport::Testing::TimeHelpers

      test "travel moves Time.now and the consumers' clock" do
        Pelton.configure { |config| config.group_id = "g" }
        Pelton.routes { topic("orders", to: TickConsumer) { tick_every 60 } }
        consumer = consumer_for("orders")
        before = Time.now
        travel 120
        assert_in_delta 120, Time.now - before, 60
        assert_equal 2, consumer.ticks.size
        travel(60) { assert_equal 3, consumer.ticks.size }
        assert_in_delta before.to_f, Time.now.to_f, 60
      end
    end
  RUBY

  def test_travel
    begin
      require "active_support/version"
    rescue LoadError
      skip "activesupport is not installed for this Ruby (Debian: apt-get install ruby-activesupport)"
    end
    root = File.expand_path("../..", __dir__)
    command = [{ "MT_NO_PLUGINS" => "1" }, RbConfig.ruby, "-I#{root}/lib", "-", { err: %i[child out] }]
    output = IO.popen(command, "r+") do |io|
      io.write(PROGRAM)
      io.close_write
      io.read
    end
    assert_match(/^1 runs, 4 assertions, 0 failures, 0 errors, 0 skips$/, output)
  end
end
