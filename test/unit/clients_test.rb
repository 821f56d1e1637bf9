# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# The clients floor on the fake native side: producer, subscription, embedded cluster, event dispatch.
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
    assert_equal({ "client.id" => "pelton", "message.timeout.ms" => "150000",
                   "partitioner" => "murmur2_random", "bootstrap.servers" => "a:1" },
                 fake.config.except("queue.buffering.max.kbytes"))
    assert_operator Integer(fake.config["queue.buffering.max.kbytes"]), :<=, 512 * 1024 / 4
  end

  def test_one_client_for_many_first_users
    producer
    threads = Array.new(8) { Pelton::Threads.start("test") { producer.produce_async(topic: "a", payload: "x") } }
    Pelton::Threads.join(threads)
    assert_equal 1, @native.producers.size
    assert_equal 8, fake.calls.size
  end

  def test_produce_async_passes_everything_on_in_one_call
    time = Time.at(1_700_000_000, 123, :millisecond)
    delivery = producer.produce_async(topic: "orders", payload: "p", key: "k", partition: 3, headers: { "a" => "b" },
                                      timestamp: time)
    assert_equal ["orders", "p", "k", 3, time, { "a" => "b" }, 10], fake.calls.first
    assert_equal 0, delivery.offset
    producer.produce_async(topic: "orders", payload: nil, timestamp: 5)
    assert_equal ["orders", nil, nil, nil, 5, nil, 10], fake.calls.last
  end

  def test_produce_async_costs_nothing_in_ruby
    native = Class.new { def produce(*) = nil }.new
    native.define_singleton_method(:close) { |_| 0 }
    producer.instance_variable_set(:@native, Struct.new(:close) { def produce(_a, _b, _c, _d, _e, _f, _g) = nil }.new)
    producer.produce_async(topic: "a", payload: "x", key: "k")
    # The two Strings of a literal are frozen, so what is left is the counting itself.
    made = allocations { 100.times { producer.produce_async(topic: "a", payload: "x", key: "k") } }
    assert_operator made, :<=, 5
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
    assert_equal [["a", "1", nil, nil, nil, nil], ["b", "2", "k", 1, 9, {}]], fake.messages
    assert_equal 3, producer.produce_many_sync(rows, timeout: 3).waited
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

  # --- states ---

  def test_states
    expected = [:initial, false, :open, false, :open, true, :disconnected, false, :open, :closed, false]
    states = [producer.state, producer.disconnect]
    states << (producer.produce_async(topic: "a", payload: "x") && producer.state)
    fake.undelivered = 1
    states << producer.disconnect << producer.state
    fake.undelivered = 0
    states << producer.disconnect << producer.state << producer.disconnect
    states << (producer.produce_async(topic: "a", payload: "x") && producer.state)
    producer.close
    states << producer.state << producer.disconnect
    assert_equal expected, states
    assert_equal 1, @native.producers.size
    assert_equal :closed, Pelton::Producer.new(@config).tap(&:close).state
  end

  def test_inspect_shows_the_state_and_does_not_wait
    entered = Thread::Queue.new
    leave = Thread::Queue.new
    producer.produce_async(topic: "a", payload: "x")
    fake.define_singleton_method(:close) { |_| (entered << 1) && leave.pop }
    closer = Pelton::Threads.start("test") { producer.close }
    entered.pop
    producer.instance_variable_get(:@lock).synchronize do
      assert_equal ["#<Pelton::Producer #{producer.name} closing>", :closing], [producer.inspect, producer.state]
    end
    2.times { leave << 0 } # teardown closes too
    Pelton::Threads.join([closer])
    assert_equal "#<Pelton::Producer #{producer.name} closed>", producer.inspect
  end

  def test_unused_state_for_a_parents_producer_in_a_child
    producer.produce_async(topic: "a", payload: "x")
    pid = fork { exit!(producer.state == :initial ? 0 : 1) }
    Process.wait(pid)
    assert_equal 0, $?.exitstatus
    assert_equal :open, producer.state
  end

  def test_variants_disconnect_with_their_producer
    producer.produce_async(topic: "a", payload: "x")
    producer.with(acks: 1).produce_async(topic: "a", payload: "x")
    producer.with(acks: 0)
    assert_equal 2, @native.producers.size
    @native.producers.last.undelivered = 1
    assert_equal [false, [false, true]], [producer.disconnect, @native.producers.map(&:connected?)]
    assert_equal false, producer.disconnect
    @native.producers.last.undelivered = 0
    assert_equal [true, [false, false]], [producer.disconnect, @native.producers.map(&:connected?)]
  end

  def test_the_time_of_an_idle_producer
    producer.produce_async(topic: "a", payload: "x")
    assert_nil fake.idle
    config = Pelton::Config.new
    [0, 29.9, "30", true, Float::INFINITY].each do |bad|
      assert_raises(Pelton::ConfigError) { config.idle_disconnect_timeout = bad }
    end
    config.idle_disconnect_timeout = 30
    other = Pelton::Producer.new(config, native: @module)
    other.produce_async(topic: "a", payload: "x")
    assert_equal 30, @native.producers.last.idle
    error = assert_raises(Pelton::ConfigError) { config.idle_disconnect_timeout = 60 }
    assert_includes error.message, "frozen"
  ensure
    other&.close
  end

  def test_options_cannot_change_after_the_producer_is_made
    own = { "acks" => "1" }
    producer = Pelton::Producer.new(@config, native: @module, kafka: own)
    own["acks"] = "all"
    producer.produce_async(topic: "a", payload: "x")
    assert_equal "1", @native.producers.last.config["acks"]
    assert_raises(Pelton::ConfigError) { @config.kafka = {} }
    assert_raises(Pelton::ConfigError) { @config.set(:max_messages, 7) }
  ensure
    producer&.close
  end

  def test_disconnects_are_published
    seen = Thread::Queue.new
    %w[producer.disconnected producer.reconnected].each { |name| @bus.subscribe(name) { |event| seen << event } }
    producer.produce_async(topic: "a", payload: "x")
    @native.events << [:disconnected, producer.name, true] << [:reconnected, producer.name]
    events = Array.new(2) { seen.pop }
    assert_equal [["producer.disconnected", { client: producer.name, idle: true }],
                  ["producer.reconnected", { client: producer.name }]],
                 (events.map { |event| [event.name, event.payload] })
  end

  # --- subscription ---

  def test_subscription_adds_our_defaults
    @config.kafka = { "auto.offset.reset" => "latest" }
    @config.decoding_threads = 3
    @config.decoding_memory = 4096
    subscription = Pelton::Subscription.new(@config, group_id: "g", max_messages: 9, decode: { "a" => :json },
                                                     native: @module)
    fake = @native.subscriptions.first
    assert_equal({ "client.id" => "pelton", "group.id" => "g", "enable.auto.offset.store" => "false",
                   "auto.offset.reset" => "latest", "fetch.queue.backoff.ms" => "10",
                   "fetch.wait.max.ms" => "100",
                   "queued.max.messages.kbytes" => "16384" }, fake.config)
    assert_equal({ max_messages: 9, max_batch_bytes: 1 << 20, prefetch_batches: 16, prefetch_bytes: 2 << 20,
                   decode: { "a" => :json }, where: {}, max_time: 100 }, fake.options.except(:poller))
    assert_equal "pelton.poll", fake.options[:poller].name
    subscription.subscribe(["a"])
    assert_equal ["a"], fake.topics
    subscription.wake
    assert_nil subscription.poll(nil)
    assert_equal [3, 4096], [@native.decoding_threads, @native.decoding_memory]
  ensure
    assert subscription.close(1)
    assert_predicate fake, :closed?
  end

  def test_commit_returns_whether_the_partitions_are_owned
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
    [producer, other].each { |client| client.produce_async(topic: "a", payload: "x") }
    assert_equal 1, threads.call
    other.close
    assert_equal 1, threads.call
    producer.close
    eventually { threads.call.zero? } # a close waits for it, but not for ever
  end

  def test_unclosed_client_is_reported_and_released
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

  # --- statistics ---

  def test_statistics_are_on_with_a_subscriber
    @bus.subscribe("statistics.emitted") { nil }
    producer.produce_async(topic: "a", payload: "x")
    subscription = Pelton::Subscription.new(@config, group_id: "g", bus: @bus, native: @module)
    assert_equal %w[5000 5000],
                 [fake, @native.subscriptions.first].map { |client| client.config["statistics.interval.ms"] }
    @bus.subscribe("statistics.emitted") { nil }
  ensure
    subscription&.close(1)
  end

  def test_statistics_are_off_without_a_subscriber_and_a_later_subscription_warns
    producer.produce_async(topic: "a", payload: "x")
    refute_includes fake.config, "statistics.interval.ms"
    error = assert_raises(Pelton::ConfigError) { @bus.subscribe("statistics.emitted") { nil } }
    assert_includes error.message, "before the first client opens"
    reporter = Object.new
    def reporter.on_statistics_emitted(_event) = nil
    def reporter.on_error_occurred(_event) = nil
    assert_raises(Pelton::ConfigError) { @bus.subscribe(reporter) }
    refute @bus.wanted?("error.occurred"), "a refused reporter gets nothing"
    Pelton::Notifications.new.subscribe("statistics.emitted") { nil } # another app's bus
  end

  def test_an_option_for_statistics_wins
    @config.kafka = { "statistics.interval.ms" => 0 }
    @bus.subscribe("statistics.emitted") { nil }
    producer.produce_async(topic: "a", payload: "x")
    assert_equal "0", fake.config["statistics.interval.ms"]
    other = Pelton::Notifications.new
    own = { "statistics.interval.ms": 100 }
    late = Pelton::Producer.new(@config, bus: other, native: @module, kafka: own)
    late.produce_async(topic: "a", payload: "x")
    assert_equal "100", @native.producers.last.config["statistics.interval.ms"]
    other.subscribe("statistics.emitted") { nil }
  ensure
    late&.close
  end

  def test_statistics_without_a_subscriber_are_not_parsed
    errors = Thread::Queue.new
    @bus.subscribe("error.occurred") { |event| errors << event }
    @config.kafka = { "statistics.interval.ms" => 100 }
    producer.produce_async(topic: "a", payload: "x")
    # It would be an error.
    @native.events << [:statistics, producer.name, "{"] << [:error, producer.name, -195, :_TRANSPORT, "down", false]
    assert_equal "kafka", errors.pop[:source]
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

  def test_embedded_cluster_refuses_invalid_topics
    cluster = Pelton::EmbeddedCluster.start(native: @module)
    start = Pelton::EmbeddedCluster.method(:start)
    { brokers: [0, "1"], topics: [5], partitions: [0, -1, "x"], topic: [nil, :a, ""], round_trip_time: [-1, "x"],
      push_errors: [[nil], 7] }.each do |key, values|
      values.each do |value|
        error = assert_raises(Pelton::ConfigError, "#{key} #{value.inspect}") do
          case key
          when :brokers, :topics then start.call(key => value, native: @module)
          when :partitions then cluster.create_topic("a", value)
          when :topic then cluster.create_topic(value)
          when :round_trip_time then cluster.round_trip_time = value
          else cluster.push_errors(0, value)
          end
        end
        assert_equal key.to_s, error.key
      end
    end
    assert_equal 1, @native.clusters.last.calls.size
  end

  def test_embedded_cluster_closes_after_an_error
    assert_raises(Pelton::ConfigError) { Pelton::EmbeddedCluster.start(topics: { "!" => 1 }, native: @module) }
    assert_raises(RuntimeError) { Pelton::EmbeddedCluster.start(native: @module) { raise "x" } }
    assert_equal [[[:new, 1], [:close]]] * 2, @native.clusters.map { |cluster| cluster.calls.values_at(0, -1) }
    cluster = Pelton::EmbeddedCluster.start(native: @module)
    refute_includes @native.clusters.last.calls, [:close]
    cluster.close
  end
end
