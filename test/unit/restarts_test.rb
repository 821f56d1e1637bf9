# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# Groups that begin anew after a failure.
class RestartsTest < Minitest::Test
  include ServerKit

  def fatal(code = -150, name = :_FATAL) = Pelton::KafkaError.new(code, name, "on purpose", true)

  def two_groups(**settings)
    app(**settings).routes do
      group("one") { topic "orders", to: Consumer }
      group("two") { topic "payments", to: Consumer }
    end
    start
  end

  def groups = @native.subscriptions.map { |subscription| subscription.config["group.id"] }

  def test_a_failed_group_stops_the_server
    server = two_groups
    @native.subscriptions.first.push(:error, error = fatal, nil, nil)
    server.wait(60)
    assert_same error, server.failure
    assert_equal %w[one two], groups
  end

  # As native code tells of a member of the protocol `consumer` whose heartbeats ended.
  def test_a_member_that_only_another_client_brings_back_rejoins_without_a_setting
    server = two_groups
    first = @native.subscriptions.first
    first.assign_now(["orders", 0])
    produce(1)
    assert_equal [0], @log.pop
    first.push(:error, fatal(-142, :_ASSIGNMENT_LOST), nil, nil)
    assert_equal ["one", 1], event("group.restarting").payload.values_at(:group, :seconds)
    eventually { groups == %w[one two one] }
    assert_predicate first, :closed?
    assert_predicate server, :running?
    assert app.stop
  end

  def test_failed_group_restarts_and_the_other_group_goes_on
    server = two_groups(group_restart: 0.01)
    first, other = @native.subscriptions
    first.assign_now(["orders", 0])
    other.assign_now(["payments", 0])
    produce(1)
    assert_equal [0], @log.pop
    2.times { first.push(:error, fatal, nil, nil) }
    assert_equal ["one", 0.01], event("group.restarting").payload.values_at(:group, :seconds)
    assert_equal :shutdown, @log.pop, "its consumers end"
    eventually { groups == %w[one two one] }
    assert_predicate first, :closed?
    subscription.assign_now(["orders", 0])
    produce(1)
    assert_equal [1], @log.pop, "what was marked is not read again"
    @native.kafka.append("payments", 0, "{}")
    other.produced
    assert_equal [0], @log.pop
    assert_predicate server, :running?
    assert_equal({ "orders" => [0], "payments" => [0] }, app.assignments)
    assert app.stop
    refute_includes Array.new(@events.size) { @events.pop.name }, "group.restarting", "told once"
  end

  # A server whose first job of partition 0 waits at the gate that this returns.
  def start_held
    gate = Thread::Queue.new
    log = @log
    consumer = Class.new(Pelton::Consumer) do
      define_method(:consume) do
        log << [partition, messages.first.offset]
        gate.pop if messages.first.offset.zero? && partition.zero?
      end
    end
    app(group_restart: 0.01, revocation_timeout: 0, concurrency: 3).routes { topic "orders", to: consumer }
    start
    gate
  end

  def test_a_job_that_outlives_the_restart_holds_its_partition
    gate = start_held
    old = subscription
    old.assign_now(["orders", 0])
    produce(1)
    assert_equal [0, 0], @log.pop
    old.push(:error, fatal, nil, nil)
    eventually { groups.size == 2 }
    subscription.assign_now(["orders", 0], ["orders", 1])
    @native.kafka.append("orders", 1, "{}")
    subscription.produced
    assert_equal [1, 0], @log.pop, "the others go on"
    assert_empty @log
    gate << :go
    gate << :go
    assert_equal [0, 0], @log.pop, "again: it could not be marked any more"
    assert app.stop
  end

  def test_generations_go_on_over_a_restart_and_a_stop
    start(group_restart: 0.01)
    given = lambda do |number|
      subscription.assign_now(["orders", 0], ["orders", 1])
      eventually { app.generations == { "orders" => { 0 => number - 1, 1 => number } } }
    end
    given.call(2)
    subscription.push(:error, fatal, nil, nil)
    eventually { groups.size == 2 && app.assignments.empty? }
    given.call(4)
    assert app.stop
    app.start
    given.call(6)
  end

  # Its job runs through both failures: the third listener waits for it all the same.
  def test_a_group_that_fails_twice_while_the_first_one_s_job_runs
    gate = start_held
    subscription.assign_now(["orders", 0])
    produce(1)
    assert_equal [0, 0], @log.pop
    2.times do |number|
      subscription.push(:error, fatal, nil, nil)
      eventually { groups.size == number + 2 }
      subscription.assign_now(["orders", 0], ["orders", 1])
      @native.kafka.append("orders", 1, "{}")
      subscription.produced
      assert_equal [1, number], @log.pop, "the others go on"
    end
    assert_empty @log, "held: its first owner's job still runs"
    gate << :go
    gate << :go
    assert_equal [0, 0], @log.pop, "again: it could not be marked any more"
    assert app.stop
    assert_empty @log, "once"
  end

  # Two coordinators of a partition are to end, and one of them has.
  def test_restarted_group_waits_for_all_earlier_jobs_of_a_partition
    gate = start_held
    subscription.assign_now(["orders", 0])
    produce(1)
    assert_equal [0, 0], @log.pop
    subscription.revoke_now(["orders", 0])
    listener = app.server.instance_variable_get(:@listeners).first
    eventually { listener.coordinators.size == 1 && listener.assignment.empty? }
    subscription.assign_now(["orders", 0])
    eventually { listener.coordinators.size == 2 }
    other = Struct.new(:leaked_threads, :take_repeats).new({}, nil)
    leaving = listener.instance_variable_get(:@rebalance).instance_variable_get(:@leaving)
    leaving[other] = ["orders", 0]
    listener.ended(other)
    eventually { !leaving.key?(other) }
    assert_equal 0, app.stats[:jobs][:waiting]
    assert_empty @log, "the first one's job still runs"
    gate << :go
    gate << :go
    assert_equal [0, 0], @log.pop
    assert app.stop
  end

  # Else a group that fails at once would take all of the processor.
  def test_a_restart_waits_a_tenth_of_a_second_at_least
    waits = []
    stop = Pelton::Background::Stop.new
    stop.define_singleton_method(:wait) { |seconds| (waits << seconds) && stop? }
    Pelton::Background::Stop.stub(:new, stop) { start(group_restart: 0) }
    subscription.push(:error, fatal, nil, nil)
    eventually { @native.subscriptions.size == 2 }
    assert_equal [0.1], waits
  end

  # One would fence the other, and whose cluster it is nobody knew.
  def test_a_group_s_producer_for_copies_is_where_the_group_is_and_has_an_id_of_its_own
    app(kafka: { "bootstrap.servers" => "a:1", "transactional.id" => "shop" }).routes do
      group("here") { topic "orders", to: Consumer }
      group("there", kafka: { "bootstrap.servers" => "b:1" }) { topic "orders", to: Consumer }
    end
    here, there = start.instance_variable_get(:@listeners).map(&:copier)
    assert_nil here
    assert_empty @native.producers, "opened by the first copy"
    there.partition_count("dead")
    configs = @native.producers.map(&:config)
    assert_equal [%w[b:1 shop/there]],
                 (configs.map { |config| config.values_at("bootstrap.servers", "transactional.id") })
    assert app.stop
    assert_predicate there, :closed?
  end

  def test_crashed_listener_restarts
    two_groups(group_restart: 0.01)
    @native.subscriptions.first.define_singleton_method(:poll) { |_| raise NoMethodError, "a bug" }
    @native.subscriptions.first.wake
    event("group.restarting")
    eventually { groups.size == 3 }
    assert app.stop
  end

  def test_client_that_cannot_be_opened_is_tried_again
    app(group_restart: 0.01).routes { topic "orders", to: Consumer }
    native = @native.to_module
    app.instance_variable_set(:@native, native)
    opens = 0
    native::Subscription.define_singleton_method(:new) do |*rest|
      (opens += 1).between?(2, 3) ? raise(Pelton::ConfigError.new("x", 1, "no such file")) : super(*rest)
    end
    start
    subscription.push(:error, fatal, nil, nil)
    sources = Array.new(3) { event("error.occurred")[:source] }
    assert_equal %w[kafka restart restart], sources
    eventually { groups.size == 2 }
    assert app.stop
  end

  def test_fenced_static_member_does_not_restart
    server = two_groups(group_restart: 0.01)
    @native.subscriptions.first.push(:error, fatal(82, :FENCED_INSTANCE_ID), nil, nil)
    server.wait(60)
    assert_kind_of Pelton::KafkaError, server.failure
    assert_equal %w[one two], groups
  end

  def test_a_stop_while_a_restart_waits
    server = two_groups(group_restart: 3600)
    @native.subscriptions.first.push(:error, fatal, nil, nil)
    event("group.restarting")
    refute_nil app.stop
    refute_predicate server, :running?
    assert_equal %w[one two], groups
  end
end
