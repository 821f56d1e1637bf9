# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/routing/routing"

class RoutingTest < Minitest::Test
  class Orders < Pelton::Consumer
    def consume = nil
  end

  class Watcher < Orders
    def tick = nil
    def reached_end = nil
  end

  class Empty < Pelton::Consumer; end

  def config = @config ||= Pelton::Config.new.tap { |config| config.group_id = "app" }
  def routing = @routing ||= Pelton::Routing.new
  def groups(**only) = routing.groups(config, **only)
  def config_error(&block) = assert_raises(Pelton::ConfigError, &block).message

  def test_groups_and_topics
    routing.draw do
      group "billing" do
        topic "orders", to: Orders do
          decode :json
          retries 5, backoff: 2..40, then: :skip
          max_messages 10
          manual_offsets
        end
      end
      topic "payments", to: Orders
    end
    billing, app = groups
    assert_equal %w[billing app], [billing.name, app.name]
    orders = billing.topics.fetch("orders")
    settings = %i[decode retries backoff then max_messages manual_offsets]
    assert_equal([:json, 5, 2..40, :skip, 10, true], settings.map { |key| orders.public_send(key) })
    payments = app.topics.fetch("payments")
    assert_equal([nil, nil, 1..30, :stop, 100, false], settings.map { |key| payments.public_send(key) })
    assert_equal({ "orders" => :json }, billing.decode)
    assert_empty app.decode
    assert_equal [10, 100], [billing.max_messages, app.max_messages]
    assert_predicate orders, :frozen?
  end

  def test_partitions_of_ones_own
    routing.draw do
      group("mine") do
        topic("orders", to: Orders) { partitions 0..2 }
        topic("payments", to: Orders) { partitions [3, 1, 3] }
      end
      topic "else", to: Orders
    end
    mine, app = groups
    places = [["orders", 0], ["orders", 1], ["orders", 2], ["payments", 3], ["payments", 1]]
    assert_equal places.map { |place| [*place, :committed] }, mine.assignment
    assert_nil app.assignment
  end

  def test_bad_partitions
    [[], 3, "0", [-1], [0.5], 0.., (..3), 3..1, [nil], [2**31], 0..(2**62), 0..10_000].each do |bad|
      message = config_error { routing.draw { topic("orders", to: Orders) { partitions bad } } }
      assert_match(/topic orders: partitions = .*an Array or Range of 1 to 10000 Integers/, message)
    end
    draw = ->(&words) { Pelton::Routing.new.draw(&words).groups(config) }
    assert_match(/partitions = \[0\]: work only for topics that are routed by name/,
                 config_error { draw.call { topic(/orders/, to: Orders) { partitions [0] } } })
    assert_match(/cannot be combined with retry_in/,
                 config_error { draw.call { topic("orders", to: Orders) { partitions([0]) && retry_in(10) } } })
    assert_match(/group app: partitions = "payments": has none/, config_error do
      draw.call do
        topic("orders", to: Orders) { partitions [0] }
        topic "payments", to: Orders
      end
    end)
  end

  def test_routing_settings_that_control_consuming
    positive = ->(message) { message.offset.positive? }
    routing.draw do
      topic "orders", to: Orders do
        filter(positive)
        filter(&:key)
        expire_after 60
        delay 0.5
        throttle 100, every: 60
      end
    end
    assert_same positive, (orders = groups.first.topics.fetch("orders")).filters.first
    assert_equal [2, 60, 0.5, [100, 60]], [orders.filters.size, orders.expire_after, orders.delay, orders.throttle]
  end

  def test_ticks_and_ends
    routing.draw do
      topic("a", to: Watcher) { tick_every 5 }
      group("other") { topic("b", to: Orders) { tick_every 0.5 } }
    end
    group = groups(groups: ["app"]).first
    assert_equal 5, group.topic("a").tick_every
    assert_equal({ "enable.partition.eof" => true }, group.kafka)
    assert_includes config_error { groups }, "has no method tick"
    assert_includes config_error { routing.draw { topic("c", to: Orders) { tick_every 0 } } }, "topic c: tick_every = 0"
  end

  def test_defaults_are_for_what_comes_after_them
    odd = ->(message) { message.offset.odd? }
    routing.draw do
      topic "a", to: Orders
      defaults do
        retries 5, then: :skip
        filter(odd)
      end
      topic "b", to: Orders
      group "billing" do
        defaults { max_messages 7 }
        topic("c", to: Orders) { retries 1 }
        topic("d", to: Orders) { filter(&:key) }
      end
      topic "e", to: Orders
    end
    routing.draw { topic "f", to: Orders }
    topics = groups.flat_map { |group| group.topics.values }.to_h { |topic| [topic.name, topic] }
    assert_equal({ "a" => nil, "b" => 5, "c" => 1, "d" => 5, "e" => 5, "f" => nil }, topics.transform_values(&:retries))
    assert_equal [:skip, 7, 100, 100], [topics["c"].then, *topics.values_at("d", "e", "a").map(&:max_messages)]
    assert_equal [1, 2, 0], (%w[c d f].map { |name| topics[name].filters.size })
    assert_includes config_error { routing.draw { defaults } }, "block"
    assert_includes config_error { routing.draw { defaults { retries(-1) } } }, "defaults: retries = -1"
    assert_includes config_error { routing.draw { defaults { topik } } }, "unknown word in defaults"
  end

  def test_inactive_topics_are_ignored
    routing.draw do
      topic("a", to: Empty) { active false }
      topic("b", to: Orders) { active true }
      group("other") { topic("c", to: Orders) { active false } }
    end
    assert_equal [["b"]], groups.map { |group| group.topics.keys }
    assert_includes config_error { groups(topics: ["a"]) }, "no topic is active"
    assert_includes config_error { routing.draw { topic("d", to: Orders) { active :no } } }, "topic d: active = :no"
  end

  def test_where_a_group_begins
    { beginning: "earliest", end: "latest", error: "error" }.each do |word, option|
      @routing = nil
      routing.draw do
        topic("a", to: Orders) { from word }
        topic("b", to: Orders) { from word }
        group("other") { topic "a", to: Orders }
      end
      assert_equal [{ "auto.offset.reset" => option }, {}], groups.map(&:kafka)
    end
    routing.draw { topic "c", to: Orders }
    assert_includes config_error { groups }, "group app: from"
    assert_equal 1, groups(topics: %w[a b], groups: ["app"]).size
    routing.draw { group("x", kafka: { "auto.offset.reset" => "latest" }) { topic("a", to: Orders) { from :end } } }
    assert_includes config_error { groups(groups: ["x"]) }, "auto.offset.reset"
    assert_includes config_error { routing.draw { topic("d", to: Orders) { from :now } } }, ":beginning or :end or"
  end

  def test_a_group_has_options_of_its_own
    routing.draw do
      group("billing", kafka: { :"bootstrap.servers" => "b:9092", "group.instance.id" => "one" }) do
        topic "a", to: Orders
      end
      group("billing") { topic "b", to: Orders }
      topic "c", to: Orders
    end
    assert_equal [{ "bootstrap.servers" => "b:9092", "group.instance.id" => "one" }, {}], groups.map(&:kafka)
    again = ->(options) { config_error { routing.draw { group("billing", kafka: options) { topic "x", to: Orders } } } }
    assert_includes again.({ "bootstrap.servers" => "c:9092" }), "differs"
    assert_includes again.({ "group.id" => "x" }), "is set by the group's name: remove it"
    assert_includes again.("b:9092"), "group billing: kafka = String"
    refute_includes again.({ "sasl.password" => "secret-7" }), "secret-7"
  end

  # Its producers and its admin went to the app's cluster.
  def test_the_connection_of_a_group_has_all_options_that_connect
    connection = { "metadata.broker.list" => "b:9092", "enable.ssl.certificate.verification" => false,
                   "broker.address.family" => "v4", "client.dns.lookup" => "use_all_dns_ips",
                   "security.protocol" => "ssl", "sasl.username" => "me", "ssl.ca.location" => "ca.pem" }
    routing.draw { group("billing", kafka: { **connection, "fetch.min.bytes" => 7 }) { topic "orders", to: Orders } }
    assert_equal connection.keys, groups.first.connection.keys
  end

  def test_which_route_a_topic_has
    routing.draw do
      topic(/^orders\./, to: Orders) { max_messages 1 }
      topic(/^orders\.eu/, to: Orders) { max_messages 2 }
      topic("orders.us", to: Orders) { max_messages 3 }
      topic("other", to: Orders) { decode :json }
    end
    group = groups.first
    assert_equal({ "orders.eu" => 1, "orders.us" => 3, "other" => 100 },
                 %w[orders.eu orders.us other].to_h { |name| [name, group.topic(name).max_messages] })
    assert_equal %w[orders.eu orders.us], (%w[orders.eu orders.us].map { |name| group.topic(name).name })
    assert_equal ["^orders\\..*$", "^orders\\.eu.*$", "orders.us", "other"], group.subscription
    assert_equal({ "orders.us" => nil, "other" => :json, "*" => nil }, group.decode)
    assert_includes config_error { group.topic("orders") }, "has no route in group app"
    assert_equal [["^orders\\."]], (groups(topics: ["^orders\\."]).map { |chosen| chosen.topics.keys })
    assert_includes config_error { routing.draw { topic(/^orders\./, to: Orders) } }, "routed twice"
    loop = config_error { routing.draw { topic(/^or/, to: Orders) { dead_letters "orders.dead" } } }
    assert_includes loop, "is matched by the topic's own pattern"
    loop = config_error { routing.draw { topic("orders", to: Orders) { dead_letters "orders" } } }
    assert_includes loop, "topic orders: dead_letters = \"orders\": is the topic itself"
    assert_includes config_error { stages_to("orders.retry.1") }, "orders.retry.1: dead_letters"
    routing.draw { topic(/^x/, to: Orders) { decode :json } }
    assert_includes config_error { groups }, "group app: decode"
  end

  # The dead letters of a topic with this retry topic go there.
  def stages_to(name)
    Pelton::Routing.new.draw { topic("orders", to: Orders) { retry_in(1) && dead_letters(name) } }.groups(config)
  end

  def test_drawing_adds
    routing.draw { topic "a", to: Orders }
    routing.draw { topic "b", to: Orders }
    routing.draw { group("app") { topic "c", to: Orders } }
    assert_equal [%w[a b c]], groups.map { |group| group.topics.keys }
  end

  def test_the_same_topic_in_two_groups_is_fine_twice_in_one_is_not
    routing.draw do
      group("one") { topic "a", to: Orders }
      group("two") { topic "a", to: Orders }
    end
    assert_equal %w[one two], groups.map(&:name)
    twice = config_error { routing.draw { group("one") { topic "a", to: Orders } } }
    assert_includes twice, "routed twice in group one"
    routing.draw do
      topic "b", to: Orders
      group("app") { topic "b", to: Orders }
    end
    assert_includes config_error { groups }, "b"
  end

  def test_narrowing
    routing.draw do
      group("one") { topic "a", to: Orders }
      group("two") do
        topic "a", to: Orders
        topic "b", to: Orders
      end
    end
    assert_equal %w[two], groups(groups: ["two"]).map(&:name)
    assert_equal [["a"], ["a"]], groups(topics: ["a"]).map { |group| group.topics.keys }
    assert_includes config_error { groups(groups: ["twoo"]) }, "did you mean two?"
    assert_includes config_error { groups(topics: ["c"]) }, "unknown topic"
  end

  def test_errors_name_topic_and_key
    orders = ->(&block) { config_error { routing.draw { topic("orders", to: Orders, &block) } } }
    assert_includes orders.call { retires 5 }, "unknown word in topic orders, did you mean retries?"
    assert_includes orders.call { retries(-1) }, "topic orders: retries = -1"
    assert_includes orders.call { retries 5, then: :die }, ":stop or :skip"
    assert_includes orders.call { retries 5, after: 1 }, "after"
    assert_includes orders.call { decode :xml }, ":json"
    assert_includes orders.call { decode :json, symbolise: true }, "`symbolize_names: true` or false"
    assert_includes orders.call { decode :utf8, freeze: true }, "`:bytes` or `:utf8`"
    assert_includes orders.call { decode(:utf8) && where("a").eq(1) }, "decode = :utf8: has no fields for `where`"
    assert_includes orders.call { decode :avro }, "topic orders: decode: decode :avro, schema: is missing: without a"
    [-5..5, 5..1].each { |span| assert_includes orders.call { backoff span }, "Range" }
    assert_includes orders.call { filter }, "filter = [nil]: expected an object with"
    assert_includes orders.call { filter String }, "topic orders: filter = [String]"
    assert_includes orders.call { expire_after 0 }, "expire_after = 0: expected a number of seconds > 0"
    assert_includes orders.call { long_call 0 }, "long_call = 0: expected a number of seconds > 0"
    assert_includes orders.call { delay(-1) }, "delay"
    assert_includes orders.call { throttle 0, every: 60 }, "throttle 100, every: 60"
    assert_includes orders.call { throttle 1, every: nil }, "throttle"
    assert_includes config_error { routing.draw { topic("or ders", to: Orders) } }, "or ders"
    assert_includes config_error { routing.draw { topic("orders", to: :orders) } }, "topic orders, to"
    assert_includes config_error { routing.draw { topik "orders", to: Orders } }, "did you mean topic?"
    assert_includes config_error { routing.draw { group("a") { group("b") { nil } } } }, "inside group a"
    assert_includes config_error { routing.draw { group("") { nil } } }, "group"
    assert_includes config_error { routing.draw { group("a") } }, "block"
    assert_includes config_error { routing.draw { topic(:orders) { consumer Orders } } },
                    "topic orders: needs the consumer class: topic \"orders\", to: OrdersConsumer"
  end

  def test_consumer_classes
    routing.draw { topic "a", to: Empty }
    assert_includes config_error { groups }, "no method consume"
    @routing = nil
    routing.draw { topic "a", to: String }
    assert_includes config_error { groups }, "not a subclass of Pelton::Consumer"
    @routing = nil
    routing.draw { topic "a", to: "RoutingTest::Missing" }
    assert_includes config_error { groups }, "Missing"
    @routing = nil
    routing.draw { topic "a", to: "RoutingTest::Orders" }
    assert_same Orders, groups.first.topics["a"].consumer_class
  end

  def test_nothing_to_consume
    assert_includes config_error { groups }, "empty"
    routing.draw { topic "a", to: Orders }
    config.group_id = nil
    assert_includes config_error { groups }, "group_id"
  end

  def test_frozen_routes
    routing.draw { topic "a", to: Orders }
    routing.freeze
    assert_equal 1, groups.size
    assert_includes config_error { routing.draw { topic "b", to: Orders } }, "frozen"
  end

  def test_failure_words
    routing.draw do
      topic("a", to: Orders) { dead_letters "a.dead", retries: 0 }
      topic("b", to: Orders) { dead_letters "b.dead" }
      topic("c", to: Orders) { on_failure { :skip } }
    end
    found = groups.first.topics.values_at("a", "b", "c")
    assert_equal [["a.dead", 0], ["b.dead", 3], [nil, nil]], (found.map { |topic| [topic.dead_letters, topic.retries] })
    assert_equal :skip, found.last.on_failure.call(nil)
  end

  def test_retry_topics_are_of_the_same_group
    routing.draw do
      group("one") do
        topic("a", to: Orders) { retry_in 0.5, 10 }
        topic "b", to: Orders
      end
    end
    assert_equal [%w[a b a.retry.0.5 a.retry.10]], groups.map { |group| group.topics.keys }
    assert_equal [%w[a a.retry.0.5 a.retry.10]], groups(topics: ["a"]).map { |group| group.topics.keys }
    stage = groups.first.topics.fetch("a.retry.10")
    assert_equal [Orders, 1, "one"], [stage.consumer_class, stage.max_messages, stage.stage.group]
    routing.draw { group("one") { topic "a.retry.10", to: Orders } }
    assert_includes config_error { groups }, "topic = \"a.retry.10\": is already a retry topic of a"
    latest = Pelton::Routing.new.draw { topic("a", to: Orders) { [retry_in(10), from(:end)] } }
    assert_includes config_error { latest.groups(config) }, "auto.offset.reset = \"latest\": group app uses retry_in"
    long = "x" * 245
    routing = Pelton::Routing.new.draw { topic(long, to: Orders) { retry_in 10 } }
    assert_includes config_error { routing.groups(config) }, ".retry.10"
  end

  def test_wrong_failure_words
    { "topic a: dead_letters = \"no topic!\": expected a String" => -> { dead_letters "no topic!" },
      "topic a: dead_letters = false: expected a String" => -> { dead_letters false },
      "dead_lettersoption: unknown" => -> { dead_letters "d", dead_lettersoption: 1 },
      "topic a: retries = -1: expected an Integer" => -> { dead_letters "d", retries: -1 },
      "topic a: then = :skip: cannot be combined with dead_letters" =>
        -> { [dead_letters("d"), retries(1, then: :skip)] },
      "topic a: retry_in = []: expected an Array of numbers of seconds > 0" => -> { retry_in },
      "topic a: retry_in = [10, 10]: expected" => -> { retry_in 10, 10 },
      "topic ^a: retry_in = [1]: works only for topics that are routed by name" => [/^a/, -> { retry_in 1 }],
      "transactional = \"t\": cannot be combined with concurrency" => -> { [transactional("t"), concurrency(2)] },
      "topic a: transactional = \"\": expected a String (UTF-8) that is not empty" => -> { transactional "" },
      "topic a: transactional = \"\\xFF\": expected a String (UTF-8)" => -> { transactional "\xff" },
      "topic a: dead_letters = \"\\xFF\": expected a String of 1 to 249" => -> { dead_letters "\xff" },
      "topic a: retry_in = [0]: expected" => -> { retry_in 0 },
      "topic a: retry_in = [\"10\"]: expected" => -> { retry_in "10" },
      "topic a: on_failure = :skip: expected an object with the method call" => -> { on_failure :skip } }
      .each do |text, words|
      name, block = words.is_a?(Array) ? words : ["a", words]
      error = config_error { Pelton::Routing.new.draw { topic(name, to: Orders, &block) } }
      assert_includes error, text
    end
  end

  def test_concurrency
    routing.draw do
      topic("a", to: Orders) { concurrency 8 }
      topic("b", to: Orders) { concurrency 2, by: ->(message) { message.dig("customer") } }
      topic("c", to: Orders) { concurrency 2, by: :timestamp }
      topic("d", to: Orders)
    end
    topics = groups.first.topics
    assert_equal [8, :key, true], [topics["a"].concurrency, topics["a"].by, topics["a"].keyed?]
    assert_respond_to topics["b"].by, :call
    assert_equal :timestamp, topics["c"].by
    refute_predicate topics["d"], :keyed?
    [:partition_key, :inspect!, "key", nil, :dig].each do |by|
      error = config_error { Pelton::Routing.new.draw { topic("a", to: Orders) { concurrency 2, by: by } } }
      assert_match(/topic a: by.*expected :key, the name of another method of Message, or an object with/, error)
    end
    [0, 1001, 10**30].each do |count|
      error = config_error { Pelton::Routing.new.draw { topic("a", to: Orders) { concurrency count } } }
      assert_includes error, "topic a: concurrency = #{count}: expected an Integer, 1 to 1000"
    end
  end

  Single = Class.new(Pelton::Consumer) { def process(message); end }
  Both = Class.new(Orders) { def process(message); end }

  def test_two_shapes_of_consumers
    routing.draw { topic "a", to: Single }
    assert_predicate groups.first.topics["a"].consumer_class, :process?
    refute_predicate Orders, :process?
    { Both => "has both consume and process", Class.new(Pelton::Consumer) => "has no method consume or process" }
      .each do |klass, text|
      other = Pelton::Routing.new.draw { topic "a", to: klass }
      assert_includes config_error { other.groups(config) }, text
    end
  end
end
