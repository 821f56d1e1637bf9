# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"

# What went wrong with other producers, each under its symptom.
class ProducerSymptomsTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  OUT_OF_ORDER = 45
  PRODUCE = 0

  # The last flush of a close fails with a fatal error. Replacing the client would take the locks that the close
  # holds, which raised elsewhere.
  def test_a_fatal_error_in_the_last_flush_of_a_close
    name = topic
    app = app(kafka: { "enable.idempotence" => true, "linger.ms" => 60_000 }, reload_idempotent: true,
              reload_backoff: 0.05)
    app.producer.produce_sync(topic: name, payload: "x", partition: 0)
    # Before the messages: on a slow machine, some may still be sent without the linger, as the one above was. Then each
    # may be a request of its own, and a fourth one got through.
    @cluster.push_errors(PRODUCE, [OUT_OF_ORDER] * 20)
    app.producer.produce_many_async(Array.new(20) { { topic: name, payload: "x", partition: 0 } })
    closing = Pelton::Threads.start("test") { app.producer.close(timeout: 10) }
    assert closing.join(25 * Guard::PATIENCE), "the close hangs"
    assert_kind_of Integer, closing.value
    eventually(20, "an event for each") { happened("message.delivery_failed").size >= 20 }
    assert_equal [OUT_OF_ORDER, 20], [errors.find(&:fatal?)&.code, happened("message.delivery_failed").size]
    assert_predicate app.producer, :closed?
    assert_raises(Pelton::ClosedError) { app.producer.produce_async(topic: name, payload: "x") }
  end

  # A pool that closes delivers its queued messages, also when Kafka is slow. Elsewhere they were purged.
  def test_a_pool_that_closes_delivers_first
    name = topic(3)
    pool = app.producer_pool(size: 3)
    @cluster.round_trip_time = 300
    deliveries = Array.new(3) do |partition|
      pool.with { |producer| producer.produce_async(topic: name, payload: "x", partition: partition) }
    end
    assert_equal 0, pool.close(timeout: 30)
    assert_equal [true] * 3, deliveries.map(&:delivered?)
    assert_empty happened("message.delivery_failed")
  end

  # A variant inside another variant's transaction changes nothing of the outer one.
  def test_variants_within_variants_and_transactions
    name = topic
    app = app(kafka: { "transactional.id" => "nested" })
    outer = app.producer.with(timeout: 20)
    app.producer.transaction do
      outer.produce_async(topic: name, payload: "1", partition: 0)
      inner = outer.with(queue_timeout: 1)
      inner.produce_async(topic: name, payload: "2", partition: 0)
      assert_equal [{ timeout: 20 }, { timeout: 20, queue_timeout: 1 }], [outer.options, inner.options]
      app.producer.transaction { inner.with(timeout: 5).produce_async(topic: name, payload: "3", partition: 0) }
      outer.produce_async(topic: name, payload: "4", partition: 0)
    end
    assert_equal 1, happened("transaction.committed").size, "all of it was one transaction"
    assert_equal %w[1 2 3 4], app.each(name).map(&:raw_payload)
  end

  # A forked child publishes its own clients' logs and errors, on a thread of its own. Elsewhere they piled up in a
  # queue.
  def test_a_child_hears_its_own_logs
    name = topic
    app = app(kafka: { "debug" => "broker" })
    app.producer.produce_sync(topic: name, payload: "x")
    eventually(20) { !happened("kafka.log").empty? }
    said = in_child(limit: 30) do
      @events.clear
      @happened = nil
      app.producer.produce_sync(topic: name, payload: "y", timeout: 20)
      eventually(20) { !happened("kafka.log").empty? }
      app.close
      eventually { Thread.list.none? { |thread| thread.name == "pelton.events" } }
      happened("kafka.log").map { |event| event[:client] }.uniq == [app.producer.name]
    end
    assert_equal "true\n", said
    @events.clear
    app.producer.produce_sync(topic: name, payload: "z")
    eventually(20) { !happened("kafka.log").empty? }
    assert_equal [app.producer.name], happened("kafka.log").map { |event| event[:client] }.uniq
  end
end
