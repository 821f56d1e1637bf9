# frozen_string_literal: true

require "timeout"
require_relative "../test_helper"
require "support/server_kit"

# Threads that somebody's Thread.exit or Thread#kill ends: they are replaced, or missed.
class KilledThreadsTest < Minitest::Test
  include ServerKit

  def listener = Pelton::Threads.list.find { |thread| thread.name == "pelton.listener[g]" }

  def killed(server)
    server.wait(60)
    assert_kind_of Pelton::ListenerKilled, server.failure
    assert_includes server.failure.message, "group g"
    assert_predicate subscription, :closed?
  end

  def test_a_listener_that_is_killed_stops_the_server_and_its_consumers_get_their_shutdown
    server = start
    subscription.assign_now(["orders", 0])
    produce(1)
    assert_equal [0], @log.pop
    listener.kill
    killed(server)
    assert_equal :shutdown, @log.pop
    assert_equal 1, @native.kafka.position("g", ["orders", 0]), "what was marked is committed"
  end

  def test_server_whose_thread_was_killed_can_be_stopped_and_started_again
    server = start
    subscription.assign_now(["orders", 0])
    produce(1)
    assert_equal [0], @log.pop
    Pelton::Threads.list.find { |thread| thread.name == "pelton.server" }.kill
    assert server.wait(60), server.unfinished_work.inspect
    assert_kind_of Pelton::WorkerKilled, server.failure
    assert_equal :shutdown, @log.pop
    assert_equal 1, @native.kafka.position("g", ["orders", 0]), "what was marked is committed"
    assert app.start.stop
  end

  # Kills threads of this kind before their first step; `count` of them at most.
  def kill_at_birth(kind = "pelton.listener", count: 1, &block)
    original = Pelton::Threads.method(:start)
    left = count
    begin_and_kill = lambda do |name, **more, &work|
      original.call(name, **more, &work).tap do |thread|
        thread.kill if name.start_with?(kind) && !(left -= 1).negative?
      end
    end
    Pelton::Threads.stub(:start, begin_and_kill, &block)
  end

  # While it waited for the end of its start, nothing told anybody of its death: `wait` answered false at once, and
  # workers and listeners lived on.
  def test_server_whose_thread_is_killed_before_its_first_step_stops_started_parts
    server = kill_at_birth("pelton.server") { start }
    assert server.wait(60)
    assert_kind_of Pelton::WorkerKilled, server.failure
    assert_predicate subscription, :closed?
    assert_empty Pelton::Threads.list.map(&:name).grep(/pelton\.(worker|listener|server)/)
  end

  def test_a_server_whose_starting_thread_is_killed_leaves_nothing_behind
    app.subscribe("app.starting") { Thread.exit }
    app.routes { topic "orders", to: Consumer }
    Thread.new { app.start }.join
    assert_empty Pelton::Threads.list.map(&:name).grep(/pelton\.(worker|listener|server)/)
  end

  def test_a_stop_whose_thread_is_killed_before_its_first_step_ends_by_force
    server = start
    refute kill_at_birth("pelton.shutdown") { server.stop(timeout: 20) }
    assert_equal :forced, server.status
    assert_includes event("app.forced")[:reason], "killed"
    assert_predicate subscription, :closed?
  end

  def test_background_thread_killed_before_its_first_step_is_reported_and_restarted
    began = Thread::Queue.new
    kill_at_birth("pelton.background") do
      app.background("prices", restart: true) do |stop|
        began << :began
        stop.wait
      end
      start
    end
    assert_kind_of Pelton::WorkerKilled, event("error.occurred")[:error]
    assert_equal :began, began.pop
    assert app.stop
  end

  def test_restart_whose_thread_is_killed_before_its_first_step_is_repeated
    kill_at_birth("pelton.restart") do
      start(group_restart: 0.01)
      eventually { listener.stop? }
      listener.kill
      eventually { @native.subscriptions.size == 2 }
    end
    subscription.assign_now(["orders", 0])
    produce(1)
    assert_equal [0], @log.pop
    assert app.stop
  end

  def test_a_listener_that_is_killed_before_its_first_step_left_a_server_that_read_nothing
    killed(kill_at_birth { start })
  end

  def test_a_subscriber_that_ends_its_thread
    app.subscribe("partition.assigned") { Thread.exit }
    server = start
    subscription.assign_now(["orders", 0])
    killed(server)
  end

  def test_subscriber_that_ends_the_thread_reporting_a_dead_listener_does_not_stop_the_report
    app.subscribe("partition.assigned") { raise Exception, "on purpose" } # rubocop:disable Lint/RaiseException
    app.subscribe("error.occurred") { Thread.exit }
    server = start
    subscription.assign_now(["orders", 0])
    refute server.wait(60).nil?
    assert_equal "on purpose", server.failure.message
  end

  def test_killed_listener_restarts_when_groups_restart
    start(group_restart: 0.01)
    first = subscription
    eventually { listener.stop? } # one killed before its first step can tell nobody
    listener.kill
    assert_kind_of Pelton::ListenerKilled, event("group.restarting")[:error]
    eventually { @native.subscriptions.size == 2 }
    assert_predicate first, :closed?
    subscription.assign_now(["orders", 0])
    produce(1)
    assert_equal [0], @log.pop
    assert app.stop
  end

  def test_listener_killed_during_its_stop_is_not_reported
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    produce(1)
    @begun.pop
    stop = Thread.new { server.stop(timeout: 20) }
    closing = server.instance_variable_get(:@listeners).first.instance_variable_get(:@closing)
    eventually { closing.stop_at }
    listener.kill
    @gate.close
    assert stop.join(60)
    assert_nil server.failure
  end

  # --- what subscribers do on a worker's thread, between a job and the next ---

  # Each message fails once, and a subscriber does this with the error. Returns its errors.
  def errors_of(count, &deed)
    script { |consumer| consumer.attempt == 1 && raise(IOError, "on purpose") }
    errors = Thread::Queue.new
    app(concurrency: 1).subscribe("error.occurred") do |event|
      errors << event[:error]
      deed.call
    end
    app.routes { topic("orders", to: Consumer) { backoff 0..0.001 } }
    start
    subscription.assign_now(["orders", 0])
    count.times do |number|
      produce(1)
      assert_equal [number], @log.pop
    end
    assert app.stop
    Array.new(errors.size) { errors.pop }
  end

  def test_timeout_in_a_subscriber_is_no_failure_of_the_next_message
    ended = 0
    errors = errors_of(3) do
      Timeout.timeout(0.05) { Thread::Queue.new.pop }
    rescue Timeout::Error
      ended += 1
    end
    assert_equal [IOError] * 3, errors.map(&:class)
    assert_equal 3, ended
  end

  def test_a_thread_that_a_subscriber_had_begun_could_not_be_killed
    threads = []
    errors_of(2) { threads << Thread.new { Thread::Queue.new.pop } }
    threads.each { |thread| assert thread.kill.join(60) }
    assert_equal 2, threads.size
  end

  # --- workers ---

  def worker
    @jobs = Pelton::Consuming::JobsQueue.new
    @bus = Pelton::Notifications.new
    @replaced = Thread::Queue.new
    @bus.subscribe("worker.replaced") { |event| @replaced << event[:worker] }
    Pelton::Consuming::Worker.new("pelton.worker#1", @jobs, @bus)
  end

  # Runs one more job, by whatever thread there is now.
  def works(worker)
    done = Thread::Queue.new
    job = Object.new
    job.define_singleton_method(:call) { done << Thread.current }
    job.define_singleton_method(:kind) { :consume }
    %i[clear closing].each { |name| job.define_singleton_method(name) { nil } }
    @jobs.push(job)
    thread = done.pop
    assert_same worker.thread, thread
  ensure
    @jobs.close
    assert worker.thread.join(60)
    assert_predicate worker, :over?
  end

  def test_a_worker_that_is_killed_before_its_first_step_is_replaced
    50.times do
      started = worker.start
      started.thread.kill
      assert_equal "pelton.worker#1", @replaced.pop
      works(started)
    end
  end

  def test_a_worker_that_is_killed_while_it_waits_is_replaced
    started = worker.start
    eventually { started.thread.stop? }
    started.thread.kill
    assert_equal "pelton.worker#1", @replaced.pop
    works(started)
    assert_empty @replaced, "once"
  end

  # --- the monitor ---

  # What is over is not held, whether somebody asks for it or not.
  def test_the_watch_lets_go_of_threads_that_ended
    monitor = Pelton::ResourceMonitor.new(Pelton::Notifications.new, 30) { {} }
    gate = Thread::Queue.new
    threads = Array.new(3) { Thread.new { gate.pop } }
    monitor.report_leaked(threads.to_h { |thread| [thread, { name: "stray", seconds: 0 }] })
    assert_equal 3, monitor.leaked
    threads.pop.kill.join
    assert_equal 2, monitor.leaked
    assert_equal 2, monitor.leaked, "asked twice"
    gate.close
    threads.each(&:join)
    assert_equal 0, monitor.leaked
    monitor.check
    assert_empty monitor.instance_variable_get(:@leaked), "nor held"
  end
end
