# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# An app's own background threads, and the resource monitor.
class AppsBackgroundTest < Minitest::Test
  include ServerKit

  def test_background_thread_runs_with_the_server_and_ends_after_the_consumers
    app.background("prices") do |stop|
      @log << :begun
      stop.wait
      @log << :ended
    end
    assert_raises(Pelton::ConfigError) { app.background("prices", &:wait) }
    assert_empty @log, "not before the start"
    2.times do
      start
      assert_equal :begun, @log.pop
      subscription.assign_now(["orders", 0])
      eventually { app.stats[:consumers]["g"] == { "orders" => { 0 => 1 } } }
      produce(1)
      assert_kind_of Array, @log.pop
      assert app.stop
      assert_equal %i[shutdown ended], Array.new(2) { @log.pop }
    end
  end

  def test_resource_monitor_counts_each_of_four_consumers_of_a_partition
    app.routes { topic("orders", to: Consumer) { concurrency 4 } }
    start
    subscription.assign_now(["orders", 0])
    eventually { app.stats[:consumers]["g"] == { "orders" => { 0 => 4 } } }
  end

  def test_background_thread_declared_while_the_server_runs_starts
    start
    app.background("prices") do |stop|
      @log << :begun
      stop.wait
    end
    assert_equal :begun, @log.pop
    assert_equal 1, app.stats[:threads]["pelton.background"]
    assert app.stop
    assert_nil app.stats[:threads]["pelton.background"]
  end

  def test_background_thread_that_ends_is_restarted_only_if_asked
    runs = Hash.new(0)
    start
    { "once" => {}, "again" => { restart: true } }.each do |name, options|
      app.server.background(name, **options) { |stop| (runs[name] += 1) < 3 ? raise("fails") : stop.wait }
    end
    eventually { runs["again"] == 3 && runs["once"] == 1 }
    assert app.stop
    assert_equal({ "once" => 1, "again" => 3 }, runs)
  end

  def test_failed_start_of_the_server_ends_its_background_threads
    app.background("prices", &:wait)
    app.subscribe("app.starting") { app.background("more", &:wait) }
    app.config.kafka = { "x" => 1 }
    app.routes { topic "orders", to: Consumer }
    native = Module.new.extend(Fakes::Limits)
    native.const_set(:Subscription, Class.new { def self.new(*) = raise(Pelton::ConfigError, "x") })
    native.const_set(:Poller, Fakes::Native.new.const(:Poller))
    app.instance_variable_set(:@native, native)
    assert_raises(Pelton::ConfigError) { app.start }
    assert_empty Pelton::Threads.list.map(&:name).grep(/background|server/)
  end

  def test_background_thread_that_does_not_end_is_named_and_does_not_delay_the_stop
    gate = Thread::Queue.new
    app(background_timeout: 0.01, shutdown_timeout: 600).background("prices") { gate.pop }
    start
    stopping = Pelton::Threads.start("test") { app.stop }
    eventually(10, "the end of a stop that could take 600 s") { !stopping.alive? }
    assert stopping.value
    told = event("thread.leaked").payload
    assert_equal ["prices", nil, 0.01], told.values_at(:name, :topic, :seconds)
    refute told.key?(:topic)
  ensure
    gate.close
    stopping.join
  end

  def test_thread_started_by_a_consumer_is_named
    produce(1)
    gate = Thread::Queue.new
    stray = nil
    script { stray = Thread.new { gate.pop } }
    start
    subscription.assign_now(["orders", 0])
    @log.pop
    assert app.stop
    told = event("thread.leaked")
    assert_equal "orders", told[:topic]
    assert_match(/\A#{__FILE__}:\d+\z/, told[:started_at])
  ensure
    gate.close
    stray.join
  end

  def test_resource_monitor_reports_while_the_server_runs
    start(stats_interval: 0.01)
    measured = event("stats.measured").payload
    assert_equal 1, measured[:threads]["pelton.server"]
    assert_equal({ running: 0, waiting: 0, aside: 0 }, measured[:jobs])
    assert_equal Pelton::Events.fetch("stats.measured").keys.sort, measured.keys.sort
    assert_equal measured.keys.sort, app.stats.keys.sort
    assert app.stop
    assert_equal measured.keys.sort, app.stats.keys.sort
  end
end
