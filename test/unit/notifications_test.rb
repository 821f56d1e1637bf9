# frozen_string_literal: true

require_relative "../test_helper"
require "open3"
require "pelton/events/page"
require "pelton/runtime/notifications"

class NotificationsTest < Minitest::Test
  def bus = @bus ||= Pelton::Notifications.new

  def test_a_block_gets_the_event
    seen = []
    bus.subscribe("app.stopped") { |event| seen << event }
    bus.publish("app.stopped", seconds: 1.5, undelivered: 0)
    assert_equal ["app.stopped"], seen.map(&:name)
    assert_equal 1.5, seen.first[:seconds]
    assert_raises(KeyError) { seen.first[:nonsense] }
    assert_predicate seen.first.payload, :frozen?
  end

  # A subscriber that asked for the topic of each error raised KeyError for one that has none.
  def test_a_value_that_an_event_has_only_sometimes_is_nil
    seen = []
    bus.subscribe("error.occurred") { |event| seen << event.name << event[:topic] }
    bus.publish("error.occurred", error: IOError.new, source: "kafka")
    assert_equal ["error.occurred", nil], seen
  end

  ENDING = <<~'RUBY'
    require "pelton/runtime/notifications"
    bus = Pelton::Notifications.new
    bus.define("app.asked", number: "of the question")
    lock = Mutex.new
    bus.subscribe("app.asked") { |event| lock.synchronize { puts event[:number] } }
    trap("USR2") do
      3.times { |number| bus.publish_own("app.asked", number: number) }
      exit 4
    end
    Process.kill(:USR2, Process.pid)
    Thread::Queue.new.pop
  RUBY

  # Subscribers take locks, which a trap may not.
  def test_events_of_a_signal_handler_that_ends_the_process_are_not_lost
    output, status = Open3.capture2e(Gem.ruby, "-w", "-I#{File.expand_path("../../lib", __dir__)}", "-e", ENDING)
    assert_equal ["0\n1\n2\n", 4], [output, status.exitstatus]
  end

  def test_an_object_gets_the_events_it_has_methods_for
    listener = Class.new do
      attr_reader :seen

      def on_error_occurred(event) = (@seen ||= []) << event[:error]
      def other = nil
    end.new
    bus.subscribe(listener)
    bus.publish("error.occurred", error: :one)
    bus.publish("app.stopped", seconds: 0)
    assert_equal [:one], listener.seen
  end

  def test_names_that_do_not_exist
    error = assert_raises(Pelton::ConfigError) { bus.subscribe("error.ocurred") { nil } }
    assert_includes error.message, "did you mean error.occurred?"
    assert_raises(Pelton::ConfigError) { bus.publish("nonsense") }
    assert_raises(Pelton::ConfigError) { bus.subscribe("error.occurred") }
    assert_raises(Pelton::ConfigError) { bus.subscribe(Object.new) }
    wrong = Class.new { def on_error_ocurred(_) = nil }.new
    error = assert_raises(Pelton::ConfigError) { bus.subscribe(wrong) }
    assert_includes error.message, "did you mean on_error_occurred?"
  end

  def test_wanted
    refute bus.wanted?("app.stopped")
    listener = bus.subscribe("app.stopped") { nil }
    assert bus.wanted?("app.stopped")
    bus.unsubscribe(listener)
    refute bus.wanted?("app.stopped")
  end

  def test_a_pattern_gets_the_events_that_match
    seen = []
    listener = bus.subscribe(/\Apartition\./) { |event| seen << event.name }
    bus.publish("partition.assigned", topic: "orders")
    bus.publish("app.quiet")
    assert_equal ["partition.assigned"], seen
    bus.unsubscribe(listener)
    bus.publish("partition.assigned", topic: "orders")
    assert_equal 1, seen.size
    refute bus.wanted?("partition.assigned")
  end

  def test_all_leaves_out_events_that_cost_time
    seen = []
    bus.decide("statistics.emitted", "too late")
    bus.subscribe(:all) { |event| seen << event.name }
    %w[app.quiet worker.replaced].each { |name| bus.publish(name) }
    assert_equal %w[app.quiet worker.replaced], seen
    Pelton::Notifications::COSTLY.each { |name| refute bus.wanted?(name), name }
  end

  def test_a_pattern_that_matches_nothing
    error = assert_raises(Pelton::ConfigError) { bus.subscribe(/statistics/) { nil } }
    assert_includes error.message, "statistics.emitted"
    assert_raises(Pelton::ConfigError) { bus.subscribe(/partition/) }
    bus.define("orders.paid", order: "its id")
    refute bus.wanted?("orders.paid")
  end

  def test_an_event_of_the_app
    seen = []
    bus.subscribe(:all) { |event| seen << [event.name, event.payload] }
    bus.define("orders.paid", order: "its id", cents: "the amount")
    bus.subscribe("orders.paid") { |event| seen << event[:cents] }
    bus.publish_own("orders.paid", order: 7, cents: 250)
    assert_equal [["orders.paid", { order: 7, cents: 250 }], 250], seen
    listener = Class.new { def on_orders_paid(event) = event }.new
    assert_same listener, bus.subscribe(listener)
  end

  def test_an_event_of_the_app_is_checked
    ["paid", "Orders.paid", "orders..paid", :"orders.paid", nil, "error.occurred"].each do |name|
      error = assert_raises(Pelton::ConfigError, name.inspect) { bus.define(name, order: "its id") }
      assert_includes error.message, name.to_s
    end
    bus.define("orders.paid", order: "its id")
    assert_raises(Pelton::ConfigError) { bus.define("orders.paid") }
    assert_raises(Pelton::ConfigError) { bus.publish_own("orders.paid") }
    assert_raises(Pelton::ConfigError) { bus.publish_own("orders.paid", order: 7, cents: 1) }
    assert_raises(Pelton::ConfigError) { bus.publish_own("app.quiet") }
    error = assert_raises(Pelton::ConfigError) { bus.publish_own("orders.payed", order: 7) }
    assert_includes error.message, "orders.payed"
  end

  # "call define_event first", and define_event then said "exists already".
  def test_publishing_pelton_s_own_event_names_what_else_to_do
    bus.define("orders.paid")
    messages = [-> { bus.publish_own("error.occurred", error: IOError.new) }, -> { bus.define("error.occurred") },
                -> { bus.define("orders.paid") }]
    messages.map! { |call| assert_raises(Pelton::ConfigError, &call).message }
    assert_includes messages.pop, "is defined already: choose another name"
    messages.each { |message| assert_includes message, "event = \"error.occurred\": is one of Pelton's events" }
    assert_includes messages.first, "In a test, cause the event, or call the subscriber with Pelton::Events::Event.new"
    refute_includes messages.first, "define_event"
  end

  def test_calls_are_wanted_only_with_a_subscriber
    refute bus.calls
    listeners = %w[consumer.consuming job.finished].map { |name| bus.subscribe(name) { nil } }
    bus.subscribe("app.quiet") { nil }
    assert bus.calls
    bus.unsubscribe(listeners[0])
    assert bus.calls
    bus.unsubscribe(listeners[1])
    refute bus.calls
  end

  def test_calls_are_counted_without_events
    counters = [Object.new, Object.new]
    counters.each { |counter| bus.add_counter(counter) }
    assert bus.calls
    refute bus.call_events
    listener = bus.subscribe("job.finished") { nil }
    assert bus.call_events
    bus.unsubscribe(listener)
    bus.unsubscribe(counters[0])
    assert_equal [counters[1]], bus.counters
    assert bus.calls
    bus.unsubscribe(counters[1])
    refute bus.calls
  end

  def test_raising_subscriber_is_reported_and_stops_no_other
    seen = []
    [RuntimeError, NotImplementedError, NoMemoryError, SystemExit, SystemStackError].each do |error|
      bus.subscribe("app.stopped") { raise error }
    end
    bus.subscribe("app.stopped") { throw :nowhere }
    bus.subscribe("app.stopped") { seen << :last }
    bus.subscribe("error.occurred") { |event| seen << event[:error].class << event[:source] }
    bus.publish("app.stopped", seconds: 0)
    assert_equal :last, seen.last
    assert_equal [RuntimeError, NotImplementedError, NoMemoryError, SystemExit, SystemStackError, UncaughtThrowError],
                 seen.grep(Class)
    assert_includes seen, "subscriber of app.stopped"
  end

  def test_a_listener_of_errors_that_raises_goes_to_stderr
    bus.subscribe("error.occurred") { raise "again" }
    _, err = capture_io { bus.publish("error.occurred", error: nil) }
    assert_includes err, "again"
  end

  # Many turn off Ruby's warnings in RUBYOPT. `warn` writes nothing then, so a failure that the app's tracker did not
  # get was lost.
  def test_a_listener_of_errors_that_raises_goes_to_stderr_without_ruby_s_warnings
    verbose = $VERBOSE
    $VERBOSE = nil
    bus.subscribe("error.occurred") { raise "again" }
    _, err = capture_io { bus.publish("error.occurred", error: nil) }
    assert_equal "pelton: a subscriber of error.occurred raised RuntimeError: again\n", err
  ensure
    $VERBOSE = verbose
  end

  class Unspeakable < StandardError
    def message = raise("no message")
  end

  def test_failing_report_stops_no_subscriber
    seen = []
    bus.subscribe("error.occurred") { raise Unspeakable }
    bus.subscribe("error.occurred") { |event| seen << event[:source] }
    bus.subscribe("app.stopped") { raise Unspeakable }
    bus.subscribe("app.stopped") { seen << :last }
    stderr = $stderr
    capture_io { bus.publish("app.stopped", seconds: 0) }
    reader, $stderr = IO.pipe
    reader.close
    $stderr.close
    bus.publish("error.occurred", error: nil, source: "closed stderr")
    assert_equal ["subscriber of app.stopped", :last, "closed stderr"], seen
  ensure
    $stderr = stderr
  end

  def test_subscribing_during_a_publish_is_safe
    seen = []
    bus.subscribe("app.stopped") { bus.subscribe("app.stopped") { seen << 1 } }
    bus.publish("app.stopped", seconds: 0)
    assert_empty seen
    bus.publish("app.stopped", seconds: 0)
    assert_equal [1], seen
  end

  def test_publishing_without_subscribers_allocates_little
    bus.publish("app.stopped", seconds: 0)
    assert_operator allocations { 100.times { bus.publish("app.stopped", seconds: 0) } }, :<=, 210
  end

  def test_markdown_names_every_event
    Pelton::Events::TABLE.each_key { |name| assert_includes Pelton::Events.to_markdown, "`#{name}`" }
  end
end
