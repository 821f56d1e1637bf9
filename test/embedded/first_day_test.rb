# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"

# The mistakes of a first day: each error says what happened, with the value, and what to do.
class FirstDayTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  class Orders < Pelton::Consumer
    def consume; end
  end

  def said(kind = Pelton::ConfigError, &mistake) = assert_raises(kind, &mistake).message

  def nowhere(**kafka)
    @nowhere = Pelton::App.new.configure do |config|
      config.kafka = { "bootstrap.servers" => "127.0.0.1:1", **kafka }
      config.logger = nil
    end
  end

  def teardown
    @nowhere&.close(timeout: 0)
    super
  end

  def test_wrong_arguments_of_produce_say_how_to_convert_them
    invalid = lambda { |**row|
      said(Pelton::InvalidMessageError) do
        app.producer.produce_async(topic: "a", payload: "x", **row)
      end
    }
    text = "expected a String or nil"
    { { payload: { a: 1 } } =>
        "payload: a Hash of 1 entry is not allowed, #{text}: serialize it, for example with to_json",
      { payload: 7 } => "payload: an Integer is not allowed, #{text}: call to_s on it",
      { key: 7 } => "key: an Integer is not allowed, #{text}: call to_s on it",
      { key: :k } => "key: :k is not allowed, #{text}: call to_s on it",
      { topic: :a } => "topic: :a is not allowed, expected a String: call to_s on it",
      { headers: { "a" => :b } } =>
        "headers: :b is not allowed, expected a Hash of String => String, nil or an Array of those: call to_s on it" }
      .each do |row, error|
      assert_equal error, invalid[**row]
    end
  end

  def test_wrong_argument_in_a_batch_names_the_message
    rows = [{ topic: "a", payload: "x" }, { topic: "a", payload: "x", key: 1 }]
    assert_match(/\Amessage 1: key: an Integer .+: call to_s on it\z/,
                 said(Pelton::InvalidMessageError) { app.producer.produce_many_async(rows) })
  end

  def test_tombstone_without_a_key_is_refused
    assert_includes said(Pelton::InvalidMessageError) { app.producer.tombstone_async(topic: "a", key: nil) },
                    "key: nil is not allowed, expected a String that is not empty"
  end

  def test_missing_address_names_the_setting_with_an_example
    bare = Pelton::App.new
    calls = [-> { bare.producer.produce_sync(topic: "a", payload: "x") }, -> { bare.admin.topics },
             -> { bare.each("a").first }]
    calls.each do |call|
      assert_equal "bootstrap.servers: not set, so there is no Kafka to connect to. Set it: config.kafka = " \
                   '{ "bootstrap.servers" => "localhost:9092" }', said(&call)
    end
  end

  # It said only that bootstrap.servers is not set.
  def test_address_under_another_name_gets_the_right_name
    bare = Pelton::App.new
    bare.config.kafka = { bootstrap_servers: "a:9092" }
    assert_equal 'bootstrap_servers = "a:9092": unknown option of librdkafka; did you mean "bootstrap.servers"?',
                 said { bare.producer.produce_sync(topic: "a", payload: "x") }
  end

  def test_missing_routes_and_group_say_what_to_write
    starting = nowhere
    assert_match(/\Aroutes: are empty: declare topics with Pelton.routes .+ with -r\)\z/, said { starting.start })
    starting.routes { topic "orders", to: Orders }
    assert_equal "group_id: is not set: set config.group_id, or declare the topic orders inside a group",
                 said { starting.start }
  end

  def test_wrong_settings_say_what_is_allowed
    config = Pelton::Config.new
    { -> { config.concurency = 5 } => "concurency: unknown setting, did you mean concurrency?",
      -> { config.livness.port = 5 } => "livness: unknown setting, did you mean liveness?",
      -> { config.shutdown_timeout = "60" } => 'shutdown_timeout = "60": expected a number of seconds >= 0',
      -> { config.kafka = { "bootstrap.servers" => %w[a b] } } =>
        "bootstrap.servers = Array: expected a String, Symbol, Numeric, true or false; join its entries with commas" }
      .each { |mistake, text| assert_includes said(&mistake), text }
    assert_includes said { nowhere("bootstrap.server" => "a").producer.produce_async(topic: "a", payload: "x") },
                    'bootstrap.server = "a": unknown option of librdkafka; did you mean "bootstrap.servers"?'
    assert_includes said { app.routes { topic("a", to: Orders) { decode :yaml } } },
                    "topic a: decode = :yaml: expected `:json`"
  end

  # They were FrozenErrors, and this one showed the password's name only.
  def test_options_changed_in_place_say_what_to_write_and_no_secret
    config = Pelton::Config.new
    assert_equal 'acks = "1": options cannot be changed in place: set all of them, ' \
                 'config.kafka = { **config.kafka, "acks" => value }', said { config.kafka["acks"] = "1" }
    refute_includes said { config.kafka["sasl.password"] = "hunter2" }, "hunter2"
  end

  def test_configuration_after_use_says_what_froze_it
    used = app
    used.producer
    line = __LINE__ - 1
    assert_equal 'group_id = "late": configuration is frozen since the call of `producer` in ' \
                 "#{__FILE__.delete_prefix("#{Dir.pwd}/")}:#{line}: set it before that line",
                 said { used.config.group_id = "late" }
  end

  def test_wrong_port_is_named_in_the_text_and_is_the_cause
    error = assert_raises(Pelton::WaitTimeout) do
      nowhere.producer.produce_sync(topic: "a", payload: "x", timeout: 2 * Guard::PATIENCE)
    end
    assert_match(/delivery to a not finished .+; last error: 127\.0\.0\.1:1.+: Connection refused/, error.message)
    assert_kind_of Pelton::KafkaError, error.cause
  end

  def test_produce_after_close_says_what_to_do
    closed = app
    producer = closed.producer
    producer.produce_sync(topic: topic, payload: "x")
    closed.close
    [producer, closed.producer].each do |client|
      assert_match(/\Aproducer \S+ is closed: use it before its close, or open another one\z/,
                   said(Pelton::ClosedError) { client.produce_async(topic: "a", payload: "x") })
    end
  end

  # As docs/guides/scripts-and-iterators.md says.
  def test_calls_after_close_work_or_raise_as_the_guide_says
    name = topic
    closed = app { topic name, to: Orders }
    delivery = closed.producer.produce_async(topic: name, payload: "x")
    assert_equal 0, closed.close
    assert_equal [0, {}, 0], [delivery.wait.offset, closed.producer.failures, closed.producer.pending]
    assert_equal "x", closed.each(name).first.raw_payload
    assert Pelton::Subscription.new(closed.config, group_id: "other").close(10)
    said { closed.configure { |config| config.group_id = "late" } }
    assert_equal 0, closed.close
    closed.start
    assert_equal 1, closed.producer.produce_sync(topic: name, payload: "y").offset
  end

  def test_close_returns_what_it_gave_up_also_when_it_is_called_again
    lost = nowhere
    2.times { lost.producer.produce_async(topic: "a", payload: "x") }
    assert_equal [2, 2], [lost.close(timeout: 0), lost.close(timeout: 0)]
  end

  # It said why only in produce_sync.
  def test_wait_for_a_delivery_says_why_nothing_came_as_text_and_cause
    producer = nowhere.producer
    delivery = producer.produce_async(topic: "a", payload: "x")
    many = producer.produce_many_async([{ topic: "a", payload: "x" }, { topic: "b", payload: "x" }])
    labelled = producer.produce_async(topic: "a", payload: "x", label: 7)
    eventually(20) { producer.inspect.include?("last error") }
    waits = { "delivery to a" => -> { delivery.wait(timeout: 0) }, "2 of 2 deliveries" => -> { many.wait(timeout: 0) },
              "1 of 1 deliveries to a" => -> { Pelton::Delivery.wait_all([labelled], timeout: 0) } }
    waits.each do |what, wait|
      error = assert_raises(Pelton::WaitTimeout, &wait)
      assert_match(/\A#{what} not finished after .+; last error: 127\.0\.0\.1:1.+refused .+_TRANSPORT/, error.message)
      assert_kind_of Pelton::KafkaError, error.cause
      assert_match(/refused/, error.full_message)
    end
  end

  def test_produce_in_a_fork_after_use_works
    parent = app
    name = topic
    parent.producer.produce_sync(topic: name, payload: "x")
    assert_equal "1\n", in_child { parent.producer.produce_sync(topic: name, payload: "y").offset }
  end

  def test_produce_in_a_fork_that_must_not_says_what_to_do
    parent = app(after_fork: :error)
    name = topic
    parent.producer.produce_sync(topic: name, payload: "x")
    text = in_child { said(Pelton::ForkError) { parent.producer.produce_sync(topic: name, payload: "y") } }
    assert_match(/in process #{Process.pid} and cannot be used in its forked child \d+: open one after the fork/, text)
  end
end
