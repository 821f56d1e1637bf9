# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/app"
require "pelton/reporters/log"
require "stringio"

# How often Pelton::Reporters::Log, the log of `pelton server`, writes what repeats itself.
class LogReporterTest < Minitest::Test
  REFUSED = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused"

  def setup
    @bus = Pelton::Notifications.new
    @io = StringIO.new
    subscribe
  end

  def teardown
    Pelton::RepeatLimit.report(last: true)
    super
  end

  def subscribe(**settings) = @bus.subscribe(Pelton::Reporters::Log.new(@io, **settings))

  def connection(reason = REFUSED, name = :_TRANSPORT)
    @bus.publish("error.occurred", error: Pelton::KafkaError.new(-195, name, reason), source: "kafka", group: "g")
  end

  def down = connection("1/1 brokers are down", :_ALL_BROKERS_DOWN)

  def kafka_log(level, facility = "FAIL")
    @bus.publish("kafka.log", client: "c", level: level, facility: facility, message: "[thrd:x]: #{REFUSED}")
  end

  def lines = @io.string.lines

  # librdkafka says 20 times a second that all brokers are down, and logs each error of a connection, too.
  def test_unreachable_broker_is_one_line_and_a_count
    600.times do
      connection
      down
      kafka_log(3)
      kafka_log(3, "ERROR")
    end
    assert_equal 1, lines.size, @io.string
    assert_match(/ERROR pelton\[\d+\] kafka \(group g\): Pelton::KafkaError: #{Regexp.escape(REFUSED)}/, lines.first)
    Pelton::RepeatLimit.report(last: true)
    assert_equal 2, lines.size
    assert_match(/\(and 598 more like it within 30 s\)$/, lines.last)
  end

  def test_the_count_is_written_when_the_time_is_over_by_the_thread_that_waits_for_events
    @bus = Pelton::Notifications.new
    subscribe(window: 0.01)
    Pelton::Clock.stub(:now, Pelton::Clock.now) do
      3.times { connection }
      assert_in_delta 0.01, Pelton::RepeatLimit.due, 0.001
    end
    eventually(5) { Pelton::RepeatLimit.due.zero? }
    Pelton::RepeatLimit.report
    assert_match(/\(and 1 more like it within 0.01 s\)$/, lines.last)
    assert_nil Pelton::RepeatLimit.due
  end

  def test_all_brokers_down_without_another_error_is_one_line_at_the_end_of_the_window
    600.times { down }
    assert_empty lines
    Pelton::RepeatLimit.report(last: true)
    assert_match(/brokers are down .*\(and 599 more like it within 30 s\)$/, lines.fetch(0))
  end

  def test_information_is_written_each_time
    50.times do
      kafka_log(6)
      @bus.publish("partition.assigned", group: "g", topic: "t", partition: 0)
    end
    assert_equal 100, lines.size
  end

  def test_a_warning_that_is_no_error_is_written
    kafka_log(4)
    assert_match(/WARN .*FAIL/, lines.fetch(0))
  end

  # Nothing else says which messages these were.
  def test_lines_that_name_an_offset_are_logged_each_time
    50.times do |offset|
      facts = { group: "g", topic: "t", partition: 0, offset: offset, attempts: 1, error: IOError.new("x") }
      @bus.publish("message.skipped", **facts)
      @bus.publish("message.dead_lettered", **facts, to: "dead")
      @bus.publish("error.occurred", **facts, source: "consumer.consume")
    end
    assert_equal 150, lines.size
  end

  def test_undelivered_messages_are_one_line_and_a_count_for_each_topic
    error = Pelton::DeliveryError.new(-192, :_MSG_TIMED_OUT, "Local: Message timed out", false, false, "t", 0)
    facts = { client: "c", error: error, topic: "t", partition: 0, label: nil }
    1000.times { @bus.publish("message.delivery_failed", **facts) }
    assert_equal 1, lines.size
    Pelton::RepeatLimit.report(last: true)
    assert_match(/\(and 998 more like it within 30 s\)$/, lines.last)
  end

  def test_a_subscriber_that_always_raises_is_ten_lines_and_a_count
    @bus.subscribe("partition.revoked") { raise IOError, "no" }
    200.times { @bus.publish("partition.revoked", group: "g", topic: "t", partition: 0, lost: false) }
    told = -> { lines.grep(/subscriber of partition\.revoked: IOError/) }
    assert_equal 10, told.call.size
    Pelton::RepeatLimit.report(last: true)
    assert_match(/and 189 more like it/, told.call.last)
  end

  def test_two_logs_write_the_same
    subscribe
    5.times { connection }
    assert_equal 2, lines.size
  end
end
