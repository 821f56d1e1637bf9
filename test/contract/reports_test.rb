# frozen_string_literal: true

require_relative "../test_helper"
require "support/native_kit"
require "pelton/testing"

# message.acknowledged and message.purged: a callback of each message, the same on the native client (and the embedded
# cluster) and on the buffered one. `made(bus)` opens a producer; in the block of `held`, Kafka does not answer.
module ReportsContract
  def setup
    super
    @began = Pelton::Clock.now
    @bus = Pelton::Notifications.new
    # [event, thread's name]
    @told = Thread::Queue.new
    %w[message.acknowledged message.purged message.delivery_failed].each do |name|
      @bus.subscribe(name) { |event| @told << [event, Thread.current.name] }
    end
  end

  def take(count) = Array.new(count) { eventually(20) { @told.size.positive? } && @told.pop }

  # [[label, partition, offset], …] in the order of offsets
  def acknowledged(count)
    events = take(count).map(&:first)
    assert_equal ["message.acknowledged"], events.map(&:name).uniq
    events.each { |event| assert_includes 0.0..(Pelton::Clock.now - @began), event[:seconds] }
    events.map { |event| [event[:label], event[:partition], event[:offset]] }.sort_by(&:last)
  end

  def test_every_message_is_reported_with_its_label_whether_or_not_it_is_awaited
    producer = made(@bus)
    producer.produce_sync(topic: topic, payload: "a", partition: 0, label: :first)
    producer.produce_async(topic: topic, payload: "b", partition: 0)
    producer.flush(timeout: 60)
    rows = %i[third fourth].map { |label| { topic: topic, payload: "c", partition: 0, label: label } }
    producer.produce_many_async(rows)
    producer.produce_many_sync([{ topic: topic, payload: "d", partition: 0 }] * 2)
    assert_equal [[:first, 0, 0], [nil, 0, 1], [:third, 0, 2], [:fourth, 0, 3], [nil, 0, 4], [nil, 0, 5]],
                 acknowledged(6)
    assert_empty @told
  end

  # However many events wait for a subscriber that is slow.
  def test_a_burst_keeps_its_labels
    gate = Thread::Queue.new
    @bus.subscribe("message.acknowledged") { gate.pop }
    producer = made(@bus)
    [12_000, 13_000].each do |count|
      count.times { |number| producer.produce_async(topic: topic, payload: "x", partition: 0, label: number) }
      assert producer.flush(timeout: 60)
    end
    gate.close
    assert_equal [*0...12_000, *0...13_000], acknowledged(25_000).map(&:first)
  ensure
    gate&.close
  end

  # When a subscriber raises, the delivery still ends, the process lives, and the error is published.
  def test_raising_callback_is_reported_and_stops_no_other
    errors = Thread::Queue.new
    @bus.subscribe("message.acknowledged") { |event| raise "no" if event[:offset].zero? }
    @bus.subscribe("error.occurred") { |event| errors << event.payload }
    producer = made(@bus)
    2.times { |offset| assert_equal offset, producer.produce_sync(topic: topic, payload: "x", partition: 0).offset }
    assert_equal [0, 1], acknowledged(2).map(&:last)
    eventually(20) { errors.size.positive? }
    failed = errors.pop
    assert_equal ["no", "subscriber of message.acknowledged"], [failed[:error].message, failed[:source]]
    assert_empty errors
  end

  # The event's thread is the poller's own; nothing of it runs in the producing thread.
  def test_callbacks_run_on_the_named_thread_of_the_poller
    made(@bus).produce_sync(topic: topic, payload: "x", partition: 0)
    assert_match(/\Apelton\.events/, take(1).first.last)
  end

  def test_close_reports_returned_messages_also_to_waiting_threads
    producer = made(@bus)
    producer.partition_count(topic)
    refusal = nil
    held do
      delivery = producer.produce_async(topic: topic, payload: "x", partition: 0, label: :lost)
      waiting = Pelton::Threads.start("test") { assert_raises(Pelton::DeliveryError) { delivery.wait(timeout: 20) } }
      eventually(20) { waiting.stop? }
      assert_equal 1, producer.close(timeout: 0)
      refusal = waiting.value
    end
    event, = take(1).first
    assert_equal ["message.purged", :lost, topic], [event.name, event[:label], event[:topic]]
    assert_equal [refusal.name, true], [event[:error].name, event[:error].purged?]
  end

  def test_a_subscriber_of_one_of_the_two_events_gets_it_alone
    %w[message.acknowledged message.purged].each do |name|
      bus = Pelton::Notifications.new
      told = Thread::Queue.new
      bus.subscribe(name) { |event| told << event.name }
      producer = made(bus)
      producer.produce_sync(topic: topic, payload: "x", partition: 0)
      held do
        producer.produce_async(topic: topic, payload: "y", partition: 0)
        producer.close(timeout: 0)
      end
      eventually(20, name) { told.size.positive? }
      assert_equal [name], Array.new(told.size) { told.pop }
    end
  end

  # Middleware with the outcome of its messages: [[message, report, thread's name], …]
  class Outcomes
    attr_reader :found

    def initialize = @found = Thread::Queue.new
    def call(message) = { **message, headers: { "by" => "middleware" } }
    def on_delivery(message, report) = @found << [message, report, Thread.current.name]

    # [[payload, label, partition, offset], …] in the order of offsets
    def take(test, count)
      found = Array.new(count) { test.eventually(20) { @found.size.positive? } && @found.pop }
      found.map { |message, report| [*message.values_at(:payload, :label), report.partition, report.offset] }
           .sort_by(&:last)
    end
  end

  def test_middleware_gets_each_message_with_its_report_whether_or_not_it_is_awaited
    producer = made(Pelton::Notifications.new)
    outcomes = producer.middleware.append(Outcomes.new)
    producer.middleware.append(->(message) { { **message, payload: "#{message[:payload]}!" } })
    producer.produce_sync(topic: topic, payload: "a", partition: 0)
    producer.produce_async(topic: topic, payload: "b", partition: 0, label: :second).wait(timeout: 60)
    producer.produce_many_sync([{ topic: topic, payload: "c", partition: 0, label: :third },
                                { topic: topic, payload: "d", partition: 0 }])
    producer.buffer(topic: topic, payload: "e", partition: 0).flush_buffer_sync(timeout: 60)
    producer.with(timeout: 30).produce_sync(topic: topic, payload: "f", partition: 0)
    producer.produce_copy(topic: topic, payload: "copy", partition: 0)
    assert_equal [["a!", nil, 0, 0], ["b!", :second, 0, 1], ["c!", :third, 0, 2], ["d!", nil, 0, 3], ["e!", nil, 0, 4],
                  ["f!", nil, 0, 5]], outcomes.take(self, 6)
    producer.middleware.remove(outcomes)
    assert_empty producer.produce_sync(topic: topic, payload: "g", partition: 0).labels
    producer.close(timeout: 60)
    assert_empty outcomes.found
  end

  def test_middleware_gets_a_frozen_report_on_the_thread_of_the_poller
    producer = made(Pelton::Notifications.new)
    outcomes = producer.middleware.append(Outcomes.new)
    producer.produce_sync(topic: topic, payload: "a", partition: 0)
    message, report, thread = outcomes.found.pop
    assert_equal({ topic: topic, payload: "a", partition: 0, headers: { "by" => "middleware" } }, message)
    assert_equal [topic, nil, true, true], [report.topic, report.error, report.delivered?, report.frozen?]
    assert_includes 0.0..(Pelton::Clock.now - @began), report.seconds
    assert_match(/\Apelton\.events/, thread)
  end

  def test_middleware_gets_the_error_that_the_waiting_code_gets
    producer = made(Pelton::Notifications.new)
    outcomes = producer.middleware.append(Outcomes.new)
    error = assert_raises(Pelton::DeliveryError) do
      producer.produce_sync(topic: topic, payload: "x", partition: 9, label: :far)
    end
    message, report, = outcomes.found.pop
    assert_equal [:far, false, nil], [message[:label], report.delivered?, report.offset]
    assert_equal [error.class, error.name, error.message, :far],
                 [report.error.class, report.error.name, report.error.message, report.error.label]
    producer.produce_sync(topic: topic, payload: "x", partition: 0)
    assert_predicate outcomes.found.pop[1], :delivered?
  end

  def test_middleware_of_which_one_raises
    bus = Pelton::Notifications.new
    errors = Thread::Queue.new
    bus.subscribe("error.occurred") { |event| errors << event.payload }
    producer = made(bus)
    wrong = producer.middleware.append(Outcomes.new)
    wrong.define_singleton_method(:on_delivery) { |_message, _report| raise "no" }
    outcomes = producer.middleware.append(Outcomes.new)
    assert_equal 0, producer.produce_sync(topic: topic, payload: "x", partition: 0).offset
    assert_equal [["x", nil, 0, 0]], outcomes.take(self, 1)
    eventually(20) { errors.size.positive? }
    assert_equal({ source: "producer.middleware", client: producer.name, topic: topic, partition: 0 },
                 errors.pop.except(:error))
  end

  def test_a_refused_message_is_neither
    producer = made(@bus)
    assert_raises(Pelton::DeliveryError) { producer.produce_sync(topic: topic, payload: "x", partition: 9) }
    producer.produce_sync(topic: topic, payload: "x", partition: 0)
    assert_equal [[nil, 0, 0]], acknowledged(1)
  end

  def test_subscription_to_acknowledgements_after_the_producer_opened_raises
    bus = Pelton::Notifications.new
    made(bus).produce_sync(topic: topic, payload: "x", partition: 0)
    error = assert_raises(Pelton::ConfigError) { bus.subscribe("message.acknowledged") { flunk } }
    assert_match(/before the first producer opens/, error.message)
  end
