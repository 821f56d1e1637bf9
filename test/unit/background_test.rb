# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "support/server_kit"
require "pelton/background/scope"
require "pelton/runtime/resource_monitor"

# Background threads and what watches over threads.
class BackgroundTest < Minitest::Test
  Stop = Pelton::Background::Stop

  def setup
    @bus = Pelton::Notifications.new
    @told = Thread::Queue.new
    %w[error.occurred thread.leaked stats.measured].each { |name| @bus.subscribe(name) { |event| @told << event } }
    @facts = { group: "g", topic: "orders", partition: 0 }
  end

  def scope(timeout: 5) = @scope ||= Pelton::Background::Scope.new("orders/0", @facts, bus: @bus, timeout: timeout)

  def test_stop_waits_and_wakes_at_once
    stop = Stop.new
    refute_predicate stop, :stop?
    refute stop.wait(0)
    refute stop.wait(0.01)
    answers = Thread::Queue.new
    threads = [3600, nil].map { |seconds| Pelton::Threads.start("test") { answers << stop.wait(seconds) } }
    eventually { threads.all?(&:stop?) }
    stop.ask
    assert_equal [true, true], [answers.pop, answers.pop]
    assert stop.wait(3600), "at once, also afterwards"
    assert_raises(Pelton::ConfigError) { stop.wait("long") }
    Pelton::Threads.join(threads)
  end

  def test_stop_leaves_half_of_the_time_that_its_owner_waits_to_the_last_work
    stop = Stop.new
    assert_equal 5, stop.time_for(5), "not asked"
    stop.ask(7200)
    assert_equal 5, stop.time_for(5)
    [8, 3600, nil].each do |seconds| # a later order does not give more
      stop.ask(seconds)
      assert_operator stop.time_for(5), :<=, 4
    end
  end

  def test_a_background_thread_lives_until_its_owner_ends
    log = Thread::Queue.new
    background = scope.start("flush") do |stop|
      log << Thread.current.name
      log << stop.wait
    end
    assert_equal "pelton.background[flush orders/0]", log.pop
    assert_predicate background, :alive?
    assert_match(/\A#{__FILE__}:\d+\z/, background.started_at)
    scope.close { log << :hook }
    refute_predicate background, :alive?
    assert_equal [true, :hook], Array.new(2) { log.pop }.sort_by(&:to_s).reverse
    assert_empty scope.leaked_threads
    assert_raises(Pelton::ClosedError) { scope.start("late") { nil } }
    assert_empty @told
  end

  def test_background_thread_of_one_name_runs_once
    background = scope.start("flush", &:wait)
    error = assert_raises(Pelton::ConfigError) { scope.start("flush", &:wait) }
    assert_match(/"flush": a background thread of this name is already running/, error.message)
    assert background.stop(10)
    scope.start("flush", &:wait)
    scope.close
  end

  def test_invalid_background_threads_are_refused
    [nil, "", :flush, 7].each { |name| assert_raises(Pelton::ConfigError) { scope.start(name, &:wait) } }
    assert_raises(Pelton::ConfigError) { scope.start("flush") }
  end

  def test_background_thread_that_dies_is_reported
    scope.start("flush") { raise IOError, "no disk" }.thread.join
    event = @told.pop
    assert_equal ["background flush", "no disk", "orders", 0],
                 [event[:source], event[:error].message, event[:topic], event[:partition]]
    scope.start("flush") { Thread.current.kill }.thread.join
    assert_kind_of Pelton::WorkerKilled, @told.pop[:error]
    scope.start("flush") { exit }.thread.join
    assert_kind_of SystemExit, @told.pop[:error]
    scope.close
    assert_empty @told
  end

  def test_background_thread_with_restart_is_restarted_when_it_dies
    runs = 0
    background = scope.start("flush", restart: true) do |stop|
      raise "first" if (runs += 1) == 1

      stop.wait
    end
    assert_equal "first", @told.pop[:error].message
    eventually { runs == 2 }
    assert background.stop(10)
    assert_equal 2, runs
  end

  def test_killed_background_thread_is_restarted
    runs = 0
    background = scope.start("flush", restart: true) do |stop|
      Thread.exit if (runs += 1) == 1

      stop.wait
    end
    assert_kind_of Pelton::WorkerKilled, @told.pop[:error]
    eventually { runs == 2 }
    assert_predicate background, :alive?
    assert background.stop(10)
    assert_equal 2, runs
  end

  def test_background_thread_killed_after_its_stop_is_not_restarted
    runs = 0
    background = scope.start("flush", restart: true) do |stop|
      runs += 1
      stop.wait
      Thread.exit
    end
    eventually { runs == 1 }
    assert background.stop(10)
    assert_kind_of Pelton::WorkerKilled, @told.pop[:error]
    assert_equal 1, runs
  end

  def test_a_stop_ends_the_wait_for_the_next_start
    background = scope.start("flush", restart: true) { raise "always" }
    @told.pop
    assert background.stop(10), "it does not wait for the back-off"
  end

  # --- what outlives its owner ---

  def test_background_thread_that_does_not_end_is_named
    gate = Thread::Queue.new
    line = __LINE__ + 1
    background = scope(timeout: 5).start("flush") { gate.pop }
    eventually { gate.num_waiting == 1 }
    scope.close(0.01) # the stop has no more time
    monitor = Pelton::ResourceMonitor.new(@bus, 30) { {} }
    monitor.report_leaked(scope.leaked_threads)
    event = @told.pop
    assert_equal "thread.leaked", event.name
    assert_equal ["flush", "#{__FILE__}:#{line}", "orders", 0, 0.01],
                 event.payload.values_at(:name, :started_at, :topic, :partition, :seconds)
    assert_match(/\A#{__FILE__}:#{line}:in/, event[:at])
    assert_equal 1, monitor.leaked
    assert_empty scope.leaked_threads, "told once"
    gate.close
    background.thread.join
    assert_equal 0, monitor.leaked
  end

  # Threads that user code starts by itself, and those that these start.
  def test_threads_that_its_code_started_are_the_owners
    gate = Thread::Queue.new
    inner = outer = nil
    before = Thread.current.group
    scope.inside do
      outer = Thread.new do
        inner = Thread.new { gate.pop }
        gate.pop
      end
      eventually { inner }
    end
    assert_same before, Thread.current.group
    other = Thread.new { gate.pop }
    leaked_threads = scope.leaked_threads
    assert_equal [outer, inner].sort_by(&:object_id), leaked_threads.keys.sort_by(&:object_id)
    assert_match(/\A#{__FILE__}:\d+\z/, leaked_threads[inner][:started_at])
  ensure
    gate.close
    [outer, inner, other].each(&:join)
  end

  def test_pelton_threads_do_not_count_as_threads_of_consumers
    gate = Thread::Queue.new
    ours = scope.inside { Pelton::Threads.start("test") { gate.pop } }
    assert_empty scope.leaked_threads
  ensure
    gate.close
    ours.join
  end

  def test_error_of_user_code_leaves_the_scope
    before = Thread.current.group
    assert_raises(IOError) { scope.inside { raise IOError } }
    catch(:out) { scope.inside { throw :out } }
    assert_same before, Thread.current.group
  end

  def test_a_stray_has_its_grace
    gate = Thread::Queue.new
    stray = scope.inside { Thread.new { gate.pop } }
    monitor = Pelton::ResourceMonitor.new(@bus, 30) { {} }
    monitor.report_leaked(scope.leaked_threads)
    monitor.check
    assert_empty @told
    monitor.close
    assert_equal ["thread.leaked", nil], [@told.size == 1 && (event = @told.pop).name, event[:name]]
  ensure
    gate.close
    stray.join
  end

  def test_leaked_thread_that_ends_is_not_reported
    gate = Thread::Queue.new
    stray = scope.inside { Thread.new { gate.pop } }
    monitor = Pelton::ResourceMonitor.new(@bus, 30) { {} }
    monitor.report_leaked(scope.leaked_threads)
    gate.close
    stray.join
    monitor.close
    assert_empty @told
    assert_equal 0, monitor.leaked
  end

  # --- threads of libraries ---

  # As if a library had started them: threads of a line below Gem.path or in Ruby's library. Each owner is made after
  # the end of the one before, unless all end `at_once`.
  def leave(owners, per_owner: 1, file: "#{Gem.path.first}/gems/pool-1.0/lib/pool.rb", line: 7, at_once: false)
    scopes = []
    owners.times do
      scopes << (scope = Pelton::Background::Scope.new("orders/0", @facts, bus: @bus, timeout: 0))
      per_owner.times { @left << scope.inside { eval("Thread.new { @gate.pop }", binding, file, line) } } # rubocop:disable Style/EvalWithLocation
      @monitor.report_leaked(scopes.shift.leaked_threads) unless at_once
    end
    scopes.each { |scope| @monitor.report_leaked(scope.leaked_threads) }
    @monitor.close
  end

  def with_monitor
    @gate = Thread::Queue.new
    @left = []
    @monitor = Pelton::ResourceMonitor.new(@bus, 30) { {} }
    yield
  ensure
    @gate.close
    @left.each(&:join)
  end

  def test_one_thread_or_one_pool_of_a_library_is_no_leak
    with_monitor do
      leave(1)
      leave(1, per_owner: 5, line: 8)
      leave(12, line: 9, at_once: true) # consumers of 12 partitions, which ended together
      leave(2, line: 10)
      leave(1, file: "#{RbConfig::CONFIG["rubylibdir"]}/drb/drb.rb")
      assert_equal [0, 0], [@told.size, @monitor.leaked]
    end
  end

  def test_thread_of_a_library_that_each_consumer_leaves_is_a_leak
    with_monitor do
      leave(2)
      assert_empty @told
      leave(1)
      assert_equal ["thread.leaked", 3], [@told.pop.name, @monitor.leaked]
      leave(1)
      event = @told.pop
      assert_equal [4, 0], [@monitor.leaked, @told.size]
      assert_match(%r{/gems/pool-1.0/lib/pool.rb:7\z}, event[:started_at])
      assert_equal Pelton::Events.fetch("thread.leaked").keys.sort, event.payload.keys.sort
    end
  end

  def test_thread_of_a_library_that_is_replaced_after_its_end_is_no_leak
    with_monitor do
      4.times do
        leave(1)
        @left.pop.kill.join
      end
      assert_empty @told
    end
  end

  def test_more_than_100_threads_of_a_line_of_a_library_are_a_leak
    with_monitor do
      leave(1, per_owner: 100)
      assert_empty @told
      leave(1, at_once: true)
      assert_equal [1, 101], [@told.size, @monitor.leaked]
    end
  end

  def test_thread_of_the_app_is_reported_at_once_also_in_a_folder_with_a_gem_in_its_name
    with_monitor do
      leave(1, file: "/srv/gems/shop/lib/app.rb")
      assert_equal [1, "/srv/gems/shop/lib/app.rb:7"], [@told.size, @told.pop[:started_at]]
    end
  end

  # --- measuring ---

  def test_measured
    gate = Thread::Queue.new
    ours = Array.new(2) { |index| Pelton::Threads.start("pelton.test##{index}") { gate.pop } }
    measured = Pelton::ResourceMonitor.measure
    assert_equal 2, measured[:threads]["pelton.test"]
    assert_operator measured[:threads]["other"], :>=, 1
    assert_operator measured[:native_threads].each_value.sum, :>=, 3
    assert_equal 2, measured[:native_threads]["pelton.test"]
    assert_operator measured[:descriptors], :>, 2
  ensure
    gate.close
    Pelton::Threads.join(ours)
  end

  def test_resource_monitor_checks_every_5_seconds_or_at_its_interval
    assert_equal [0.5, 5.0], ([0.5, 30].map { |interval| Pelton::ResourceMonitor.new(@bus, interval) { {} }.tick })
  end

  def test_resource_monitor_publishes_only_with_a_subscriber
    asked = 0
    quiet = Pelton::ResourceMonitor.new(Pelton::Notifications.new, 0) { asked += 1 }
    quiet.check
    assert_equal 0, asked
    Pelton::ResourceMonitor.new(@bus, 0) { { leaked: 0 } }.check
    assert_equal({ leaked: 0 }, @told.pop.payload)
  end
end

# Background threads of a consumer, and the end of both.
class ConsumersBackgroundTest < Minitest::Test
  include CoordinatorKit

  def test_asked_before_the_hook_and_awaited_after_it
    jobs = Thread::Queue.new
    order = Thread::Queue.new
    Consumer.hooks[:assigned] = lambda do |consumer|
      consumer.background("drain") do |stop|
        stop.wait
        order << :asked
        order << jobs.pop # what only the hook gives it
      end
    end
    Consumer.hooks[:revoked] = lambda do |_|
      eventually { order.size == 1 }
      jobs << :last
    end
    coordinator
    work
    coordinator.end(:revoked)
    work
    assert_equal %i[asked last], Array.new(2) { order.pop }
    assert_equal 1, @owner.named(:ended).size
    assert_empty named("error.occurred")
  end

  def test_no_end_without_its_threads
    gate = Thread::Queue.new
    Consumer.hooks[:assigned] = ->(consumer) { consumer.background("drain") { gate.pop } }
    coordinator
    work
    coordinator.end(:shutdown)
    ending = Pelton::Threads.start("test") { work }
    eventually { @log.last == :shutdown && ending.stop? }
    assert_empty @owner.named(:ended)
    gate.close
    ending.join
    assert_equal 1, @owner.named(:ended).size
  end

  def test_a_hook_that_raises_waits_all_the_same
    thread = nil
    Consumer.hooks[:assigned] = ->(consumer) { thread = consumer.background("drain", &:wait).thread }
    Consumer.hooks[:shutdown] = ->(_) { raise "hook" }
    coordinator
    work
    coordinator.end(:shutdown)
    work
    refute_predicate thread, :alive?
    assert_equal ["consumer.shutdown"], named("error.occurred").map { |event| event[:source] }
  end

  def test_afterwards_nothing_refers_to_a_consumer_that_had_one
    trace = nil
    Consumer.hooks[:assigned] = lambda do |consumer|
      trace = ServerKit::Trace.new(consumer)
      consumer.background("drain", &:wait)
    end
    coordinator
    2.times do |round|
      Pelton::Threads.start("test") { work }.join
      coordinator.end(:revoked) if round.zero?
    end
    Consumer.hooks.clear
    eventually do
      GC.start
      !trace.alive?
    end
  end
end
