# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# The events that surround calls, pauses, rebalances, transactions and sent messages, from real clients.
class EmbeddedEventsTest < Minitest::Test
  include EmbeddedApp

  def await(name, count = 1)
    eventually(20, -> { "#{name}: #{happened(name).size} of #{count}" }) { happened(name).size >= count }
    happened(name)
  end

  def test_calls_begin_and_end_and_workers_report_their_jobs
    name = topic
    reader = consumer { messages.size }
    reader.class_eval do
      def assigned = nil
      def shutdown = raise("no end")
    end
    app = app(kafka: ONE_BATCH) { topic(name, to: reader) }
    produce(app, name, %w[a b])
    app.start
    consumed = await("consumer.consumed").first
    begun = await("consumer.consuming").first
    assert_equal [name, 0, 0, 2, 1], begun.values_at(:topic, :partition, :offset, :messages, :attempt)
    assert_equal [2, nil], consumed.values_at(:messages, :error)
    assigned = await("consumer.assigned").first
    assert_nil assigned[:error]
    assert_kind_of Float, assigned[:seconds]
    assert app.stop
    assert_equal ["no end"], await("consumer.shut_down").map { |payload| payload[:error].message }
    jobs = await("job.finished", 3)
    assert_equal %i[assigned consume shutdown], (jobs.map { |job| job[:kind] })
    jobs.each do |job|
      assert_operator job[:waited], :>=, 0
      assert_operator job[:seconds], :>=, 0
    end
  end

  def test_ticks_and_ends_of_a_partition_have_their_events
    name = topic
    reader = consumer { nil }
    reader.class_eval do
      def tick = nil
      def reached_end = raise("at the end")
    end
    app = app(group: "g") { topic(name, to: reader) { tick_every 0.05 } }
    app.start
    ticked = await("consumer.ticked", 2).last
    ended = await("consumer.reached_end").first
    assert app.stop
    [ticked, ended].each do |payload|
      assert_equal ["g", name, 0], payload.values_at(:group, :topic, :partition)
      assert_operator payload[:seconds], :>=, 0
    end
    assert_equal [nil, "at the end"], [ticked[:error], ended[:error].message]
  end

  def test_a_rebalance_a_pause_and_a_seek
    name = topic(2)
    reader = consumer do
      mark_as_consumed(messages.first)
      seek(0) if messages.first.raw_payload == "b"
      pause(messages.first.raw_payload == "a" ? 0.01 : nil)
    end
    app = app { topic(name, to: reader) { max_messages 1 } }
    produce(app, name, %w[a b])
    app.start
    finished = await("rebalance.finished").first
    assert_equal [2, 2], finished.values_at(:assigned, :partitions)
    started = happened("rebalance.started").first
    assert_equal [0, false], started.values_at(:revoked, :lost)
    assert_equal [0.01, nil], (await("partition.paused", 2).map { |event| event[:seconds] })
    assert_equal :time, await("partition.resumed").first[:reason]
    assert_equal [0], (await("partition.sought").map { |event| event[:target] })
    assert app.stop
  end

  def test_a_transaction_that_starts
    name = topic
    app = app(kafka: { "transactional.id" => "events" })
    order = Thread::Queue.new
    app.subscribe(/\Atransaction\./) { |event| order << event.name }
    app.producer.transaction { |tx| tx.produce_async(topic: name, payload: "x") }
    app.producer.transaction { raise Pelton::AbortTransaction }
    assert_equal %w[transaction.started transaction.committed transaction.started transaction.aborted], take(4, order)
  end

  def test_events_of_the_default_app
    seen = []
    Pelton.define_event("orders.counted", count: "number of orders")
    named = Pelton.subscribe("orders.counted") { |event| seen << [:named, event[:count]] }
    matching = Pelton.subscribe(/\Aorders\./) { |event| seen << [:matching, event[:count]] }
    all = Pelton.subscribe(:all) { |event| seen << [:all, event[:count]] if event.name == "orders.counted" }
    Pelton.publish("orders.counted", count: 1)
    Pelton.unsubscribe(matching)
    Pelton.publish("orders.counted", count: 2)
    assert_equal [[:named, 1], [:matching, 1], [:all, 1], [:named, 2], [:all, 2]], seen
  ensure
    [named, all].compact.each { |subscriber| Pelton.unsubscribe(subscriber) }
  end

  def test_produced_messages_are_counted_by_call_and_topic
    name = topic
    other = topic
    produced = Thread::Queue.new
    app = app()
    app.subscribe("message.produced") { |event| produced << event.payload.values_at(:topic, :count, :bytes) }
    app.producer.produce_sync(topic: name, payload: "123", label: 7)
    app.producer.produce_async(topic: name, payload: nil, key: "k").wait(timeout: 20)
    app.producer.produce_many_sync([{ topic: name, payload: "1" }, { topic: other, payload: "22" },
                                    { topic: name, payload: "333" }], timeout: 20)
    assert_raises(Pelton::InvalidMessageError) { app.producer.produce_async(topic: name, payload: 7) }
    assert_equal [[name, 1, 3], [name, 1, 0], [name, 2, 4], [other, 1, 2]], take(4, produced)
    # Batches with labels or partition keys were counted twice.
    app.producer.produce_many_sync([{ topic: name, payload: "4444", label: 1 }], timeout: 20)
    app.producer.produce_many_sync([{ topic: name, payload: "55555", partition_key: "k" }], timeout: 20)
    app.producer.buffer(topic: name, payload: "666666").buffer(topic: name, payload: "").flush_buffer_sync(timeout: 20)
    assert_equal [[name, 1, 4], [name, 1, 5], [name, 2, 6]], take(3, produced)
    assert_predicate produced, :empty?
    error = assert_raises(Pelton::ConfigError) { app.tap(&:close).subscribe("message.acknowledged") { nil } }
    assert_includes error.message, "before the first producer opens"
  end

  def test_on_error_gets_each_attempt_once_with_its_place
    name = topic
    reader = consumer { raise ArgumentError, "no total" if attempt < 3 }
    failures = Thread::Queue.new
    app = app(on_error: ->(error, context) { failures << [error, context] }) do
      topic(name, to: reader) do
        retries 3
        backoff 0..0
      end
    end
    produce(app, name, %w[a])
    app.start
    first, second = take(2, failures)
    await("consumer.consumed", 3)
    assert app.stop
    assert_predicate failures, :empty?
    assert_equal ["no total"] * 2, ([first, second].map { |error, _| error.message })
    contexts = [first, second].map(&:last)
    assert_equal [["consumer.consume", name, 0, 0, 1], ["consumer.consume", name, 0, 0, 2]],
                 (contexts.map { |context| context.values_at(:source, :topic, :partition, :offset, :attempt) })
    assert_equal(happened("consumer.retrying").map { |event| event[:failure_id] },
                 contexts.map { |context| context[:failure_id] })
  end

  def test_brokers_that_come_up
    name = topic
    app = app(kafka: { "statistics.interval.ms" => 50 })
    produce(app, name, %w[a])
    eventually(20, "a broker that is up") { happened("broker.changed").any? { |event| event[:to] == "UP" } }
    eventually(20, "rates") { happened("statistics.emitted").any? { |event| event[:rates].key?("txmsgs") } }
    assert_equal [nil], happened("statistics.emitted").map { |event| event[:group] }.uniq, "a producer has no group"
  end
end