end

class NativeReportsTest < Minitest::Test
  include NativeKit
  include ReportsContract

  def topic = @topic ||= new_topic

  def made(bus)
    config = Pelton::Config.new
    config.kafka = { **server, "linger.ms" => 1, "log_level" => 0 }
    @made = Pelton::Producer.new(config.freeze, bus: bus)
  end

  # Longer than any stall of this process, unless a test says how long Kafka's answer takes.
  def held(milliseconds = 60_000)
    NativeKit.cluster.round_trip_time(1, milliseconds)
    yield
  ensure
    NativeKit.cluster.round_trip_time(1, 0)
  end

  def test_an_acknowledgement_has_the_time_since_the_produce_call
    producer = made(@bus)
    producer.produce_sync(topic: topic, payload: "x", partition: 0)
    held(2000) { producer.produce_sync(topic: topic, payload: "x", partition: 0) }
    first, second = take(2).map { |event,| event[:seconds] }
    assert_operator first, :>, 0
    assert_includes 1.0..(Pelton::Clock.now - @began), second, "the answer took 2 s"
  end

  def test_a_report_for_middleware_has_the_time_since_the_produce_call
    producer = made(Pelton::Notifications.new)
    outcomes = producer.middleware.append(Outcomes.new)
    producer.produce_sync(topic: topic, payload: "x", partition: 0)
    held(2000) { producer.produce_sync(topic: topic, payload: "x", partition: 0) }
    first, second = Array.new(2) { outcomes.found.pop[1].seconds }
    assert_operator first, :>, 0
    assert_includes 1.0..(Pelton::Clock.now - @began), second, "the answer took 2 s"
  end

  def teardown = @made&.close(timeout: 5)
end

class BufferedReportsTest < Minitest::Test
  include ReportsContract

  def topic = "orders"
  def made(bus) = @made = Pelton::Testing::BufferedProducer.new(bus: bus, topics: { "orders" => 1 })
  def held(&block) = @made.hold(&block)
  def teardown = @made&.close
end
