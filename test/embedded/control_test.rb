# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Filter, expire, delay and throttle through real clients.
class EmbeddedControlTest < Minitest::Test
  include EmbeddedApp

  def now = Process.clock_gettime(Process::CLOCK_REALTIME)
  def marked(app, name, partition = 0) = committed(app.config.group_id, [[name, partition]]).first

  def test_filtered_messages_count_as_done
    name = topic
    reader = collector
    bad = Class.new { def call(message) = message.raw_payload == "3" ? raise("cannot judge") : message.offset.even? }
    app = app { topic(name, to: reader) { filter bad } }
    produce(app, name, %w[0 1 2 3 4 5])
    app.start
    assert_equal [0, 2, 3, 4], take(4).map { |_, offset,| offset }
    eventually(20, "the drops") { happened("message.dropped").sum { |payload| payload[:count] } == 2 }
    assert app.stop
    assert_equal 6, marked(app, name)
    assert_equal ["cannot judge"], errors.map(&:message)
    assert_predicate @seen, :empty?
  end

  # When a filter drops every message, the partition goes on. Elsewhere it stayed paused for ever.
  def test_everything_filtered
    name = topic
    reader = collector
    app = app { topic(name, to: reader) { filter { |message| message.raw_payload == "last" } } }
    app.start
    20.times { |number| produce(app, name, [number.to_s]) }
    produce(app, name, %w[last])
    assert_equal [[0, 20, "last"]], take(1)
    assert app.stop
    assert_equal 21, marked(app, name)
  end

  def test_delay_is_never_early_and_delays_its_topic_alone
    name, hours, quick = Array.new(3) { topic }
    seen = @seen
    reader = consumer do
      messages.each { |message| seen << [topic, message.offset, Time.now.to_f - message.timestamp.to_f] }
    end
    app = app do
      topic(name, to: reader) { delay 1 }
      topic(hours, to: reader) { delay 7200 }
      topic quick, to: reader
    end
    app.start
    produce(app, hours, %w[0])
    produce(app, quick, %w[0])
    assert_equal quick, take(1).first[0]
    produce(app, name, %w[0 1])
    later = take(2)
    assert_equal([[name, 0], [name, 1]], later.map { |row| row.first(2) })
    later.each { |_, _, age| assert_operator age, :>=, 1 }
    assert app.stop
  end

  def test_expired_messages_are_left_out
    name = topic
    reader = collector
    app = app { topic(name, to: reader) { expire_after 60 } }
    old = ((now - 3600) * 1000).round
    [old, nil, old].each_with_index do |stamp, number|
      app.producer.produce_sync(topic: name, payload: number.to_s, **(stamp ? { timestamp: stamp } : {}))
    end
    app.start
    assert_equal [[0, 1, "1"]], take(1)
    eventually(20, "both drops") { happened("message.dropped").sum { |payload| payload[:count] } == 2 }
    assert app.stop
    assert_equal 3, marked(app, name)
  end

  def test_throttle_keeps_its_window_and_costs_no_rebalance
    name = topic
    seen = @seen
    reader = consumer do
      messages.each { |message| seen << [message.offset, Process.clock_gettime(Process::CLOCK_MONOTONIC)] }
    end
    app = app { topic(name, to: reader) { throttle 3, every: 1 } }
    produce(app, name, Array.new(10, &:to_s))
    app.start
    all = take(10)
    assert_equal (0..9).to_a, all.map(&:first)
    # Taken by the consumer a little after the step let it through.
    assert_operator all[9].last - all[0].last, :>, 2.0
    assert app.stop
    assert_empty happened("partition.revoked")
  end

  def test_a_filter_is_asked_once_about_each_message_that_a_throttle_holds_back
    name = topic
    reader = collector
    asked = Thread::Queue.new
    filter = ->(message) { (asked << message.offset) && message.offset != 4 }
    app = app do
      topic(name, to: reader) do
        filter(filter)
        throttle(3, every: 0.2)
      end
    end
    produce(app, name, Array.new(10, &:to_s))
    app.start
    assert_equal [*0..3, *5..9], take(9).map { |_, offset,| offset }
    assert app.stop
    assert_equal (0..9).to_a, Array.new(asked.size) { asked.pop }
  end

  def test_pause_keeps_group_membership_and_continues_with_the_remaining_messages
    name = topic(2)
    seen = @seen
    held = Thread::Queue.new
    reader = consumer do
      messages.each do |message|
        if partition.zero? && message.offset == 2 && held.empty?
          held << self
          break pause
        end
        seen << [partition, message.offset]
        mark_as_consumed(message)
      end
    end
    app = app(prefetch_batches: 2, max_messages: 5, kafka: { "max.poll.interval.ms" => 3000 }) do
      topic(name, to: reader)
    end
    app.start
    40.times { |number| produce(app, name, [number.to_s]) }
    assert_equal [[0, 0], [0, 1]], take(2)
    eventually(20, "the pause") { held.size == 1 }
    # Longer than max.poll.interval.ms, while the other partition goes on.
    started = Pelton::Clock.now
    number = 0
    eventually(20, "four seconds of others") do
      produce(app, name, ["x"], partition: 1)
      assert_equal [1, number], take(1).first
      number += 1
      Pelton::Clock.now - started > 4
    end
    held.pop.tap { held << :again }.resume
    assert_equal (2..39).map { |offset| [0, offset] }, take(38)
    assert app.stop
    assert_empty happened("partition.revoked")
    assert_empty errors
  end

  def test_ticks_come_without_messages_and_in_a_pause
    name = topic
    seen = @seen
    ticking = Class.new(Pelton::Consumer) do
      define_method(:assigned) { pause }
      define_method(:consume) { seen << :consume }
      define_method(:tick) { seen << :tick }
    end
    app = app { topic(name, to: ticking) { tick_every 0.05 } }
    produce(app, name, %w[0])
    app.start
    assert_equal [:tick] * 5, take(5)
    assert app.stop
  end

  def test_end_of_partition_is_reported_each_time_and_marks_nothing
    name = topic
    seen = @seen
    reader = Class.new(Pelton::Consumer) do
      define_method(:consume) { messages.each { |message| seen << message.offset } }
      define_method(:reached_end) { seen << :end }
    end
    app = app(kafka: ONE_BATCH) { topic(name, to: reader) }
    app.start
    assert_equal [:end], take(1)
    produce(app, name, %w[0 1])
    assert_equal [0, 1, :end], take(3)
    produce(app, name, %w[2])
    assert_equal [2, :end], take(2)
    assert app.stop
    assert_equal 3, marked(app, name)
  end

  # Seeks once, at that offset; then only collects.
  def seeker(at, place)
    seen = @seen
    sought = false
    consumer do
      messages.each do |message|
        next seen << message.offset unless message.offset == at && !sought

        sought = true
        break seen << [:sought, seek(place)]
      end
    end
  end

  def test_seek_back_is_committed_and_prefetched_messages_are_dropped
    name = topic
    reader = seeker(30, 3)
    app = app(max_messages: 5) { topic(name, to: reader) }
    app.start
    40.times { |number| produce(app, name, [number.to_s]) }
    assert_equal [*0..29], take(30)
    assert_equal [[:sought, true], *3..39], take(38)
    assert app.stop
    assert_equal 40, marked(app, name)
    assert_empty errors
  end

  def test_a_rewind_survives_a_restart
    name = topic
    reader = consumer { seek(2) if messages.last.offset == 9 }
    app = app(group: "rewind", max_messages: 1) { topic(name, to: reader) }
    produce(app, name, Array.new(10, &:to_s))
    app.start
    eventually(20, "the rewind to be committed") { marked(app, name) == 2 }
    assert app.stop(timeout: 60)
    assert_operator marked(app, name), :<=, 9
    assert_empty errors
  end

  # By another thread, while its replay runs: what was not replayed yet was passed over, and committed.
  def test_late_mark_of_a_message_read_before_a_seek_changes_nothing
    name = topic
    seen = @seen
    old = Thread::Queue.new
    gate = Thread::Queue.new
    sought = false
    reader = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        seen << message.offset
        if message.offset == 9 && !sought
          sought = seek(:beginning)
          old << [self, message]
        end
        gate.pop if message.offset == 2
      end
    end
    app = app { topic(name, to: reader) }
    produce(app, name, Array.new(10, &:to_s))
    gate << :first
    app.start
    consumer, last = old.pop
    assert_equal [*0..9, 0, 1, 2], take(13)
    refute consumer.mark_as_consumed(last), "it comes again"
    gate << :again
    assert_equal [*3..9], take(7)
    assert app.stop
    assert_equal 10, marked(app, name)
  end

  # A seek that cannot be resolved skips no message. A seek to the end works on a partition without a position, too.
  def test_seek_by_time_and_to_the_ends
    name = topic
    base = ((now - 1000) * 1000).round
    seen = @seen
    places = [Time.at((base + 5000) / 1000r), Time.now + 3600, :beginning, :end]
    reader = Class.new(Pelton::Consumer) do
      define_method(:assigned) { pause }
      define_method(:tick) { (place = places.shift) ? seen << [:to, seek(place)] : resume }
      define_method(:consume) { messages.each { |message| seen << message.offset } }
    end
    app = app(concurrency: 1) { topic(name, to: reader) { tick_every 0.1 } }
    10.times do |number|
      app.producer.produce_sync(topic: name, partition: 0, payload: "x", timestamp: base + (number * 1000))
    end
    app.start
    assert_equal [[:to, true]] * 4, take(4)
    produce(app, name, %w[last])
    assert_equal [10], take(1)
    assert app.stop
    assert_equal 11, marked(app, name)
    assert_empty errors
  end
end
