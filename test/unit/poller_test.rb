# frozen_string_literal: true

require "timeout"
require_relative "../test_helper"
require "support/fakes"

# Pelton::Poller and the thread that publishes its clients' events, without the extension.
class PollerTest < Minitest::Test
  def setup
    super
    @native = Fakes::Native.new
    @module = @native.to_module
    @bus = Pelton::Notifications.new
    @made = []
    # Of another test's app, whose thread is about to end.
    eventually { names.empty? }
  end

  def teardown
    @made.each { |producer| producer.close(timeout: 1) }
    super
  end

  def poller(name = nil) = Pelton::Poller.new(name, native: @module)

  # A producer that is open.
  def producer(poller = nil, bus: @bus, **polling)
    config = Pelton::Config.new
    { poller: poller, **polling }.each { |name, value| config.polling.set(name, value) }
    @made << Pelton::Producer.new(config.freeze, bus: bus, native: @module)
    @made.last.produce_async(topic: "a", payload: "x")
    @made.last
  end

  def names = Pelton::Threads.list.map(&:name).grep(/events/).sort

  # --- names ---

  def test_names
    assert_equal "payments", poller("payments").name
    first, second = Array.new(2) { poller.name[/\Apelton\.poll\.(\d+)\z/, 1].to_i }
    assert_equal first + 1, second
    assert_equal "pelton.poll", Pelton::Poller.shared(@module).name
    assert_same Pelton::Poller.shared(@module), Pelton::Poller.shared(@module)
  end

  def test_a_name_that_no_thread_could_have
    ["", "a b", 7, "x" * 250].each do |name|
      error = assert_raises(Pelton::ConfigError, name) { poller(name) }
      assert_includes error.message, "Poller.new"
    end
  end

  def test_names_of_the_threads_that_publish
    numbered = poller
    [poller("payments"), numbered, nil].each { |poller| producer(poller) }
    number = numbered.name.delete_prefix("pelton.poll.")
    assert_equal ["pelton.events", "pelton.events.#{number}", "pelton.events.payments"], names
  end

  # --- settings ---

  def test_the_settings_reach_the_native_clients
    own = poller("own")
    producer(own, max_time: 7)
    producer
    assert_equal [{ poller: @native.pollers.first, max_time: 7 }, { poller: @module::Poller.shared, max_time: 100 }],
                 @native.producers.map(&:polling)
    config = Pelton::Config.new
    config.polling.poller = own
    config.polling.max_time = 9
    Pelton::Subscription.new(config, group_id: "g", native: @module).close(1)
    options = @native.subscriptions.first.options
    assert_equal [@native.pollers.first, 9], options.values_at(:poller, :max_time)
  end

  def test_a_native_poller_is_made_for_its_first_client
    own = poller("own")
    assert_empty @native.pollers
    2.times { producer(own) }
    assert_equal ["own"], @native.pollers.map(&:name)
  end

  # --- life of the thread ---

  def test_a_pollers_thread_lives_as_long_as_its_clients_and_comes_back
    own = poller("own")
    3.times do
      first = producer(own)
      second = producer(own)
      assert_equal ["pelton.events.own"], names
      first.close
      assert_equal ["pelton.events.own"], names
      second.close
      assert_empty names
    end
  end

  def test_the_last_client_is_closed_by_a_subscriber
    own = poller("own")
    producer = producer(own)
    answers = Thread::Queue.new
    @bus.subscribe("kafka.log") { answers << [Thread.current.name, producer.close] }
    @native.pollers.first.events << [:log, producer.name, 3, "FAIL", "x"]
    assert_equal ["pelton.events.own", 0], answers.pop
    eventually { names.empty? }
    producer(own)
    assert_equal ["pelton.events.own"], names
  end

  # Publishes five events whose subscriber does this at the first; returns its other events.
  def after_a_subscriber(&deed)
    seen = Thread::Queue.new
    producer = producer(poller("own"))
    @bus.subscribe("kafka.log") do |event|
      seen << event[:message]
      deed.call if event[:message].zero?
    end
    5.times { |number| @native.pollers.first.events << [:log, producer.name, 3, "FAIL", number] }
    assert_equal [0, 1, 2, 3, 4], Array.new(5) { seen.pop }
    eventually { names == ["pelton.events.own"] }
    producer.close
    eventually { names.empty? }
    assert_empty seen
  end

  def test_subscriber_that_calls_thread_exit_does_not_end_publishing = after_a_subscriber { Thread.exit }

  def test_a_failed_assertion_in_a_subscriber_was_the_end_of_all_events
    errors = Thread::Queue.new
    @bus.subscribe("error.occurred") { |event| errors << event.payload }
    @bus.subscribe("error.occurred") { raise Exception, "and again" } # rubocop:disable Lint/RaiseException
    after_a_subscriber { raise Minitest::Assertion, "on purpose" }
    error = errors.pop
    assert_equal ["events", "on purpose"], [error[:source], error[:error].message]
    assert_empty errors
  end

  def test_timeout_in_a_subscriber_that_comes_late_does_not_end_the_thread
    ended = Thread::Queue.new
    after_a_subscriber do
      Timeout.timeout(0.05) { Thread::Queue.new.pop }
    rescue Timeout::Error => e
      ended << e
    end
    assert_kind_of Timeout::Error, ended.pop
  end

  def test_a_thread_that_a_subscriber_had_begun_could_not_be_killed_and_so_the_process_not_end
    begun = Thread::Queue.new
    after_a_subscriber { begun << Thread.new { Thread::Queue.new.pop } }
    assert begun.pop.kill.join(60)
  end

  def test_a_blocked_subscriber_of_one_poller_delays_no_other
    gate = Thread::Queue.new
    seen = Thread::Queue.new
    blocked = producer(poller("blocked"))
    free = producer(poller("free"))
    @bus.subscribe("kafka.log") do |event|
      gate.pop if event[:client] == blocked.name
      seen << event[:client]
    end
    @native.pollers[0].events << [:log, blocked.name, 3, "FAIL", "x"]
    eventually { gate.num_waiting == 1 }
    3.times { @native.pollers[1].events << [:log, free.name, 3, "FAIL", "x"] }
    assert_equal([free.name] * 3, Array.new(3) { seen.pop })
    gate << :go
    assert_equal blocked.name, seen.pop
  end

  def test_a_subscriber_that_raises_costs_its_own_event_only
    producer = producer(poller("own"))
    seen = Thread::Queue.new
    @bus.subscribe("error.occurred") { |event| seen << event[:error].message }
    @bus.subscribe("kafka.log") { |event| raise event[:message] }
    2.times { |number| @native.pollers.first.events << [:log, producer.name, 3, "FAIL", "no #{number}"] }
    assert_equal(["no 0", "no 1"], Array.new(2) { seen.pop })
  end

  # --- delays ---

  # Late events of the first client: each with its age in seconds.
  def late(*ages) = ages.each { |age| @native.pollers.first.events << [:log, @made.first.name, 3, "FAIL", "x", age] }

  def test_late_events_are_reported_once_with_their_count
    told = Thread::Queue.new
    @bus.subscribe("events.delayed") { |event| told << event.payload }
    producer(poller("own"))
    late(0.5)
    started = now
    late(3.0)
    first = told.pop
    assert_equal ["own", 1], first.values_at(:poller, :count)
    assert_includes 3.0..30.0, first[:seconds]
    # Within a second of the first report there is no other; then the rest comes although nothing else happens.
    late(*[2.0, 5.0, 1.5] * 20)
    rest = []
    until rest.sum { |report| report[:count] } >= 60 # one report, if the events took less than that second
      rest << told.pop
      assert_operator now - started, :>=, rest.size
    end
    assert_equal 60, (rest.sum { |report| report[:count] })
    assert_includes 5.0..30.0, rest.map { |report| report[:seconds] }.max
    assert_empty told
  end

  def test_delays_at_the_end_are_reported
    told = Thread::Queue.new
    @bus.subscribe("events.delayed") { |event| told << event[:count] }
    producer = producer(poller("own"))
    late(3.0)
    assert_equal 1, told.pop
    late(3.0, 3.0)
    producer.close
    counts = [told.pop]
    counts << told.pop if counts == [1] # that second was over between the two
    assert_equal 2, counts.sum
  end

  def test_report_names_the_slow_subscriber
    told = Thread::Queue.new
    seen = Thread::Queue.new
    gate = Thread::Queue.new
    @bus.subscribe("events.delayed") { |event| told << event.payload }
    @bus.subscribe("kafka.log") { seen << gate.pop }
    producer(poller("own"))
    late(0.0)
    eventually { gate.num_waiting == 1 }
    began = now
    eventually(5) { now - began > 1.1 }
    @native.pollers.first.events.clear
    late(now - began) # as the native side would say of an event of then
    2.times { gate << :go }
    assert_equal 1, told.pop[:count]
  end

  def test_each_app_gets_only_its_own_delays
    told = Thread::Queue.new
    other = Pelton::Notifications.new
    [@bus, other].each { |bus| bus.subscribe("events.delayed") { |event| told << [bus, event[:count]] } }
    shared = poller("own")
    first = producer(shared)
    second = producer(shared, bus: other)
    events = @native.pollers.first.events
    events << [:log, first.name, 3, "FAIL", "x", 2.0]
    events << [:log, second.name, 3, "FAIL", "x", 2.0] << [:log, second.name, 3, "FAIL", "x", 2.0]
    first.close
    second.close
    sums = Array.new(told.size) { told.pop }.group_by(&:first).transform_values { |all| all.sum(&:last) }
    assert_equal({ @bus => 1, other => 2 }, sums)
  end

  # --- inspect ---

  def test_inspect
    own = poller("own")
    assert_equal "#<Pelton::Poller own, 0 clients, idle>", own.inspect
    fake = Struct.new(:clients, :running?).new(1, true)
    own.instance_variable_set(:@native, fake)
    own.instance_variable_set(:@pid, Process.pid)
    # Nobody's lock matters.
    own.instance_variable_get(:@lock).synchronize do
      assert_equal "#<Pelton::Poller own, 1 client, running>", Thread.new { own.inspect }.value
    end
    own.instance_variable_set(:@pid, -1)
    assert_equal "#<Pelton::Poller own, 0 clients, idle>", own.inspect
  end
end
