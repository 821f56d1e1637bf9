# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"

# `inspect` of public objects: one line that helps in a console or a log, without payloads and secrets. It neither waits
# nor raises, on any thread, after a close and in a forked child.
class InspectTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  PRIVATE = "card 4111"

  def setup
    super
    @topic = topic
    seen = @seen
    reader = consumer { seen << [self, messages, messages.first] }
    @app = app(kafka: { "sasl.password" => PRIVATE }) { topic(/^topic-/, to: reader) }
  end

  def subscription = @subscription ||= Pelton::Subscription.new(@app.config, group_id: "other", bus: @app.notifications)

  # One object of each kind, all in use.
  def objects
    deliveries = [@app.producer.produce_async(topic: @topic, payload: PRIVATE, key: PRIVATE, label: PRIVATE).wait,
                  @app.producer.produce_many_async(Array.new(2) { { topic: @topic, payload: PRIVATE } }).wait]
    server = @app.start
    [@app, @app.config, @app.routes, @app.producer, @app.producer.with(acks: 1), @app.admin, server, @cluster,
     subscription, @app.producer_pool(size: 1), Pelton::Registry.new("http://user:#{PRIVATE.tr(" ", "-")}@localhost:1"),
     @app.each(@topic, group: "script"), *deliveries, *take(1).first]
  end

  def check(objects, where)
    objects.each do |object|
      text = object.inspect
      assert_match(/\A#<.+>\z/, text, "#{object.class} #{where}")
      refute_match(/4111|\n/, text, "#{object.class} #{where}")
    end
  end

  def test_inspect_shows_no_payload_key_label_or_password_and_works_everywhere
    all = objects
    check(all, "in use")
    Pelton::Threads.join([Pelton::Threads.start("test") { check(all, "on another thread") }])
    assert_equal("fine\n", in_child { check(all, "in a child") && "fine" })
    subscription.close(5)
    @app.close(timeout: 10)
    @cluster.close
    check(all, "after close")
  ensure
    @subscription&.close(5)
  end

  def test_inspect_of_what_is_in_use_and_closed
    all = objects
    shown = ->(kind) { all.find { |object| object.is_a?(kind) }.inspect.sub(/#\d+/, "#N") }
    assert_equal "#<Pelton::App pelton, #{@cluster.bootstrap_servers}, server running>", shown[Pelton::App]
    assert_equal "#<Pelton::Server running, groups group-0, 5 workers>", shown[Pelton::Server]
    assert_equal "#<Pelton::Producer pelton.producer#N open>", shown[Pelton::Producer]
    assert_equal "#<Pelton::Subscription pelton.subscription#N group other>", shown[Pelton::Subscription]
    assert_equal "#<Pelton::EmbeddedCluster #{@cluster.bootstrap_servers}>", shown[Pelton::EmbeddedCluster]
    assert_equal "#<Pelton::Registry http://localhost:1>", shown[Pelton::Registry]
    assert_equal "#<Enumerator: #<Pelton::Iterator #{@topic} group script>:each>", shown[Enumerator]
    assert_match(%r{\A#<Pelton::Message #{@topic}/0 offset 0, 9 bytes>\z}, shown[Pelton::Message])
    assert_match(%r{\A#<Pelton::Batch #{@topic}/0 [123] messages?, offsets 0\.\.[012], \d+ bytes>\z},
                 shown[Pelton::Batch])
    subscription.close(5)
    @app.close(timeout: 10)
    kinds = [Pelton::Subscription, Pelton::Producer, Pelton::Admin, Pelton::App]
    assert_equal(%w[closed closed closed stopped], kinds.map { |kind| shown[kind][/\w+(?=>)/] })
  ensure
    @subscription&.close(5)
  end

  def test_inspect_of_deliveries_that_are_pending_and_done
    producer = @app.producer
    slow = producer.with(queue_timeout: 1)
    delivery = slow.produce_async(topic: @topic, payload: PRIVATE)
    assert_includes ["#<Pelton::Delivery #{@topic} pending>", "#<Pelton::Delivery #{@topic}/0 offset 0>"],
                    delivery.inspect
    assert_equal "#<Pelton::Delivery #{@topic}/0 offset 0>", delivery.wait.inspect
    many = producer.produce_many_async(Array.new(2) { { topic: @topic, payload: PRIVATE } }).wait
    assert_equal "#<Pelton::Delivery 2 messages, the first to #{@topic}/0 offset 1>", many.inspect
    labelled = producer.produce_async(topic: @topic, payload: PRIVATE, label: PRIVATE).wait
    assert_equal "#<Pelton::LabelledDelivery #{@topic}/0 offset 3>", labelled.inspect
    assert_equal "#<Pelton::Delivery 0 messages>", producer.produce_many_async([]).inspect
  end

  # It said "connected".
  def test_a_producer_with_a_dead_broker_shows_why_nothing_is_delivered
    dead = Pelton::App.new
    dead.configure { |config| (config.kafka = { "bootstrap.servers" => "127.0.0.1:1" }) && config.logger = nil }
    delivery = dead.producer.produce_async(topic: "orders", payload: PRIVATE)
    eventually(20) { dead.producer.inspect.include?("last error: ") }
    assert_match(/\A#<Pelton::Producer \S+ open, 1 pending, last error: .*_(TRANSPORT|ALL_BROKERS_DOWN), -\d+\)>\z/,
                 dead.producer.inspect)
    assert_equal ["#<Pelton::Delivery orders pending>", :open], [delivery.inspect, dead.producer.state]
    dead.close(timeout: 0)
    assert_match(/\A#<Pelton::Delivery orders failed: .*_PURGE_QUEUE/, delivery.inspect)
  end

  def test_inspect_of_a_transaction_and_a_health_endpoint_shows_neither_producer_nor_server
    shop = app(kafka: { "transactional.id" => "shop" })
    shop.config.liveness.port = 0
    running, kept = shop.producer.transaction { |tx| [tx.inspect, tx] }
    assert_equal ["#<Pelton::Producer::Transaction of #{shop.producer.name}>", running.sub(">", " ended>")],
                 [running, kept.inspect]
    liveness = Pelton::Liveness.new(shop.config.liveness, Object.new, shop.notifications).start
    assert_equal "#<Pelton::Liveness port #{liveness.port}>", liveness.inspect
    liveness.close
    assert_equal "#<Pelton::Liveness closed>", liveness.inspect
  end
end
