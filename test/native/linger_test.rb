# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# Who waits does not pay the linger, whatever keeps a message from being sent at once.
class LingerTest < Minitest::Test
  include NativeKit

  LINGER = 60
  LINGERING = { "linger.ms" => (LINGER * 1000).to_s }.freeze
  ROUND_TRIP = 0.05
  SYSTEM = ENV["PELTON_LIBRDKAFKA"] == "system"

  def teardown
    NativeKit.cluster.round_trip_time(-1, 0)
    super
  end

  def test_a_wait_for_more_than_may_be_in_flight_does_not_pay_the_linger
    topic = new_topic
    [{ "enable.idempotence" => "true" }, { "max.in.flight.requests.per.connection" => "1" }].each do |options|
      writer = warm_producer(topic, { **LINGERING, **options })
      slow do
        # Some 60 to 250 ms; it was a second, when something else woke librdkafka.
        assert_quick(0.8, options.inspect) { writer.produce_many(many(topic), 30).wait(timeout: 60) }
      end
    end
  end

  def test_single_messages_of_many_threads_do_not_pay_the_linger
    topic = new_topic
    writer = warm_producer(topic, { **LINGERING, "max.in.flight.requests.per.connection" => "1" })
    slow do
      # Each takes some three round trips.
      assert_quick(8 * 0.5) { Array.new(16) { Thread.new { 8.times { send_one(writer, topic) } } }.each(&:join) }
    end
  end

  # librdkafka alone takes a whole core until the broker answers (ext/core/src/rd/broker_wakeup.rs).
  def test_messages_that_wait_for_unanswered_requests_cost_no_processor_time
    skip "not on Linux, or the system's librdkafka" if !RUBY_PLATFORM.include?("linux") || SYSTEM
    topic = new_topic
    writer = warm_producer(topic, { "enable.idempotence" => "true", "linger.ms" => "0" })
    NativeKit.cluster.round_trip_time(-1, 2000)
    waits = Array.new(7) { writer.produce(topic, "x", nil, 0, nil, nil, 100).tap { pause(0.02) } } # 5 may be unanswered
    before = processor_time
    pause(0.5)
    assert_operator processor_time - before, :<, 0.2
  ensure
    NativeKit.cluster.round_trip_time(-1, 0)
    waits&.each { |wait| wait.wait(timeout: 100) }
  end

  def test_a_wait_for_room_does_not_pay_the_linger
    topic = new_topic
    writer = warm_producer(topic, { **LINGERING, "queue.buffering.max.messages" => "3" })
    taken = seconds { 10.times { writer.produce(topic, "x", nil, 0, nil, nil, 100) } }
    assert_operator taken, :<, LINGER / 2
    taken = seconds { writer.produce_many(many(topic, 10), 100) }
    assert_operator taken, :<, LINGER / 2
  end

  private

  # librdkafka makes a request of each message, and the span is what is measured.
  def pause(seconds) = IO.select(nil, nil, nil, seconds)
  def processor_time = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

  # One that knows its topic and is connected.
  def warm_producer(topic, options) = producer(options).tap { |writer| send_one(writer, topic) }

  def send_one(writer, topic) = writer.produce(topic, "x", nil, 0, nil, nil, 5).wait(timeout: 100)

  def many(topic, count = 3000) = Array.new(count) { { topic: topic, payload: "x" * 1000 } }

  def slow
    NativeKit.cluster.round_trip_time(-1, (ROUND_TRIP * 1000).to_i)
    yield
  ensure
    NativeKit.cluster.round_trip_time(-1, 0)
  end
end
