# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"

# Nobody said where Kafka is: the first use says so at once, and how to mend it. It was 25 s of silence.
class NoServersTest < Minitest::Test
  class Idle < Pelton::Consumer
    def consume = nil
  end

  def setup
    @apps = []
  end

  def teardown
    @apps.each { |app| app.close(timeout: 1) }
    super
  end

  def app(kafka = {})
    @apps << Pelton::App.new.configure do |config|
      config.kafka = kafka
      config.group_id = "g"
    end
    @apps.last
  end

  # The message as a user meets it.
  def assert_told(what, &use)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    error = assert_raises(Pelton::ConfigError, what, &use)
    assert_equal "bootstrap.servers", error.key, what
    assert_equal "bootstrap.servers: not set, so there is no Kafka to connect to. Set it: " \
                 'config.kafka = { "bootstrap.servers" => "localhost:9092" }', error.message, what
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - started, :<, 5 * Guard::PATIENCE, what
  end

  def test_start_raises
    assert_told("start") { app.tap { |app| app.routes { topic "t", to: Idle } }.start }
  end

  def test_start_of_a_group_with_options_of_its_own_raises
    assert_told("start") do
      app.tap { |app| app.routes { group("h", kafka: { "client.id" => "h" }) { topic "t", to: Idle } } }.start
    end
  end

  def test_the_default_app_raises
    assert_told("Pelton.each") { Pelton.each("t").first }
    assert_told("Pelton.admin") { Pelton.admin.topics }
    assert_told("Pelton.producer") { Pelton.producer.produce_async(topic: "t", payload: "x") }
  end

  def test_each_raises
    assert_told("each") { app.each("t").first }
    assert_told("each with follow") { app.each("t", follow: true) { flunk } }
  end

  def test_every_question_of_admin_raises
    admin = app.admin
    assert_told("topics") { admin.topics }
    assert_told("create_topic") { admin.create_topic("t", partitions: 1) }
    assert_told("lag") { admin.lag("g") }
  end

  def test_a_subscription_raises
    assert_told("Subscription.new") { Pelton::Subscription.new(app.config, group_id: "g") }
  end

  def test_a_producer_raises_however_it_sends
    producer = app.producer
    assert_told("produce_sync") { producer.produce_sync(topic: "t", payload: "x") }
    assert_told("produce_async") { producer.produce_async(topic: "t", payload: "x") }
    assert_told("produce_many_sync") { producer.produce_many_sync([{ topic: "t", payload: "x" }]) }
    assert_told("a variant") { producer.with(acks: 1).produce_async(topic: "t", payload: "x") }
    assert_told("partition_count") { producer.partition_count("t") }
    assert_told("transaction") { app("transactional.id" => "x").producer.transaction { flunk } }
  end

  def test_a_producer_pool_raises_and_gets_its_producer_back
    pool = app.producer_pool(size: 1)
    2.times do
      assert_told("pool") { pool.with { |producer| producer.produce_async(topic: "t", payload: "x") } }
    end
  end

  def test_an_empty_list_is_not_set
    ["", "  ", ",", " , ,"].each do |servers|
      assert_told(servers.inspect) { app("bootstrap.servers" => servers).admin.topics }
    end
  end

  # ENV["KAFKA"] where it is not set.
  def test_nil_is_refused_where_it_is_set
    error = assert_raises(Pelton::ConfigError) { app("bootstrap.servers" => nil).admin.topics }
    words = /\Abootstrap\.servers: is nil \(an environment variable that is not set\?\), expected a String/
    assert_match(words, error.message)
  end

  def test_a_producer_that_is_not_used_needs_none
    started = app
    assert started.producer.flush
    assert_equal 0, started.close
  end
end
