# frozen_string_literal: true

require_relative "../test_helper"
require "support/forked_child"
require "support/server_kit"

# What counts as a health problem of a server, and what does not: a rebalance, a long shutdown, a missing topic.
class HealthTest < Minitest::Test
  include ForkedChild
  include ServerKit

  # A consumer that takes its messages one by one and notes since when its executor has been at each.
  class Single < Pelton::Consumer
    class << self
      attr_accessor :log
    end

    def process(_message) = self.class.log << @pelton.instance_variable_get(:@executor).called
  end

  def fatal(code = -150, name = :_FATAL) = Pelton::KafkaError.new(code, name, "on purpose", true)
  def healthy(what) = assert_equal([], app.server.health_problems, what)

  # As if the listener had been elsewhere for so long.
  def last_poll(seconds_ago)
    listener = app.server.instance_variable_get(:@listeners).first
    listener.subscription.instance_variable_set(:@polled_at, Pelton::Clock.now - seconds_ago)
  end

  def test_before_and_after
    assert_predicate start, :healthy?
    assert app.stop
    healthy "stopped, as it was told to"
  end

  # Only an event told of it.
  def test_a_partition_that_gave_up_is_an_illness_and_in_the_stats
    produce(3)
    script { |consumer| raise IOError, "on purpose" if consumer.messages.any? }
    app.routes do
      topic "orders", to: Consumer do
        retries 0
        max_messages 1
      end
    end
    server = start
    assert_equal({ "g" => {} }, app.stats[:stopped])
    subscription.assign_now(["orders", 0])
    event("partition.stopped")
    eventually { !server.healthy? }
    assert_equal ["orders/0: stopped at offset 0 after a failure, so later messages are not consumed"],
                 server.health_problems
    assert_equal({ "g" => { "orders" => { 0 => 0 } } }, app.stats[:stopped])
    script { nil }
    consumer = server.instance_variable_get(:@listeners).first.coordinators.first.executors.first.consumer
    assert consumer.seek(1)
    assert_equal [[1], [2]], Array.new(2) { @log.pop }
    healthy "it goes on"
    assert_equal({ "g" => {} }, app.stats[:stopped])
  end

  # Starts one call that does not return, and yields the long calls of the group meanwhile.
  def in_a_call(own)
    produce(1)
    entered, gate = Array.new(2) { Thread::Queue.new }
    script { |_| entered.push(1) && gate.pop }
    app.config.long_call = 0.05
    app.routes { topic("orders", to: Consumer) { long_call(own) if own } }
    start
    subscription.assign_now(["orders", 0])
    entered.pop
    eventually { app.stats[:calls]["g"]["orders"][0] > 0.05 }
    yield app.stats[:long_calls]["g"]
    gate.close
    eventually { app.stats[:calls]["g"]["orders"][0].zero? }
    assert_equal({ "g" => {} }, app.stats[:long_calls])
  end

  def test_a_call_is_long_after_the_time_of_the_app
    in_a_call(nil) { |long| assert_equal [0], long.fetch("orders").keys }
  end

  def test_a_topic_with_long_work_has_a_time_of_its_own
    in_a_call(600) { |long| assert_empty long }
  end

  def test_a_long_job_quiet_a_rebalance_and_a_stop_are_no_illness
    produce(1)
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    healthy "a job that has no end"
    server.quiet
    eventually { server.status == :quieting }
    healthy "quieting"
    subscription.revoke_now(["orders", 0])
    event("partition.revoked")
    healthy "a revocation that waits for its job"
    stopping = Pelton::Threads.start("test") { app.stop }
    eventually { server.status == :stopping }
    last_poll(10_000)
    healthy "a stop that waits for its job, whatever else"
    @gate.close
    stopping.join
    healthy "stopped"
  end

  def test_a_topic_that_is_not_there_is_no_illness
    start
    subscription.push(:error, Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "no such topic"), "orders", nil)
    event("error.occurred")
    healthy "a topic is missing"
  end

  # Nobody would know an idle one from one that hangs.
  def test_an_idle_listener_polls_now_and_then
    app.routes do
      group("one") { topic "orders", to: Consumer }
      group("two") { topic "orders", to: Consumer }
    end
    start
    waits = Thread::Queue.new
    @native.subscriptions.each do |subscription|
      subscription.define_singleton_method(:poll) { |timeout| super(timeout).tap { waits << timeout } }
    end
    2.times do
      @native.subscriptions.each(&:wake)
      2.times { assert_includes 0..Pelton::ResourceMonitor::TICK, waits.pop }
    end
    listeners = app.server.instance_variable_get(:@listeners)
    assert(listeners.all? { |listener| Pelton::Clock.now - listener.subscription.polled_at < 250 })
  end

  def test_a_listener_that_hangs
    start
    gate = Thread::Queue.new
    inside = Thread::Queue.new
    app.subscribe("partition.assigned") { inside.push(1) && gate.pop }
    subscription.assign_now(["orders", 0])
    inside.pop
    last_poll(280)
    healthy "not yet"
    last_poll(312)
    assert_match(/\Agroup g: its listener has not polled for 31[2-9] s \(liveness\.max_poll_gap: 300 s\)\z/,
                 app.server.health_problems.join("; "))
    refute_predicate app.server, :healthy?
    gate.close
    eventually { app.server.healthy? }
  end

  def test_the_bound_is_a_setting
    app.config.liveness.max_poll_gap = 30
    start
    app.subscribe("partition.assigned") { last_poll(31) && @log.push(app.server.health_problems) }
    subscription.assign_now(["orders", 0])
    assert_match(/for 3[1-9] s \(liveness\.max_poll_gap: 30 s\)/, @log.pop.join)
  end

  def test_call_longer_than_max_consume_time_is_a_health_problem
    app.config.liveness.max_consume_time = 0.01
    produce(1)
    start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    health_problems = eventually { (found = app.server.health_problems).any? && found }
    assert_match(%r{\Aorders/0: consume has been running for \d+ s \(liveness\.max_consume_time: 0\.01 s\)\z},
                 health_problems.join("; "))
    @gate.close
    eventually { app.server.healthy? }
  end

  def test_each_message_of_consume_each_has_its_own_start_time
    Single.log = Thread::Queue.new
    produce(3)
    app.routes { topic "orders", to: Single }
    start
    subscription.assign_now(["orders", 0])
    times = Array.new(3) { Single.log.pop }
    assert_equal times.uniq.sort, times
  end

  def test_failure_that_ends_the_server_is_a_health_problem_once_it_ended
    produce(1)
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    subscription.push(:error, fatal, nil, nil)
    eventually { server.status == :stopping }
    healthy "its last job runs: who restarts it now would break that off"
    @gate.close
    assert server.wait(60)
    assert_equal ["Pelton::KafkaError stopped the server: #{server.failure.message}"], server.health_problems
    in_child { raise "a child has none of its parent's illnesses" unless server.healthy? }
    app.start
    healthy "begun anew"
  end

  def test_restarting_group_is_no_health_problem
    start(group_restart: 0.01)
    leaving = Thread::Queue.new
    gate = Thread::Queue.new
    subscription.define_singleton_method(:close) { |timeout| (leaving.push(1) && gate.pop) || super(timeout) }
    subscription.push(:error, fatal, nil, nil)
    event("group.restarting")
    healthy "its listener ends"
    leaving.pop
    healthy "it leaves its group, which may take as long as a commit"
    assert_nil app.server.instance_variable_get(:@listeners).first.subscription.polled_at, "so it need not poll"
    gate.close
    eventually { @native.subscriptions.size == 2 }
    healthy "another one is there"
  end

  # Another member has its place, so it does not begin anew.
  def test_fenced_group_is_a_health_problem
    server = start(group_restart: 0.01)
    subscription.push(:error, fatal(82, :FENCED_INSTANCE_ID), nil, nil)
    server.wait(60)
    refute_predicate server, :healthy?
  end
end
