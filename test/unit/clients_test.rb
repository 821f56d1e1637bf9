# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# R2: producer, subscription, embedded cluster, event dispatch, on the fake native side.
class ClientsTest < Minitest::Test
  def setup
    @native = Fakes::Native.new
    @module = @native.to_module
    @config = Pelton::Config.new
    @bus = Pelton::Notifications.new
  end

  def producer = @producer ||= Pelton::Producer.new(@config, bus: @bus, native: @module)
  def fake = @native.producers.first
  def teardown = @producer&.close

  def test_the_native_client_opens_with_the_first_use
    opened = []
    @bus.subscribe("producer.opened") { |event| opened << event[:client] }
    @config.kafka = { "bootstrap.servers" => "a:1" }
    producer
    assert_empty @native.producers
    assert producer.flush
    producer.produce_async(topic: "orders", payload: "x")
    producer.produce_async(topic: "orders", payload: "x")
    assert_equal 1, @native.producers.size
    assert_equal [producer.name], opened
    assert_equal({ "client.id" => "pelton", "message.timeout.ms" => "150000", "bootstrap.servers" => "a:1" },
                 fake.config)
  end

  def test_one_client_for_many_first_users
    producer
    threads = Array.new(8) { Pelton::Threads.start("test") { producer.produce_async(topic: "a", payload: "x") } }
    Pelton::Threads.join(threads)
    assert_equal 1, @native.producers.size
    assert_equal 8, fake.calls.size
  end

  def test_produce_async_passes_everything_on_in_one_call
    delivery = producer.produce_async(topic: "orders", payload: "p", key: "k", partition: 3, headers: { "a" => "b" },
                                      timestamp: Time.at(1_700_000_000, 123, :millisecond))
    assert_equal ["orders", "p", "k", 3, 1_700_000_000_123, { "a" => "b" }, 10], fake.calls.first
    assert_equal 0, delivery.offset
    producer.produce_async(topic: "orders", payload: nil, timestamp: 5)
    assert_equal ["orders", nil, nil, -1, 5, nil, 10], fake.calls.last
    assert_raises(Pelton::InvalidMessageError) { producer.produce_async(topic: "a", payload: "x", timestamp: "now") }
  end

  def test_produce_async_costs_nothing_in_ruby
    native = Class.new { def produce(*) = nil }.new
    native.define_singleton_method(:close) { |_| 0 }
    producer.instance_variable_set(:@native, Struct.new(:close) { def produce(_a, _b, _c, _d, _e, _f, _g) = nil }.new)
    producer.produce_async(topic: "a", payload: "x", key: "k")
    before = GC.stat(:total_allocated_objects)
    100.times { producer.produce_async(topic: "a", payload: "x", key: "k") }
    # The two Strings of a literal are frozen, so what is left is the counting itself.
    assert_operator GC.stat(:total_allocated_objects) - before, :<=, 5
  ensure
    @producer = nil
  end

  def test_produce_sync_waits
    @config.delivery_timeout = 7
    assert_equal 7, producer.produce_sync(topic: "orders", payload: "x").waited
    assert_equal 0.5, producer.produce_sync(topic: "orders", payload: "x", timeout: 0.5).waited
  end

  def test_produce_many
    rows = [{ topic: "a", payload: "1" },
            { topic: "b", payload: "2", key: "k", partition: 1, headers: {}, timestamp: 9 }]
    assert_equal 2, producer.produce_many_async(rows).size
    assert_equal [["a", "1", nil, -1, nil, nil], ["b", "2", "k", 1, 9, {}]], fake.messages
    assert_equal 3, producer.produce_many_sync(rows, timeout: 3).waited
    assert_raises(ArgumentError) { producer.produce_many_async([{ topic: "a" }]) }
    assert_raises(ArgumentError) { producer.produce_many_async([{ topic: "a", payload: "x", pratition: 1 }]) }
  end

  def test_close
    closed = []
    @bus.subscribe("producer.closed") { |event| closed << event[:undelivered] }
    producer.produce_async(topic: "a", payload: "x")
    fake.undelivered = 2
    assert_equal 2, producer.pending
    refute producer.flush(timeout: 1)
    refute_predicate producer, :closed?
    assert_equal [2, 2], [producer.close(timeout: 1), producer.close(timeout: 1)]
    assert_predicate producer, :closed?
    assert_equal [2], closed
    assert_raises(Pelton::ClosedError) { producer.produce_async(topic: "a", payload: "x") }
  end

  def test_close_before_the_first_use
    assert_equal 0, producer.close
    assert_raises(Pelton::ClosedError) { producer.produce_async(topic: "a", payload: "x") }
    assert_empty @native.producers
  end

  def test_names_differ
    refute_equal Pelton::Producer.new(@config).name, Pelton::Producer.new(@config).name
  end

  def test_inspect_shows_no_secret
    @config.kafka = { "sasl.password" => "hunter2" }
    producer.produce_async(topic: "a", payload: "x")
    refute_includes producer.inspect, "hunter2"
  end

  # --- subscription ---

  def test_subscription_adds_our_defaults
    @config.kafka = { "auto.offset.reset" => "latest" }
    @config.decoding_threads = 3
    subscription = Pelton::Subscription.new(@config, group_id: "g", batch: 9, decode: { "a" => :json }, native: @module)
    fake = @native.subscriptions.first
    assert_equal({ "client.id" => "pelton", "group.id" => "g", "enable.auto.offset.store" => "false",
                   "auto.offset.reset" => "latest", "fetch.queue.backoff.ms" => "10",
                   "queued.max.messages.kbytes" => "16384" }, fake.config)
    assert_equal({ batch: 9, bytes: 1 << 20, prefetch: 8, prefetch_bytes: 2 << 20, decode: { "a" => :json } },
                 fake.options)
    subscription.subscribe(["a"])
    assert_equal ["a"], fake.topics
    subscription.wake
    assert_nil subscription.poll(nil)
    assert_equal 3, @native.decoding_threads
  ensure
    assert subscription.close(1)
    assert_predicate fake, :closed?
  end

  def test_commit_tells_ownership
    subscription = Pelton::Subscription.new(@config, group_id: "g", native: @module)
    fake = @native.subscriptions.first
    assert_equal true, subscription.commit
    { -168 => true, 22 => false, 27 => false, -142 => false }.each do |code, result|
      fake.commit_error = Pelton::KafkaError.new(code, :X)
      assert_equal result, subscription.commit, code
    end
    fake.commit_error = Pelton::KafkaError.new(-185, :_TIMED_OUT)
    assert_raises(Pelton::KafkaError) { subscription.commit }
  ensure
    subscription.close(1)
  end

  # --- events ---

  def test_events_reach_the_bus_of_their_client
    seen = Thread::Queue.new
    %w[kafka.log statistics.emitted error.occurred message.delivery_failed].each do |name|
      @bus.subscribe(name) { |event| seen << event }
    end
    producer.produce_async(topic: "a", payload: "x")
    name = producer.name
    @native.events << [:log, name, 4, "CONFWARN",
                       "x is a consumer property and will be ignored by this producer instance"]
    @native.events << [:log, "somebody else", 3, "FAIL", "no"] << [:log, name, 3, "FAIL", "connection refused"]
    @native.events << [:statistics, name, '{"txmsgs":3}'] << [:error, name, -195, :_TRANSPORT, "down", false]
    @native.events << [:delivery_failed, name, -192, :_MSG_TIMED_OUT, "timed out", "orders", 1]
    events = Array.new(4) { seen.pop }
    assert_equal({ client: name, level: 3, facility: "FAIL", message: "connection refused" }, events[0].payload)
    assert_equal({ "txmsgs" => 3 }, events[1][:statistics])
    assert_equal [-195, "kafka"], [events[2][:error].code, events[2][:source]]
    assert_equal ["orders", 1], [events[3][:error].topic, events[3][:partition]]
  end

  def test_the_event_thread_lives_as_long_as_clients_do
    threads = -> { Pelton::Threads.list.map(&:name).count("pelton.events") }
    other = Pelton::Producer.new(@config, bus: @bus, native: @module)
    assert_equal 0, threads.call
    [producer, other].each { |one| one.produce_async(topic: "a", payload: "x") }
    assert_equal 1, threads.call
    other.close
    assert_equal 1, threads.call
    producer.close
    assert_equal 0, threads.call
  end

  def test_an_unclosed_client_is_told_and_forgotten
    seen = Thread::Queue.new
    @bus.subscribe("producer.unclosed") { |event| seen << event.payload }
    producer.produce_async(topic: "a", payload: "x")
    @native.events << [:unclosed, producer.name, 3]
    assert_equal({ client: producer.name, undelivered: 3 }, seen.pop)
    eventually { Pelton::Threads.list.none? { |thread| thread.name == "pelton.events" } }
  end

  def test_an_event_that_is_no_json_is_an_error_event
    seen = Thread::Queue.new
    @bus.subscribe("statistics.emitted") { nil }
    @bus.subscribe("error.occurred") { |event| seen << event[:error] }
    producer.produce_async(topic: "a", payload: "x")
    @native.events << [:statistics, producer.name, "{"]
    assert_kind_of Pelton::DecodeError, seen.pop
  end

  # --- embedded cluster ---

  def test_embedded_cluster
    value = Pelton::EmbeddedCluster.start(topics: { "orders" => 4 }, brokers: 2, native: @module) do |cluster|
      assert_equal "127.0.0.1:9", cluster.bootstrap_servers
      cluster.create_topic("b").push_errors(0, [7])
      cluster.round_trip_time = 20
      :value
    end
    assert_equal :value, value
    assert_equal [[:new, 2], [:create_topic, "orders", 4], [:create_topic, "b", 1], [:push_errors, 0, [7]],
                  [:round_trip_time, 1, 20], [:round_trip_time, 2, 20], [:close]], @native.clusters.first.calls
  end

  def test_embedded_cluster_closes_after_an_error
    assert_raises(Pelton::KafkaError) { Pelton::EmbeddedCluster.start(topics: { "!" => 1 }, native: @module) }
    assert_raises(RuntimeError) { Pelton::EmbeddedCluster.start(native: @module) { raise "x" } }
    assert_equal [[:close]] * 2, @native.clusters.map { |cluster| cluster.calls.last }
    cluster = Pelton::EmbeddedCluster.start(native: @module)
    refute_includes @native.clusters.last.calls, [:close]
    cluster.close
  end
end
