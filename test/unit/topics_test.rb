# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "pelton/app"
require "pelton/topics"
begin
  require "active_support"
  require "active_support/core_ext/numeric/time"
rescue LoadError
  nil # not of every Ruby: what needs it says so
end

# Declarations of topics: their values, how several of a topic agree, what routes add, and to which cluster they belong.
class TopicsTest < Minitest::Test
  class Orders < Pelton::Consumer
    def consume = nil
  end

  # As ActiveSupport's 7.days: it says it is an Integer.
  Duration = Struct.new(:seconds) do
    def in_seconds = seconds.to_i
    def to_f = seconds.to_f
    def is_a?(kind) = kind == Integer || super
    def inspect = "#{seconds} seconds"
  end

  def setup
    @app = Pelton::App.new
    @app.configure do |config|
      config.group_id = "billing"
      config.kafka = { "bootstrap.servers" => "main:9092" }
    end
  end

  def declare(&block) = @app.topics(&block)
  def route(*name, &block) = @app.routes { topic(*name, to: Orders, &block) }
  def declared = @app.topics.clusters.to_h { |cluster| [cluster.servers, cluster.topics] }
  def topics = declared.fetch("main:9092")

  def refused(pattern, &block)
    error = assert_raises(Pelton::ConfigError, &block)
    assert_match pattern, error.message
    error
  end

  def config(name, value)
    topic = "t#{@count = @count.to_i + 1}"
    declare { topic(topic, config: { name => value }) }
    topics.fetch(topic).config.fetch(name)
  end

  def test_a_declaration_has_what_was_typed
    declare do
      topic "orders", partitions: 12, replication: 3, config: { "retention.ms" => 1, "cleanup.policy": :compact }
    end
    found = topics.fetch("orders")
    assert_equal [12, 3], [found.partitions, found.replication]
    assert_equal({ "retention.ms" => "1", "cleanup.policy" => "compact" }, found.config)
    assert_match(%r{test/unit/topics_test.rb:\d+\z}, found.location)
  end

  def test_an_integer_is_milliseconds_and_a_duration_is_a_duration
    assert_equal "7", config("retention.ms", 7)
    assert_equal "604800000", config("retention.ms", Duration.new(604_800))
    assert_equal "1500", config("segment.ms", Duration.new(1.5))
    refused(/segment.bytes = .*is a duration, but only configs that end with .ms/) do
      config("segment.bytes", Duration.new(5))
    end
    refused(/partitions = /) { declare { topic "a", partitions: Duration.new(5) } }
  end

  def test_durations_of_active_support
    skip "no activesupport for Ruby #{RUBY_VERSION}" unless defined?(ActiveSupport::Duration)

    assert_equal "604800000", config("retention.ms", 7.days)
    assert_equal "1500", config("segment.ms", 1.5.seconds)
    refused(/partitions = 7 days: expected an Integer/) { declare { topic "a", partitions: 7.days } }
    refused(/segment.bytes = .*is a duration/) { config("segment.bytes", 7.days) }
  end

  def test_values_become_what_kafka_stores
    assert_equal "86400000", config("retention.ms", 86_400_000.0)
    assert_equal "86400000", config("retention.ms", "86400000")
    assert_equal "0.5", config("min.cleanable.dirty.ratio", 0.5)
    assert_equal "true", config("preallocate", true)
    assert_equal "compact,delete", config("cleanup.policy", %w[compact delete])
    assert_nil config("retention.ms", nil)
    assert_equal "x", config("vendor.special", :x)
  end

  def test_values_that_kafka_would_refuse_are_refused_at_the_declaration
    [["retention.ms", -2], ["retention.ms", "1d"], ["retention.ms", 1.5], ["retention.ms", 2**63], ["segment.bytes", 1],
     ["min.cleanable.dirty.ratio", 2], ["compression.type", "bzip2"], ["preallocate", "yes"], ["retention.ms", []],
     ["cleanup.policy", "compakt"], ["cleanup.policy", [[]]], ["min.insync.replicas", 0],
     ["vendor.special", [1]], ["retention.ms", true]].each do |name, value|
      refused(/topic t\d+: #{name} = .*expected/) { config(name, value) }
    end
  end

  def test_a_config_name_that_is_almost_right_gets_a_suggestion
    { "retention_ms" => "retention.ms", "retension.ms" => "retention.ms",
      "min.in.sync.replicas" => "min.insync.replicas", :retentionMs => "retention.ms",
      "cleanup.polcy" => "cleanup.policy" }.each do |typed, meant|
      refused(/did you mean #{meant}\?/) { declare { topic "a", config: { typed => 1 } } }
    end
  end

  def test_options_of_other_tools_get_our_word
    refused(/did you mean replication\?/) { declare { topic "a", replication_factor: 3 } }
    refused(/did you mean replication\?/) { declare { topic "a", replicas: 3 } }
    refused(/did you mean partitions\?/) { declare { topic "a", partition: 3 } }
    refused(/config: \{ "retention.ms" => … \}/) { declare { topic "a", "retention.ms": 3 } }
    refused(/config: \{ "retention.ms" => … \}/) { declare { topic "a", retention: 3 } }
    refused(/did you mean topic\?/) { declare { topik "a" } }
    refused(/partitions = 2147483648/) { declare { topic "a", partitions: 2**31 } }
    refused(/replication = 32768/) { declare { topic "a", replication: 2**15 } }
    refused(/partitions = 100001: expected an Integer, 1 to 100000/) { declare { topic "a", partitions: 100_001 } }
    refused(/topic = "\.\.": expected a String of .* neither/) { declare { topic ".." } }
    refused(/partitions = 0: expected an Integer, 1 to 100000/) { declare { topic "a", partitions: 0 } }
    refused(/replication = "3"/) { declare { topic "a", replication: "3" } }
    refused(/config = 7: expected Kafka's names/) { declare { topic "a", config: 7 } }
    refused(/topic = "a b"/) { declare { topic "a b" } }
    refused(/needs the name of a topic/) { declare { deleted } }
  end

  def test_a_route_without_creates_gets_the_right_word
    refused(/expected an Array or Range.*use creates partitions: 6/) { route("a") { partitions 6 } }
    refused(/num_partitions: .*use creates partitions: 12/) { route("a") { num_partitions 6 } }
    refused(/use creates replication: 3/) { route("a") { replication_factor 3 } }
    refused(/use creates config: \{ "retention.ms"/) { route("a") { retention 3 } }
    refused(/topic \^a: creates: works only for topics that are routed by name/) do
      route(/^a/) { creates partitions: 3 }
    end
  end

  def test_min_insync_replicas_cannot_exceed_the_replication
    refused(/min.insync.replicas = "3": is more than its replication of 2 .*acks=all/) do
      declare { topic "a", replication: 2, config: { "min.insync.replicas" => 3 } }
    end
    declare do
      topic "b", replication: 2
      topic "b", config: { "min.insync.replicas" => 3 }
    end
    refused(/min.insync.replicas = "3": is more than .*topics_test.rb:#{__LINE__ - 2}\)/) { topics }
  end

  def test_several_declarations_of_a_topic_are_merged
    route("orders") { creates partitions: 6, config: { "retention.ms" => 5, "cleanup.policy" => "delete,compact" } }
    declare do
      topic "orders", replication: 3, config: { "segment.ms" => 7, "cleanup.policy" => "compact, delete" }
      topic "orders", partitions: 6
    end
    found = topics.fetch("orders")
    assert_equal [6, 3, %w[cleanup.policy retention.ms segment.ms]],
                 [found.partitions, found.replication, found.config.keys.sort]
  end

  def test_different_values_name_the_lines_that_declare_them
    declare do
      topic "orders", partitions: 6
      topic "orders", replication: 2, config: { "min.insync.replicas" => 1 }
      topic "orders", replication: 3
    end
    line = __LINE__ - 3
    refused(/topic orders: replication: 2 at .*_test.rb:#{line}, but 3 at .*_test.rb:#{line + 1}/) { topics }
  end

  def test_different_declarations_of_a_topic_name_both_places
    route("orders") { creates partitions: 6 }
    declare { topic "orders", partitions: 7 }
    line = __LINE__
    refused(/topic orders: partitions: 6 at .*topics_test.rb:#{line - 2}, but 7 at .*topics_test.rb:#{line - 1}/) do
      topics
    end
  end

  def test_a_config_with_two_values_names_both_places
    declare do
      topic "a", config: { "retention.ms" => 1 }
      topic "a", config: { "retention.ms" => nil }
    end
    refused(/topic a: retention.ms: 1 at .*, but the broker's default at/) { topics }
  end

  def test_defaults_hold_for_the_topics_after_them
    declare do
      topic "first"
      defaults partitions: 3, replication: 2, config: { "retention.ms" => 9, "segment.ms" => 1 }
      topic "second", partitions: 4, config: { "segment.ms" => 2 }
    end
    assert_nil topics.fetch("first").partitions
    second = topics.fetch("second")
    assert_equal [4, 2, { "retention.ms" => "9", "segment.ms" => "2" }],
                 [second.partitions, second.replication, second.config]
  end

  def test_creates_in_defaults_of_routes_is_added_to
    @app.routes do
      defaults { creates replication: 2, config: { "retention.ms" => 9 } }
      topic("a", to: Orders) { creates partitions: 3, config: { "segment.ms" => 1 } }
    end
    found = topics.fetch("a")
    assert_equal [3, 2, { "retention.ms" => "9", "segment.ms" => "1" }],
                 [found.partitions, found.replication, found.config]
  end

  def test_a_topic_that_is_only_read_is_not_declared
    route("orders")
    assert_empty topics
  end

  def test_an_inactive_route_declares_nothing
    route("orders") { creates partitions: 1 }
    route("off") do
      active false
      creates partitions: 1
    end
    assert_equal ["orders"], topics.keys
  end

  def test_retry_topics_and_dead_letters_follow_their_route
    route("orders") do
      creates partitions: 6, replication: 3, config: { "cleanup.policy" => "compact", "max.message.bytes" => 5_000_000 }
      retry_in 10, 0.5 + 60
      dead_letters "orders.dead"
    end
    assert_equal %w[orders orders.dead orders.retry.10 orders.retry.60.5], topics.keys.sort
    waiting = topics.fetch("orders.retry.60.5")
    assert_equal({ partitions: 6, replication: 3,
                   config: { "cleanup.policy" => "delete", "retention.ms" => ((7 * 86_400_000) + 60_500).to_s,
                             "max.message.bytes" => "5000000" } }, waiting.creation)
    assert_equal [nil, nil, {}], [waiting.partitions, waiting.replication, waiting.config], "only for the creation"
    assert_equal (30 * 86_400_000).to_s, topics.fetch("orders.dead").creation[:config]["retention.ms"]
  end

  def test_a_dead_letter_topic_with_fewer_replicas_than_its_main_topic_accepts_messages
    route("orders") do
      creates replication: 3, config: { "min.insync.replicas" => 2 }
      dead_letters "dead"
      retry_in 1
    end
    declare { dead_letters replication: 1 }
    assert_nil topics["dead"].creation[:config]["min.insync.replicas"]
    waiting = topics["orders.retry.1"].creation
    assert_equal [3, "2"], [waiting[:replication], waiting[:config]["min.insync.replicas"]]
  end

  def test_retry_topics_and_dead_letters_have_their_own_defaults
    route("orders") do
      retry_in 10
      dead_letters "orders.dead"
    end
    declare do
      retry_topics partitions: 2
      dead_letters partitions: 1, config: { "retention.ms" => 5 }
    end
    assert_equal [2, {}], [topics["orders.retry.10"].partitions, topics["orders.retry.10"].config]
    assert_equal [1, { "retention.ms" => "5" }], [topics["orders.dead"].partitions, topics["orders.dead"].config]
    refused(/dead_letters = .*differs from/) { declare { dead_letters partitions: 2 } }
  end

  def test_a_dead_letter_topic_that_is_declared_by_name_keeps_its_declaration
    route("orders") do
      creates partitions: 6
      dead_letters "dead"
    end
    route("payments") do
      creates partitions: 9
      dead_letters "dead"
    end
    assert_equal 9, topics.fetch("dead").creation[:partitions], "the largest of its routes"
    declare do
      topic "dead", partitions: 1
      dead_letters config: { "retention.ms" => 5 }
    end
    assert_equal({ partitions: 1, config: {} },
                 { partitions: topics["dead"].partitions, config: topics["dead"].config })
    assert_equal "5", topics["dead"].creation[:config]["retention.ms"]
  end

  def test_a_topic_belongs_to_the_cluster_of_its_route_or_to_the_one_given
    @app.routes do
      group("audit", kafka: { "bootstrap.servers" => "b:1, a:1", "sasl.password" => "x" }) { topic "log", to: Orders }
      group("more", kafka: { "bootstrap.servers" => "a:1,b:1" }) do
        topic("other", to: Orders) { creates partitions: 2 }
      end
      topic "orders", to: Orders
    end
    declare do
      topic "log", partitions: 1
      topic "free", partitions: 1
      topic "given", partitions: 1, kafka: { "bootstrap.servers" => "c:1" }
    end
    assert_equal({ "b:1, a:1" => %w[log other], "main:9092" => %w[free], "c:1" => %w[given] },
                 declared.transform_values { |found| found.keys.sort })
    refute_includes @app.topics.clusters.inspect, "password"
    refused(/topic x: kafka = .*expected librdkafka's options of another cluster/) { declare { topic "x", kafka: {} } }
  end

  def test_a_topic_that_is_routed_on_two_clusters_needs_one
    @app.routes do
      group("there", kafka: { "bootstrap.servers" => "there:1" }) { topic "log", to: Orders }
      group("here") { topic "log", to: Orders }
    end
    declare { topic "log", partitions: 1 }
    refused(/topic log: is routed on 2 clusters \(there:1; main:9092\), so .*topics_test.rb:\d+ must name one/) do
      topics
    end
  end

  def test_a_routed_topic_cannot_be_declared_as_deleted
    route("orders")
    declare { deleted "orders" }
    refused(/topic orders: is declared as deleted at .*, but routes use it/) { topics }
  end

  def test_a_topic_cannot_be_declared_and_deleted
    declare do
      topic "a"
      deleted "a"
    end
    refused(/topic a: declared at .*, but deleted at/) { topics }
  end

  def test_declarations_are_frozen_when_the_server_starts
    declare { topic "a" }
    @app.topics.freeze
    refused(/topics: are frozen/) { declare { topic "b" } }
  end

  def test_without_a_cluster_the_option_is_named
    @app.configure { |config| config.kafka = {} }
    declare { topic "a" }
    refused(/bootstrap.servers: is not set: set it in config.kafka/) { topics }
  end
end
