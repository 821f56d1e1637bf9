# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# Starting, stopping and closing: everything returns to where it was.
class AppLifeTest < Minitest::Test
  include EmbeddedApp

  def test_starts_and_stops_leave_nothing_behind
    name = topic(2)
    reader = collector
    app = app { topic(name, to: reader) }
    cycle = lambda do |number|
      app.start
      produce(app, name, [number.to_s])
      assert_equal [[0, number, number.to_s]], take(1)
      assert app.stop
      assert_equal :stopped, app.server.status
    end
    2.times(&cycle)
    settled = eventually(10, "the end of what the first starts began") { (counts = state) == state && counts }
    (2...8).each(&cycle)
    eventually(15, "the state after 6 more starts (#{settled}, now #{state})") do
      state.zip(settled).all? do |new, old|
        new <= old
      end
    end
    assert_empty errors
  end

  def test_a_closed_app_leaves_no_thread_and_no_descriptor
    name = topic
    reader = collector
    once = lambda do
      app = app { topic(name, to: reader) }
      app.start
      produce(app, name, ["x"])
      take(1)
      assert_equal 0, app.close
      refute Pelton::Threads.list.any? { |thread|
               thread.name.start_with?("pelton.worker", "pelton.listener", "pelton.server")
             }
    end
    once.call
    before = eventually(10, "a calm state") { (counts = state) == state && counts }
    5.times { once.call }
    eventually(15, "the state after 5 apps (#{before}, now #{state})") do
      state.zip(before).all? do |new, old|
        new <= old
      end
    end
    eventually(5, "the end of the events' thread") do
      Pelton::Threads.list.none? do |thread|
        thread.name == "pelton.events"
      end
    end
    eventually(5, "the end of the native one") { Pelton::Native.threads[:poller].zero? }
  end

  def test_start_while_running_is_refused_and_after_a_stop_is_not
    name = topic
    reader = collector
    app = app { topic(name, to: reader) }
    app.start
    error = assert_raises(Pelton::ShutdownError) { app.start }
    assert_match(/the server is running/, error.message)
    assert app.stop
    assert app.stop, "a second stop"
    app.start
    assert app.stop
  end

  # Its producer stayed closed: a dead letter could not be sent, and its partition went no further.
  def test_a_start_after_a_close_has_a_producer
    name = topic
    dead = topic
    seen = @seen
    reader = consumer do
      messages.each { |message| message.raw_payload == "bad" ? raise("bad") : seen << message.offset }
    end
    other = app(group: "other")
    app = app { topic(name, to: reader) { dead_letters dead, retries: 0 } }
    app.start
    produce(other, name, %w[first])
    assert_equal [0], take(1)
    app.producer.partition_count(dead, timeout: 20)
    closed = app.producer
    app.admin
    assert_equal 0, app.close
    assert_raises(Pelton::ClosedError) { app.producer.produce_async(topic: name, payload: "x") }
    app.start
    refute_same closed, app.producer
    refute_predicate app.admin, :closed?
    produce(other, name, %w[bad last])
    assert_equal [2], take(1)
    assert app.stop
    assert_equal 1, happened("message.dead_lettered").size
  end

  def test_a_failed_start_leaves_nothing_and_can_be_repeated
    name = topic
    reader = collector
    app = app(kafka: { "fetch.min.bytes" => "many" }) { topic(name, to: reader) }
    before = Pelton::Threads.list # among them, perhaps, some of another test's that are ending
    2.times do
      error = assert_raises(Pelton::ConfigError) { app.start }
      assert_match(/fetch\.min\.bytes.*many/, error.message)
    end
    eventually(5, "the end of what it started") { (Pelton::Threads.list - before).empty? }
    assert app.stop
  end

  def test_two_apps_share_nothing
    first_name = topic
    second_name = topic
    first_seen = Thread::Queue.new
    second_seen = Thread::Queue.new
    first_reader = consumer { messages.each { |message| first_seen << message.raw_payload } }
    second_reader = consumer { messages.each { |message| second_seen << message.raw_payload } }
    first = app(client_id: "first") { topic(first_name, to: first_reader) }
    second = app(client_id: "second") { topic(second_name, to: second_reader) }
    heard = Thread::Queue.new
    second.subscribe("consumer.consumed") { |event| heard << event[:topic] }
    [first, second].each(&:start)
    produce(first, first_name, %w[a b])
    produce(second, second_name, %w[c d])
    assert_equal %w[a b], take(2, first_seen)
    assert_equal %w[c d], take(2, second_seen)
    assert first.stop
    produce(second, second_name, %w[e])
    assert_equal %w[e], take(1, second_seen)
    assert_equal 0, first.close
    produce(second, second_name, %w[f])
    assert_equal %w[f], take(1, second_seen)
    assert second.stop
    assert_equal [second_name], Array.new(heard.size) { heard.pop }.uniq
  end

  # The embedded cluster takes a member that was silent for its session timeout out of the group.
  def test_a_long_idle_time_costs_nothing
    name = topic
    reader = collector
    app = app(kafka: { "max.poll.interval.ms" => 3000, "statistics.interval.ms" => 500 }) { topic(name, to: reader) }
    app.start
    produce(app, name, ["before"])
    take(1)
    eventually(10, "4 s of statistics") { happened("statistics.emitted").size > 16 } # two clients
    produce(app, name, ["after"])
    assert_equal [[0, 1, "after"]], take(1)
    assert_empty happened("partition.revoked")
    assert app.stop
  end

  def test_every_event_is_as_the_table_says
    name = topic(2)
    seen = @seen
    failing = consumer do
      Thread.current.kill if attempt == 1
      raise IOError, "on purpose" if attempt == 2 || messages.first.raw_payload == "poison"

      messages.each { |message| seen << message.raw_payload }
    end
    app = app(kafka: { "statistics.interval.ms" => 100, "debug" => "cgrp", "message.timeout.ms" => 5000 }) do
      topic(name, to: failing) { retries 2, backoff: 0..0.01, then: :skip }
    end
    app.start
    produce(app, name, %w[good poison])
    take(1)
    eventually(10, "the skip") { happened("message.skipped").any? }
    eventually(10, "statistics") { happened("statistics.emitted").any? }
    @cluster.broker_down
    app.producer.produce_async(topic: name, payload: "lost")
    eventually(10, "the loss of a message") { happened("message.delivery_failed").any? }
    @cluster.broker_up
    app.stop
    app.close
    happened("app.stopped")
    names = @happened.map(&:first).uniq
    expected = %w[error.occurred kafka.log statistics.emitted message.delivery_failed message.skipped producer.opened
                  producer.closed partition.assigned consumer.consumed consumer.retrying worker.replaced app.starting
                  app.running app.stopping]
    assert_empty expected - names, "events that did not come"
    @happened.each do |event, payload|
      keys = Pelton::Events.fetch(event).keys
      assert_empty payload.keys - keys, "#{event} has keys that its table does not name"
      assert_empty keys - payload.keys, "#{event} lacks keys" unless event == "error.occurred"
    end
  end

  private

  # [native threads and Ruby's, descriptors, clients that are open]
  def state
    GC.start
    [Dir.children("/proc/self/task").size, Dir.children("/proc/self/fd").size, Pelton::Threads.list.size]
  end
end
