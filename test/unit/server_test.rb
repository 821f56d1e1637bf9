# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"

# Start, stop, force.
class ServerTest < Minitest::Test
  include ServerKit

  # With deadlines for a busy machine no other test sees a timer that is seconds late.
  def test_a_listener_waits_no_longer_than_until_its_next_timer
    tries = 0
    script { (tries += 1) > 1 || raise("x") }
    produce(1)
    app.routes { topic("orders", to: Consumer) { backoff 2..2 } }
    waits = Thread::Queue.new
    start
    subscription.singleton_class.prepend(Module.new do
      define_method(:poll) { |timeout| (waits << timeout) && super(timeout) }
    end)
    subscription.assign_now(["orders", 0])
    assert_equal [0], @log.pop
    waits = Array.new(waits.size) { waits.pop }
    assert_operator waits.max, :<=, 5, "never for long"
    assert(waits.any? { |seconds| seconds.positive? && seconds <= 2 }, "until the retry: #{waits}")
  end

  def test_a_message_goes_all_the_way
    produce(3)
    server = start
    assert_equal :running, server.status
    assert_equal ["orders"], eventually { subscription.topics }
    subscription.assign_now(["orders", 0])
    assert_equal [0, 1, 2], @log.pop
    produce(1)
    assert_equal [3], @log.pop
    assert app.stop
    assert_equal :shutdown, @log.pop
    assert_equal :stopped, server.status
    assert_equal 4, @native.kafka.position("g", ["orders", 0])
    assert_predicate subscription, :closed?
    names = []
    names << @events.pop.name until @events.empty?
    assert_equal %w[app.starting app.running], names.first(2)
    assert_equal "app.stopped", names.last
  end

  def test_a_refused_mark_is_published_with_its_place
    start
    subscription.define_singleton_method(:mark) { |*| raise Pelton::KafkaError.new(-172, :_STATE, "not assigned") }
    produce(1)
    subscription.assign_now(["orders", 0])
    found = event("error.occurred")
    assert_equal [:_STATE, "mark", "g", "orders", 0],
                 [found[:error].name, *found.payload.values_at(:source, :group, :topic, :partition)]
  end

  def test_groups_and_topics_are_lists
    app.routes { topic "orders", to: "Unknown" }
    { groups: "g", topics: [:orders] }.each do |name, bad|
      error = assert_raises(Pelton::ConfigError) { app.start(name => bad) }
      assert_equal "#{name} = #{bad.inspect}: expected an Array of Strings", error.message
    end
  end

  def test_server_starts_again_after_a_stop
    produce(1)
    2.times do |round|
      start
      assert_raises(Pelton::ShutdownError) { app.start }
      subscription.assign_now(["orders", 0])
      assert_equal [round], @log.pop
      assert app.stop
      assert_equal :shutdown, @log.pop
      @native.kafka.append("orders", 0, "{}")
    end
    assert_equal 2, @native.subscriptions.size
  end

  def test_two_apps_in_one_process
    other_native = Fakes::Native.new
    other = Pelton::App.new(native: other_native.to_module).configure { |config| config.group_id = "h" }
    other.routes { topic "payments", to: Other }
    Other.log = Thread::Queue.new
    start
    other.start
    other_native.kafka.append("payments", 0, "{}")
    other_native.subscriptions.first.assign_now(["payments", 0])
    assert_equal [0], Other.log.pop
    assert other.stop
    assert_predicate app.server, :running?
    assert_empty @log
  end

  def test_one_listener_per_group
    app.routes do
      group("one") { topic "orders", to: Consumer }
      group("two") { topic "orders", to: Consumer }
    end
    start
    names = Pelton::Threads.list.map(&:name)
    assert_equal ["pelton.listener[one]", "pelton.listener[two]"], names.grep(/listener/)
    assert_equal ["pelton.worker#1", "pelton.worker#2"], names.grep(/worker/)
    assert_equal %w[one two], (@native.subscriptions.map { |subscription| subscription.config["group.id"] })
  end

  def test_configuration_is_frozen_by_the_start
    start
    assert_raises(Pelton::ConfigError) { app.config.concurrency = 3 }
    assert_raises(Pelton::ConfigError) { app.routes { topic "b", to: Consumer } }
  end

  def test_a_client_that_cannot_open_leaves_nothing_behind
    app.routes do
      group("one") { topic "orders", to: Consumer }
      group("two") { topic "orders", to: Consumer }
    end
    app.config.kafka = { "x" => 1 }
    opened = []
    native = Module.new.extend(Fakes::Limits)
    native.const_set(:Subscription, Class.new do
      define_method(:initialize) do |*|
        raise Pelton::ConfigError.new("x", 1, "no such property") unless opened.empty?

        opened << self
      end
      define_method(:close) { |_| opened << :closed }
    end)
    native.const_set(:Poller, Fakes::Native.new.const(:Poller))
    app.instance_variable_set(:@native, native)
    assert_raises(Pelton::ConfigError) { app.start }
    assert_equal :closed, opened.last
    assert_equal :stopped, app.server.status
  end

  # --- stop ---

  def test_stop_waits_for_running_jobs
    produce(2)
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    stopper = Pelton::Threads.start("test") { @log << [:stopped, app.stop] }
    event("app.stopping")
    listeners = server.instance_variable_get(:@listeners)
    eventually { listeners.all? { |listener| listener.instance_variable_get(:@closing).stop_at } }
    produce(5)
    assert_empty @log
    @gate.close
    assert_equal [[0, 1], :shutdown, [:stopped, true]], Array.new(3) { @log.pop }
    stopper.join
    assert_equal 2, @native.kafka.position("g", ["orders", 0])
    assert_equal 0, subscription.out
  end

  def test_stop_by_force_at_the_deadline_reports_unfinished_work
    produce(3)
    start(shutdown_timeout: 0.1, flush_timeout: 0.05)
    script do |consumer|
      consumer.mark_as_consumed(consumer.messages.first)
      @begun << 1
      @gate.pop
    end
    @begun = Thread::Queue.new
    @gate = Thread::Queue.new
    subscription.assign_now(["orders", 0])
    @begun.pop
    refute app.stop
    assert_equal :forced, app.server.status
    assert_match(%r{orders/0: consume runs for \d+\.\d s, 2 of 3 messages not finished},
                 app.server.unfinished_work.first)
    assert_equal app.server.unfinished_work, event("app.forced")[:unfinished_work]
    assert_equal 1, @native.kafka.position("g", ["orders", 0]), "what was marked is committed"
    assert_predicate subscription, :closed?
  end

  # Each stop waits for the end, and the first one for as long as it likes.
  def shortened
    produce(1)
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    stops = [600, 900].map { |timeout| Thread.new { server.stop(timeout: timeout) } }
    eventually { server.status == :stopping }
    yield server
    stops.each { |stop| assert_same stop, stop.join(30 * Guard::PATIENCE), "a stop that goes on" }
    assert_equal [false, false], stops.map(&:value)
    assert_equal [:forced, "not finished in time"], [server.status, event("app.forced")[:reason]]
  end

  def test_a_second_stop_with_less_time_shortens_the_first_one
    shortened { |server| assert_equal false, server.stop(timeout: 0.2) }
  end

  def test_a_second_stop_in_a_trap_shortens_the_first_one
    told = Thread::Queue.new
    shortened do |server|
      before = Signal.trap("USR1") { told << [server.stop(timeout: 0.2)] }
      Process.kill(:USR1, Process.pid)
      assert_equal [nil], told.pop, "a trap does not wait"
    ensure
      Signal.trap("USR1", before || "DEFAULT")
    end
  end

  def test_a_second_signal_forces
    produce(1)
    server = start
    block_jobs
    subscription.assign_now(["orders", 0])
    @begun.pop
    server.signal("TERM")
    assert_equal "SIGTERM", event("app.stopping")[:reason]
    assert_nil server.wait(0.02)
    server.signal("INT")
    assert_equal false, server.wait(60)
    assert_equal "second signal (SIGINT)", event("app.forced")[:reason]
  end

  def test_stop_from_ten_threads
    start
    results = Thread::Queue.new
    threads = Array.new(10) { Pelton::Threads.start("test") { results << app.stop } }
    Pelton::Threads.join(threads)
    assert_equal [true] * 10, Array.new(10) { results.pop }
    assert app.stop
  end

  def test_stop_from_a_consumer_does_not_wait_for_itself
    produce(1)
    server = start
    script { @log << [:asked, app.stop] }
    subscription.assign_now(["orders", 0])
    assert_equal [:asked, nil], @log.pop
    assert server.wait(60)
    assert_equal 1, @native.kafka.position("g", ["orders", 0])
  end

  def test_exit_in_a_consumer_stops_gracefully_without_loss
    produce(2)
    server = start
    script { exit 3 }
    subscription.assign_now(["orders", 0])
    assert_equal true, server.wait(60)
    assert_kind_of SystemExit, server.failure
    assert_equal 0, @native.kafka.position("g", ["orders", 0])
    assert_equal :shutdown, @log.pop
  end

  def test_the_producer_is_flushed_at_the_end
    start
    app.producer.produce_async(topic: "a", payload: "x")
    taken = seconds { assert app.stop }
    assert_includes (10 - taken)..10, @native.producers.first.flushes.first
    refute_predicate app.producer, :closed?
  end

  def test_undelivered_messages_count_as_unfinished_work
    start
    app.producer.produce_async(topic: "a", payload: "x")
    @native.producers.first.undelivered = 7
    refute app.stop
    assert_equal ["7 produced messages not delivered"], app.server.unfinished_work
  end

  def test_a_stop_that_kafka_does_not_confirm_loses_the_last_commit
    produce(1)
    server = start
    subscription.assign_now(["orders", 0])
    @log.pop
    subscription.unanswered = true
    assert_equal false, app.stop
    assert_equal :forced, server.status
    assert_equal ["group g: Kafka did not confirm the last commit, so these messages will be consumed again: " \
                  "orders/0 at 1 (no answer)"], server.unfinished_work
    assert_equal [["orders", 0, 1, nil]], event("error.occurred")[:error].offsets
    assert_equal "not committed", event("app.forced")[:reason]
  end

  # Say, while it waited for others to join: a broker reads no other request of a connection meanwhile.
  def test_a_stop_that_kafka_does_not_confirm_loses_nothing_where_there_was_no_partition
    server = start
    subscription.unanswered = true
    assert_equal true, app.stop
    assert_equal [:stopped, []], [server.status, server.unfinished_work]
  end

  def test_consumers_have_the_apps_producer
    produce(1)
    start
    script { |consumer| @log << consumer.producer }
    subscription.assign_now(["orders", 0])
    assert_same app.producer, @log.pop
  end

  def test_number_of_workers_changes_while_the_server_runs
    server = start(concurrency: 1)
    subscription.assign_now(["orders", 0], ["orders", 1])
    block_jobs
    produce(1, 0)
    produce(1, 1)
    @begun.pop
    server.concurrency = 2
    assert_equal [1, 2], event("workers.scaled").payload.values_at(:from, :to)
    @begun.pop # both run at once now
    server.concurrency = 1
    assert_equal 1, server.concurrency
    [0, -1, 1.5, nil].each { |bad| assert_raises(Pelton::ConfigError) { server.concurrency = bad } }
    2.times { @gate << 1 }
    assert server.stop
    assert_raises(Pelton::ShutdownError) { server.concurrency = 3 }
  end
end
