# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"
require "pelton/testing"
require "pelton/tracing"

# The middleware of an app, which its producers share, on the fake native side.
class MiddlewareTest < Minitest::Test
  include FakeTransactions

  TENANT = ->(message) { { **message, headers: { **message[:headers].to_h, "tenant" => "acme" } } }
  POOL = { "transactional.id" => "billing" }.freeze

  def tracer = Pelton::Tracing.new(exporter: [])

  def app
    @app ||= Pelton::App.new(native: @module).configure { |config| config.kafka = { "transactional.id" => "shop" } }
  end

  def teardown
    @app&.close(timeout: 5)
    super
  end

  # Headers of all messages of the app's clients.
  def headers = @native.producers.flat_map(&:messages).map(&:last)

  # Only app.producer had it, and no error said so: messages of transactions lost their header.
  def test_messages_of_a_pool_lost_the_headers_of_the_app_s_middleware
    pool = app.producer_pool(size: 2, kafka: POOL)
    app.producer.middleware.append(TENANT)
    app.producer.produce_async(topic: "a", payload: "1")
    app.producer.with(timeout: 1).produce_async(topic: "a", payload: "2")
    pool.transaction { |tx| tx.produce_async(topic: "a", payload: "3") }
    pool.with do |producer|
      Pelton::Threads.join([Pelton::Threads.start("test") { pool.with { |other| refute_same(producer, other) } }], 10)
      assert_same app.middleware, producer.middleware
    end
    assert_equal [{ "tenant" => "acme" }] * 3, headers
  end

  # Each call waits until the other one has begun.
  def test_threads_that_produce_at_the_same_time_call_it_at_the_same_time
    inside = Thread::Queue.new
    app.middleware.append(lambda { |message|
      inside << Thread.current
      eventually(20, "the other thread") { inside.size == 2 }
      message
    })
    threads = Array.new(2) { Thread.new { app.producer.produce_async(topic: "a", payload: "1") } }
    assert_equal 2, threads.map(&:value).size
    assert_empty threads - Array.new(2) { inside.pop }, "the callers' own threads"
  end

  def test_the_producers_that_a_server_opens_have_it
    app.middleware.append(TENANT)
    clients = Pelton::Clients.new(app.config.freeze, bus: @bus, native: @module, middleware: app.middleware)
    app.routes { group("g") { topic("a", to: Class.new(Pelton::Consumer) { def consume = nil }) } }
    producer = clients.producers(app.routes.groups(app.config).first).call(nil)
    producer.produce_async(topic: "a", payload: "1")
    producer.produce_copy(topic: "a", payload: "a copy, as it was")
    producer.close(timeout: 5)
    assert_equal [{ "tenant" => "acme" }, nil], headers
  end

  # `Pelton.producer` freezes the settings. So an initializer of Rails could not add any: config/pelton.rb comes later.
  def test_middleware_can_be_set_before_the_settings
    app.middleware.append(TENANT)
    app.config.tracer = tracer
    app.producer.produce_async(topic: "a", payload: "1")
    assert_equal %w[traceparent tenant], headers.first.keys, "the tracer is the first"
  end

  def test_a_new_producer_after_a_close_has_it
    app.middleware.append(TENANT)
    app.config.tracer = tracer
    app.producer.produce_async(topic: "a", payload: "1")
    app.reset!
    app.config.tracer = second = tracer
    2.times do
      app.producer_pool(size: 1, kafka: POOL).with { |producer| producer.produce_async(topic: "a", payload: "") }
    end
    assert_equal [%w[traceparent tenant]] * 3, headers.map(&:keys)
    assert_equal [second, TENANT], app.middleware.to_a
  end

  def test_the_buffered_producer_of_a_test_has_it
    app.middleware.append(TENANT)
    Pelton::Testing.buffer(app) do |producer|
      app.producer.produce_async(topic: "a", payload: "1")
      assert_equal [{ "tenant" => "acme" }], producer.messages.map(&:headers)
    end
  end

  def test_a_producer_of_its_own_has_a_list_of_its_own
    app.middleware.append(TENANT)
    other = Pelton::Producer.new(app.config, native: @module)
    other.middleware.append(->(message) { message })
    other.produce_async(topic: "a", payload: "1")
    other.close(timeout: 5)
    assert_equal [nil], headers
    assert_equal [TENANT], app.middleware.to_a
  end

  def test_a_copy_for_a_test_is_a_list_of_its_own
    app.middleware.append(TENANT)
    copy = app.middleware.dup
    copy.append(copy.remove(TENANT))
    copy.append(->(message) { message })
    assert_equal [[TENANT], 2], [app.middleware.to_a, copy.to_a.size]
  end
end
