# frozen_string_literal: true

require_relative "../test_helper"
require "support/native_kit"
require "support/small_scheduler"
require "pelton/producer"

# Code that waits for a delivery gets the DeliveryError, and no other news of it: no event, no count in
# `failures`, no false from `flush`. Each way to fail meets each call that waits. Before, batches with a message that
# librdkafka refuses at once published it as well, and so did each report that came before the wait began.
class NativeAwaitedFailuresTest < Minitest::Test
  include NativeKit

  PRODUCE = 0

  # A tracer, which is between sending and waiting: holds the wait back until the report came.
  class Slow
    attr_accessor :before

    def call(message) = message
    def process(*) = yield
    def trace_id(*) = nil

    def wait(delivery)
      @before&.call(delivery)
      yield
    end
  end

  # Middleware that gets the outcome. It needs the reports of all messages.
  class Observer
    def call(message) = message
    def on_delivery(*) = nil
  end

  # name => [error, partition, options]. The topic has one partition.
  WAYS = {
    refused_at_once: [:_UNKNOWN_PARTITION, 99, {}],
    refused_with_the_metadata: [:_UNKNOWN_PARTITION, 99, {}],
    refused_by_the_broker: [:MSG_SIZE_TOO_LARGE, 0, {}],
    timed_out: [:_MSG_TIMED_OUT, 0, { **NOWHERE, "message.timeout.ms" => 100 }],
    purged: [:_PURGE_QUEUE, 0, NOWHERE]
  }.freeze

  # name => how a producer sends a message and waits
  CALLS = {
    produce_sync: ->(made, message) { made.produce_sync(**message) },
    label: ->(made, message) { made.produce_sync(**message, label: :x) },
    variant: ->(made, message) { made.with(timeout: 60).produce_sync(**message) },
    tombstone_sync: ->(made, message) { made.tombstone_sync(**message.except(:payload)) },
    copy: ->(made, message) { made.produce_copy(**message) },
    produce_many_sync: ->(made, message) { made.produce_many_sync([message]) },
    labels: ->(made, message) { made.produce_many_sync([{ **message, label: :x }] * 3) },
    tombstone_many_sync: ->(made, message) { made.tombstone_many_sync([message.except(:payload)]) },
    buffer: ->(made, message) { made.buffer(**message).flush_buffer_sync },
    fiber: lambda do |made, message|
      found = nil
      SmallScheduler.run do
        made.produce_sync(**message)
      rescue Pelton::DeliveryError => e
        found = e
      end
      raise found
    end
  }.freeze

  # name => how a producer sends a message and returns a delivery
  ASYNC = {
    produce_async: ->(made, message) { made.produce_async(**message) },
    produce_many_async: ->(made, message) { made.produce_many_async([message]) },
    buffer: ->(made, message) { made.buffer(**message).flush_buffer_async }
  }.freeze

  def setup
    @bus = Pelton::Notifications.new
    @events = Thread::Queue.new
    @bus.subscribe("message.delivery_failed") { |event| @events << event[:topic] }
    @tracer = Slow.new
    @producers = []
  end

  def teardown = @producers.each { |producer| producer.close(timeout: 0.5) }

  def sender(kafka = {}, middleware: [])
    config = Pelton::Config.new
    config.kafka = { **server, "linger.ms" => 1, "log_level" => 0, **kafka }
    config.tracer = @tracer
    list = Pelton::Producer::Middleware.new.tap { |made| middleware.each { |callable| made.append(callable) } }
    Pelton::Producer.new(config.freeze, bus: @bus, middleware: list).tap { |made| @producers << made }
  end

  # A producer and a message that will fail in this way.
  def failing(way, **options)
    _, partition, kafka = WAYS.fetch(way)
    made = sender(kafka, **options)
    topic = kafka.empty? ? new_topic : "nowhere"
    made.produce_sync(topic: topic, payload: "x") if way == :refused_at_once
    NativeKit.cluster.push_errors(PRODUCE, [10]) if way == :refused_by_the_broker
    [made, { topic: topic, payload: "x", key: "k", partition: partition }]
  end

  # Until this thread is parked in a delivery's `wait`.
  def wait_begins(thread)
    eventually(30) { thread.status == "sleep" && thread.backtrace.to_a.first.to_s.end_with?("wait'") }
  end

  # Makes it fail, if that needs something, and waits for the report.
  def report(way, made, delivery)
    made.purge if way == :purged
    eventually(30, "no report") { delivery.done? }
  end

  # Topics of the events so far. They come in order: the last one is of a message that nothing waits for.
  def published
    last = sender(NOWHERE)
    last.produce_async(topic: "last", payload: "x")
    last.purge
    topics = []
    until (topic = @events.pop) == "last"
      topics << topic
    end
    topics
  end

  def assert_raised_only(way, call, made, error)
    assert_kind_of Pelton::DeliveryError, error, call
    assert_equal WAYS.fetch(way).first(2), [error.name, error.partition], call
    assert_equal({}, made.failures, call)
    assert made.flush(timeout: 60), call
  end

  # The error of a call, from a thread of its own.
  def error_of(&block)
    thread = Pelton::Threads.start("waits") do
      block.call
    rescue Pelton::Error => e
      Thread.current[:error] = e
    end
    -> { thread.join && thread[:error] }
  end

  # The time until librdkafka notices is the same second for all of them.
  def at_once?(way) = way == :timed_out

  WAYS.each_key do |way|
    define_method("test_failure_#{way}_was_an_event_although_the_call_waits") do
      sent = CALLS.to_a.product([[], [Observer.new]]).map do |(name, call), middleware|
        @tracer.before = nil
        made, message = failing(way, middleware: middleware)
        @tracer.before = ->(delivery) { report(way, made, delivery) }
        error = error_of { call.call(made, message) }
        error.call unless at_once?(way)
        [name, made, error]
      end
      sent.each { |name, made, error| assert_raised_only(way, name, made, error.call) }
      assert_empty published
    end

    # Whether code is going to wait is not known then.
    define_method("test_failure_#{way}_before_the_wait_is_an_event_too") do
      ASYNC.each do |name, call|
        made, message = failing(way)
        begin
          delivery = call.call(made, message)
        rescue Pelton::DeliveryError => e # the producer knows the partitions
          assert_equal [:_UNKNOWN_PARTITION, :produce_async], [e.name, name]
          assert_raised_only(way, name, made, e)
          next assert_empty published
        end
        report(way, made, delivery)
        error = assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
        assert_equal WAYS.fetch(way).first(2), [error.name, error.partition], name
        assert_equal({ message[:topic] => { error.name => 1 } }, made.failures, name)
        assert_equal [message[:topic]], published, name
      end
    end
  end

  def test_failure_during_a_wait_is_no_event
    ASYNC.each do |name, call|
      made, message = failing(:purged)
      delivery = call.call(made, message)
      waiting = Thread.current
      purging = Pelton::Threads.start("purges") do
        wait_begins(waiting)
        made.purge
      end
      error = assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 60) }
      purging.join
      assert_raised_only(:purged, name, made, error)
      assert_empty published
    end
  end

  # A later delivery of the list failed while the first one was waited for.
  def test_wait_all_published_what_failed_before_its_turn
    first, message = failing(:purged)
    second, = failing(:purged)
    deliveries = [first, second, second].map { |made| made.produce_async(**message, label: :x) }
    waiting = Pelton::Threads.start("waits") do
      Pelton::Delivery.wait_all(deliveries, timeout: 60)
    rescue Pelton::DeliveryError => e
      e.label
    end
    wait_begins(waiting)
    second.purge
    eventually(30) { deliveries.last.done? }
    first.purge
    assert_equal :x, waiting.value
    assert_empty published
    assert_equal [{}, {}], [first.failures, second.failures]
  end

  def test_wait_all_that_gives_up_publishes_what_failed
    first, message = failing(:purged)
    second, = failing(:purged)
    deliveries = [first, second].map { |made| made.produce_async(**message) }
    second.purge
    eventually(30) { deliveries.last.done? }
    assert_equal ["nowhere"], published
    open = [first, first].map { |made| made.produce_async(**message) }
    assert_raises(Pelton::WaitTimeout) { Pelton::Delivery.wait_all(open, timeout: 0) }
    first.purge
    assert_equal ["nowhere"] * 3, published
  end

  def test_sync_call_that_gives_up_leaves_the_failure_to_the_event
    made, message = failing(:purged)
    [-> { made.produce_sync(**message, timeout: 0) },
     -> { made.produce_many_sync([message], timeout: 0) }].each do |call|
      assert_raises(Pelton::WaitTimeout, &call)
      made.purge
      assert_equal ["nowhere"], published
    end
    assert_equal({ "nowhere" => { _PURGE_QUEUE: 2 } }, made.failures)
  end

  # The caller has only the part of it that the queue took.
  def test_sync_call_that_finds_the_queue_full_leaves_the_failures_to_the_events
    made = sender({ **NOWHERE, "queue.buffering.max.messages" => 1 })
    row = { topic: "nowhere", payload: "x" }
    error = assert_raises(Pelton::QueueFullError) { made.with(queue_timeout: 0).produce_many_sync([row] * 3) }
    assert_equal 3, error.delivery.size
    made.purge
    assert_equal ["nowhere"], published
  end

  # A thread that is killed, or a tracer that raises, between sending and waiting.
  def test_sync_call_that_ends_before_its_wait_leaves_the_failure_to_the_event
    made, message = failing(:purged)
    @tracer.before = ->(_) { raise "a broken tracer" }
    50.times { assert_raises(RuntimeError) { made.produce_sync(**message) } }
    made.purge
    eventually(30) { made.pending.zero? }
    eventually(30, "no event") { GC.start || !@events.empty? }
  end
end
