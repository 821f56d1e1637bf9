# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/reporters/log"
require "support/forked_child"
require "support/server_kit"

# Quiet, stops at odd times, by force, in a forked child.
class ServerLifeTest < Minitest::Test
  include ForkedChild
  include ServerKit

  # Otherwise a process that starts and stops apps keeps each server for ever.
  def test_server_that_ended_is_forgotten_by_the_stop_at_process_exit
    kept = -> { Pelton::ExitStop.send(:const_get, :RUNNING).keys }
    server = start
    assert_includes kept.call, server
    assert app.stop
    eventually { !kept.call.include?(server) }
  end

  def test_a_start_forgets_clients_that_were_closed_and_keeps_the_others
    [true, false].each do |closed|
      given = %i[@producer @admin].to_h { |name| [name, Object.new] }
      given.each_value do |client|
        client.define_singleton_method(:closed?) { closed }
        client.define_singleton_method(:close) { |**| 0 }
      end
      given.each { |name, client| app.instance_variable_set(name, client) }
      start
      kept = given.map { |name, client| app.instance_variable_get(name).equal?(client) }
      assert_equal [!closed] * 2, kept
      app.stop
    end
  end

  def test_stop_of_an_app_that_never_started_is_a_success
    assert_equal true, Pelton::App.new.stop
  end

  # --- quiet ---

  def test_quiet_finishes_running_jobs_and_keeps_new_messages
    produce(2)
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    app.quiet
    assert_equal "quiet", event("app.quieting")[:reason]
    produce(3)
    assert_equal :quieting, server.status
    @gate.close
    event("app.quiet")
    assert_equal :quiet, server.status
    assert_predicate server, :running?
    assert_equal [0, 1], @log.pop
    assert_empty @log
    assert_equal({ "orders" => [0] }, app.assignments)
    app.resume
    event("app.resumed")
    assert_equal [2, 3, 4], @log.pop
    assert app.stop
    assert_equal 5, @native.kafka.position("g", ["orders", 0])
  end

  def test_partitions_come_and_go_while_quiet
    server = start
    server.quiet
    event("app.quiet")
    produce(1)
    subscription.assign_now(["orders", 0])
    eventually { app.assignments == { "orders" => [0] } }
    token = subscription.revoke_now(["orders", 0])
    eventually { !subscription.revoking?(token) }
    assert_includes [[], [:revoked]], Array.new(@log.size) { @log.pop }, "one that was not born has no end"
    assert_empty app.assignments
    subscription.assign_now(["orders", 0])
    eventually { app.generations == { "orders" => { 0 => 2 } } }
    assert_equal [{ "orders" => { 0 => 2 } }, {}], [app.generations("g"), app.generations("other")]
    server.resume
    assert_equal [0], @log.pop
  end

  def test_a_stop_ends_quiet_without_new_work
    produce(1)
    server = start
    server.signal("TSTP")
    assert_equal "SIGTSTP", event("app.quieting")[:reason]
    subscription.assign_now(["orders", 0])
    eventually { app.assignments.any? }
    server.quiet
    server.signal("TERM")
    assert_equal true, server.wait(60)
    assert_includes [[], [:shutdown]], Array.new(@log.size) { @log.pop }
    assert_equal 0, @native.kafka.position("g", ["orders", 0])
    server.quiet
    server.resume
    assert_equal :stopped, server.status
  end

  def test_resume_without_quiet_does_nothing
    server = start
    server.signal("CONT")
    server.signal("TERM")
    assert server.wait(60)
    refute_includes Array.new(@events.size) { @events.pop.name }, "app.resumed"
  end

  # --- stop ---

  # A stop during the start waits until the start is over, and then for the end.
  def test_stop_during_the_start_waits_for_the_end
    app.routes { topic "orders", to: Consumer }
    asked = nil
    app.subscribe("app.starting") do
      asked = Pelton::Threads.start("test") { @log << app.stop }
      eventually { asked.stop? }
    end
    start
    assert_equal true, @log.pop
    assert_equal :stopped, app.server.status
    assert_predicate subscription, :closed?
  end

  # Elsewhere the second stop during a start raised or hung.
  def test_two_stops_during_the_start_are_one
    app.routes { topic "orders", to: Consumer }
    app.subscribe("app.starting") { 2.times { app.server.signal("TERM") } }
    start
    refute_nil app.server.wait(60)
    assert_predicate subscription, :closed?
  end

  def test_stop_by_the_starting_thread_does_not_wait
    app.routes { topic "orders", to: Consumer }
    app.subscribe("app.starting") { @log << [:asked, app.stop] }
    start
    assert_equal [:asked, nil], @log.pop
    assert app.server.wait(60)
  end

  def test_stop_by_a_background_thread_does_not_wait_for_itself
    app.background("suicide") { @log << [:asked, app.stop] }
    start
    assert_equal [:asked, nil], @log.pop
    assert app.server.wait(60)
    assert_empty Array.new(@events.size) { @events.pop.name }.grep(/leaked/)
  end

  # Ctrl-C: while the second group opens, and when all threads run.
  def test_an_interrupt_of_the_start_leaves_nothing_behind
    app.background("prices", &:wait)
    app.routes do
      group("one") { topic "orders", to: Consumer }
      group("two") { topic "orders", to: Consumer }
    end
    opening = @native.to_module.tap { |native| app.instance_variable_set(:@native, native) }::Subscription
    opens = 0
    opening.define_singleton_method(:new) { |*rest| (opens += 1) == 2 ? raise(Interrupt) : super(*rest) }
    assert_raises(Interrupt) { app.start }
    assert_equal [true], @native.subscriptions.map(&:closed?)
    assert_equal :stopped, app.server.status
    last = TracePoint.new(:call) do |call|
      raise Interrupt if call.method_id == :add && call.self.equal?(Pelton::ExitStop)
    end
    last.enable { assert_raises(Interrupt) { app.start } }
    assert_equal [true] * 3, @native.subscriptions.map(&:closed?)
    assert app.stop
    app.start
    assert app.stop
  end

  def test_stop_in_a_trap_only_asks
    start
    answers = []
    before = Signal.trap("USR2") { answers << app.stop }
    Process.kill("USR2", Process.pid)
    eventually { answers.size == 1 }
    assert_equal [nil], answers
    assert_equal true, app.server.wait(60)
  ensure
    Signal.trap("USR2", before || "DEFAULT")
  end

  def test_shutdown_publishes_its_phases
    produce(1)
    start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    began = now
    app.server.signal("TERM")
    stopping = event("app.stopping")
    assert_match(%r{\Aorders/0: consume runs for \d+\.\d s, 1 of 1 messages not finished from offset 0 on\z},
                 stopping[:waits_for].first)
    assert_equal 1, stopping[:flush]
    @gate.close
    phases = event("app.stopped")[:phases]
    assert_equal %i[groups workers background flush], phases.keys
    assert_equal({ "g" => %i[jobs leave] }, phases[:groups].transform_values(&:keys))
    assert(phases[:groups]["g"].each_value.all? { |seconds| seconds.between?(0, now - began) })
  end

  # Half of it at most is for the jobs, and what is kept for the producer is the producer's.
  def test_a_short_shutdown_timeout_keeps_half_of_it_for_the_producer
    given = []
    app(shutdown_timeout: 60, flush_timeout: 60)
      .define_singleton_method(:flush) { |seconds| (given << seconds) && super(seconds) }
    start
    app.producer.produce_async(topic: "a", payload: "x")
    assert app.stop
    assert_operator given.first, :>=, 30
    assert_equal 1, @native.producers.first.flushes.size
    assert_equal 30, event("app.stopping")[:flush]
  end

  def test_by_force_every_consumer_gets_its_shutdown
    produce(1)
    produce(1, 1)
    start(shutdown_timeout: 0.1, flush_timeout: 0.05, concurrency: 1)
    block_jobs
    subscription.assign_now(["orders", 0], ["orders", 1])
    @begun.pop
    refute app.stop
    lasts = Array.new(@log.size) { @log.pop }
    assert_equal [:shutdown], lasts.uniq
    assert_includes 1..2, lasts.size, "the second may be unborn: one worker, and it is busy"
    assert(app.server.unfinished_work.any? { |loss| loss.match?(/\Apelton\.worker#1 is at .*server_kit\.rb:\d+/) })
    assert_empty(app.server.unfinished_work.grep(/was not finished/))
  end

  # It said `consume`, which the class does not have.
  def test_a_call_that_a_forced_stop_kills_is_named_by_its_method
    begun, gate = Array.new(2) { Thread::Queue.new }
    hanging = Class.new(Pelton::Consumer) { define_method(:process) { |_| (begun << true) && gate.pop } }
    app(shutdown_timeout: 0.1, flush_timeout: 0.05).routes { topic "orders", to: hanging }
    start
    produce(1)
    subscription.assign_now(["orders", 0])
    begun.pop
    refute app.stop
    assert_equal "the worker thread was killed while it ran process of orders/0",
                 event("error.occurred")[:error].message
  end

  # The count of repeated errors came after it, at the end of the process.
  def test_the_last_line_of_the_log_says_that_the_server_stopped
    log = StringIO.new
    app.subscribe(Pelton::Reporters::Log.new(log))
    start
    2.times do
      subscription.push(:error, Pelton::KafkaError.new(-195, :_TRANSPORT, "kafka:1/bootstrap: refused"), nil, nil)
      event("error.occurred")
    end
    assert app.stop
    Pelton::RepeatLimit.report(last: true) # as at the end of the process
    lines = log.string.lines
    assert_equal 2, lines.grep(/refused/).size
    assert_match(/ INFO .* stopped after /, lines.last)
  end

  # Each question for the partitions of a topic may take seconds, before the first poll.
  def test_stop_takes_effect_between_the_checks_of_two_topics
    asked, gate, woken = Array.new(3) { Thread::Queue.new }
    app.routes { %w[a b c].each { |name| topic(name, to: Consumer) { partitions 0..1 } } }
    app.instance_variable_set(:@native, native = @native.to_module)
    native::Subscription.define_singleton_method(:new) do |*rest|
      super(*rest).tap do |subscription|
        subscription.define_singleton_method(:partition_count) { |name, _| (asked << name) && (gate.pop || 2) }
        subscription.define_singleton_method(:wake) { super().tap { woken << :stop } }
      end
    end
    start
    assert_equal "a", asked.pop
    woken.clear
    stop = Thread.new { app.stop }
    woken.pop
    gate.close
    assert stop.value
    assert_empty asked
  end

  # A partition without a running call has ended by then. Its line in the log had no generation.
  def test_a_revocation_during_a_stop_names_the_generation_of_an_idle_partition
    produce(1)
    start
    block_jobs
    subscription.assign_now(["orders", 0], ["orders", 1])
    @begun.pop
    generations = app.server.generations.fetch("orders")
    stopping = Thread.new { app.stop }
    event("app.stopping")
    eventually { app.server.generations.fetch("orders").keys == [0] }
    subscription.revoke_now(["orders", 0], ["orders", 1])
    revoked = Array.new(2) { event("partition.revoked").payload.values_at(:partition, :generation) }
    assert_equal generations, revoked.to_h
    @gate.close
    assert stopping.value
  end

  def test_a_shutdown_that_does_not_return_is_named
    stuck = Thread::Queue.new
    hanging = Class.new(Consumer) { define_method(:shutdown) { stuck.pop } }
    hanging.log = @log
    app(shutdown_timeout: 1, flush_timeout: 0.05).routes { topic "orders", to: hanging }
    start
    produce(1)
    subscription.assign_now(["orders", 0])
    assert_equal [0], @log.pop # a consumer that is not built yet has nothing to shut down
    refute app.stop
    assert_match(%r{orders/0: shutdown runs for}, app.server.unfinished_work.first)
  end

  # A worker of a preforking server whose parent ran one.
  def test_a_forked_child_starts_its_own
    start
    in_child do
      raise "the parent's server runs here" unless app.server.status == :stopped && app.stop && app.assignments.empty?

      produce(1)
      app.start
      subscription.assign_now(["orders", 0])
      raise "not consumed" unless @log.pop == [0]
      raise "not stopped" unless app.stop
    end
    assert_predicate app.server, :running?
  end
end
