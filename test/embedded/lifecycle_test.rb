# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/footprint"

# Producers come and go: what they took of the system is given back, closed or not. (The real broker's twin, with 1,000
# producers: test/integration/lifecycle.rb.)
class LifecycleTest < Minitest::Test
  include EmbeddedApp

  def test_closed_producers_leave_nothing_behind
    name = topic
    config = app.config
    use = lambda do |count|
      count.times do
        producer = Pelton::Producer.new(config)
        producer.produce_sync(topic: name, payload: "x" * 100)
        5.times { producer.produce_async(topic: name, payload: "x" * 100) }
        assert_equal 0, producer.close
      end
    end
    use.(20) # allocators, caches and lasting threads come to their size
    before = Footprint.new
    use.(60)
    after = nil
    eventually(10, "as before (#{before})") { (after = Footprint.new).within?(before, 500) }
  end

  def test_unclosed_producer_delivers_and_warns
    name = topic
    app = app(kafka: { "linger.ms" => 2000 })
    forget(app) { |producer| 10.times { producer.produce_async(topic: name, payload: "x") } }
    assert_equal [{ client: @forgotten, undelivered: 0 }], told("producer.unclosed")
    assert_equal 10, app.producer.produce_sync(topic: name, payload: "x").offset, "messages that the forgotten one sent"
  end

  def test_forgotten_producer_reports_undeliverable_messages
    app = app(kafka: { "message.timeout.ms" => 500 })
    @cluster.broker_down
    forget(app) { |producer| 3.times { producer.produce_async(topic: "t", payload: "x") } }
    assert_equal 1, told("producer.unclosed").size
    assert_equal 3, happened("message.delivery_failed").size
  end

  def test_forgotten_producer_reports_messages_left_in_its_buffer
    forget(app) { |producer| 3.times { producer.buffer(topic: "t", payload: "x") } }
    assert_equal [{ client: @forgotten, undelivered: 3 }], told("producer.unclosed")
  end

  # Neither the collector nor the thread that allocates waits for a producer's end, which takes 30 s without a broker.
  def test_collecting_unclosed_producers_does_not_block
    app = app(kafka: { "message.timeout.ms" => 300_000, "reconnect.backoff.max.ms" => 200, "log_level" => 0 })
    @cluster.broker_down
    made = 0
    assert_quick(20, "the collection") do
      12.times { forget(app, collect: false) { |producer| producer.produce_async(topic: "t", payload: "x") } }
      made += 12
      GC.stress = true
      Array.new(10) { "garbage" }
      GC.stress = false
      5.times { GC.start }
    end
    @cluster.broker_up
    # Some may be kept by what looks like a reference on a stack.
    eventually(20, "the end of most") { GC.start || happened("producer.unclosed").size >= made * 3 / 4 }
  ensure
    GC.stress = false
  end

  private

  # A producer that is used and dropped; on a stack of its own, which nobody reads any more.
  def forget(app, collect: true)
    Thread.new do
      producer = Pelton::Producer.new(app.config, bus: app.notifications)
      @forgotten = producer.name
      yield producer
      nil
    end.join
    3.times { GC.start } if collect
  end

  def told(name)
    eventually(20, name) { GC.start || happened(name).any? }
    happened(name)
  end
end
