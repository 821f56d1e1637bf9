# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "support/fake_cluster"
require "pelton/app"
require "pelton/embedded_cluster"
require "pelton/topics"

# The topics that a server creates when it starts, and when it does so.
class MissingTopicsTest < Minitest::Test
  class Orders < Pelton::Consumer
    def consume = nil
  end

  VARIABLES = %w[PELTON_ENV RAILS_ENV RACK_ENV].freeze

  def setup
    @before = ENV.to_h.slice(*VARIABLES)
    VARIABLES.each { |name| ENV.delete(name) }
    @cluster = Fakes::AdminCluster.new({ "there" => {} })
    @app = Pelton::App.new(native: @cluster.native)
    @app.configure do |config|
      config.group_id = "billing"
      config.kafka = { "bootstrap.servers" => "main:9092" }
      config.logger = nil
    end
    @errors = []
    @app.subscribe("error.occurred") { |event| @errors << event.payload }
  end

  def teardown
    VARIABLES.each { |name| ENV[name] = @before[name] }
  end

  def route(*name, &block) = @app.routes { topic(*name, to: Orders, &block) }

  def create(routed: nil)
    groups = @app.routes.groups(@app.config)
    Pelton::MissingTopics.new(@app.topics, groups, routed: routed, bus: @app.notifications).create
    @cluster.changes.to_h { |_, (name, *rest)| [name, rest] }
  end

  def test_declared_topics_are_created_as_declared_and_routed_ones_with_the_brokers_defaults
    route("there")
    route("read")
    route("orders") do
      creates partitions: 3, config: { "retention.ms" => 5 }
      dead_letters "dead"
    end
    @app.topics do
      topic "free", replication: 2
      deleted "old"
    end
    assert_equal({ "read" => [-1, -1, []], "orders" => [3, -1, [["retention.ms", "5"]]], "free" => [-1, 2, []],
                   "dead" => [3, -1, [["cleanup.policy", "delete"], ["retention.ms", "2592000000"]]] }, create)
    assert_empty @errors
  end

  def test_a_retry_topic_gets_the_partitions_and_replicas_that_its_main_topic_has_in_the_cluster
    @cluster.topics["wide"] = { partitions: 4, replication: 2, config: {} }
    route("wide") do
      creates partitions: 9
      retry_in 5
      dead_letters "wide.dead"
    end
    @app.topics { dead_letters partitions: 1 }
    assert_equal({ "wide.retry.5" => [4, 2], "wide.dead" => [1, 2] }, create.transform_values { |rest| rest.first(2) },
                 "partitions and replicas")
    assert_empty @errors
  end

  def test_a_server_of_some_groups_creates_only_their_topics
    route("orders")
    @app.topics { topic "free" }
    assert_equal ["orders"], create(routed: ["billing"]).keys
  end

  def test_a_refusal_is_reported_and_the_other_topics_are_created
    @cluster.refuse(:create_topic, "a", 29)
    @cluster.refuse(:create_topic, "b", 36)
    %w[a b c].each { |name| route(name) }
    assert_equal ["c"], create.keys
    assert_equal [[:TOPIC_AUTHORIZATION_FAILED, "a", "create_topics"]],
                 @errors.map { |error| [error[:error].name, error[:topic], error[:source]] }
  end

  def test_a_cluster_without_an_answer_is_asked_once
    @cluster.refuse(:create_topic, nil, -185)
    %w[a b c].each { |name| route(name) }
    create
    assert_equal ["a"], @errors.map { |error| error[:topic] }
    @cluster.refuse(:names, nil, -185)
    create
    assert_equal ["a", nil], @errors.map { |error| error[:topic] }
  end

  def test_the_environment_decides_unless_the_setting_does
    assert_equal false, @app.config.create_topics?
    { "RACK_ENV" => "development", "RAILS_ENV" => "production", "PELTON_ENV" => "test" }.each do |name, value|
      ENV[name] = value
      assert_equal value != "production", @app.config.create_topics?, ENV.to_h.slice(*VARIABLES).inspect
    end
    ENV["PELTON_ENV"] = ""
    assert_equal false, @app.config.create_topics?, "an empty variable is not set"
    @app.config.create_topics = true
    assert_equal true, @app.config.create_topics?
    ENV["PELTON_ENV"] = "test"
    @app.config.create_topics = false
    assert_equal false, @app.config.create_topics?
  end

  def test_the_environment_of_rails_counts_without_a_variable
    Object.const_set(:Rails, Module.new { def self.env = "development" })
    assert_equal true, @app.config.create_topics?
    ENV["PELTON_ENV"] = "production"
    assert_equal false, @app.config.create_topics?
  ensure
    Object.send(:remove_const, :Rails)
  end

  def test_a_cluster_in_this_process_is_found_by_its_address_while_it_is_open
    native = Module.new { const_set(:EmbeddedCluster, Fakes::EmbeddedCluster) }
    cluster = Pelton::EmbeddedCluster.new(native: native)
    assert_same cluster, Pelton::EmbeddedCluster.at("127.0.0.1:9")
    assert_nil Pelton::EmbeddedCluster.at("127.0.0.1:10")
    cluster.close
    assert_nil Pelton::EmbeddedCluster.at("127.0.0.1:9")
  end
end
