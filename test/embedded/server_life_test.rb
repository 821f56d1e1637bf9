# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"
require "support/program"

# Quiet, stops at odd times, exits and forks of a server on the embedded cluster. (The real broker's twins:
# test/integration/quiet.rb, embedding.rb, server_signals.rb.)
class EmbeddedServerLifeTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  def started(name, reader = collector, **settings)
    app(**settings) { topic(name, to: reader) }.tap(&:start)
  end

  def test_quiet_loses_nothing_and_keeps_its_partitions
    name = topic(2)
    app = started(name)
    produce(app, name, %w[before])
    take(1)
    app.quiet
    eventually(20, "quiet") { app.server.status == :quiet }
    produce(app, name, %w[a b c])
    produce(app, name, %w[d], partition: 1)
    eventually(20, "a job that is held") { held(app) == 2 }
    assert_equal({ name => [0, 1] }, app.assignments)
    assert_empty @seen
    app.resume
    assert_equal %w[a b c d], take(4).map(&:last).sort
    assert_empty happened("partition.revoked")
    assert app.stop
    assert_empty errors
  end

  # Another member comes: the quiet one gives a partition away, and what it did not begin is the other's.
  def test_a_rebalance_while_quiet
    name = topic(2)
    first = started(name, group: "shared", kafka: OFTEN)
    produce(first, name, %w[x])
    take(1)
    first.quiet
    eventually(20, "quiet") { first.server.status == :quiet }
    produce(first, name, %w[a])
    produce(first, name, %w[b], partition: 1)
    other = Thread::Queue.new
    reader = consumer { messages.each { |message| other << [message.partition, message.raw_payload] } }
    second = started(name, reader, group: "shared", kafka: OFTEN)
    eventually(20, "a partition each") { [first, second].all? { |app| app.assignments.fetch(name, []).size == 1 } }
    moved = second.assignments[name].first
    expected = [moved, moved.zero? ? "a" : "b"]
    eventually(20, "what was not begun") { take(1, other).first == expected }
    first.resume
    kept = moved.zero? ? "b" : "a"
    eventually(20, "what it kept") { take(1).first.last == kept } # the mock may refuse the commit of "x"
    await_commits("shared", name, 2, 1)
    assert first.stop
    assert second.stop
    # The mock's answers to a commit in a rebalance.
    assert_empty(errors.reject { |error| %i[REBALANCE_IN_PROGRESS ILLEGAL_GENERATION].include?(error.name) })
  end

  # Elsewhere a stop right after the start came before the listeners existed, and was lost.
  def test_stop_at_once_after_the_start
    name = topic
    app = started(name)
    assert app.stop
    5.times do
      app.start
      assert app.stop
    end
    app.start
    2.times { app.server.signal("TERM") }
    refute_nil app.server.wait(60)
  end

  # Timeouts below a second work: a quarter of a second for the consumers, a quarter for the producer.
  def test_a_shutdown_timeout_of_half_a_second
    5.times do # on a busy machine half a second may pass with nothing done
      name = topic
      app = started(name, shutdown_timeout: 0.5, flush_timeout: 0.5)
      produce(app, name, %w[a])
      take(1)
      app.producer.produce_async(topic: name, payload: "last")
      lost = app.close
      phases = happened("app.stopped").last&.fetch(:phases)
      next unless phases && lost.zero?

      return assert_equal [0, %i[jobs leave]], [lost, phases[:groups].each_value.first.keys]
    end
    flunk "by force, or with a message lost: #{happened("app.forced")}"
  end

  # Elsewhere a stop without a reachable broker never ended.
  def test_stop_with_the_broker_away_is_bounded
    name = topic
    app = started(name, shutdown_timeout: 3, flush_timeout: 1)
    produce(app, name, %w[a])
    take(1)
    @cluster.broker_down
    app.producer.produce_async(topic: name, payload: "lost")
    taken = seconds { refute app.stop }
    assert_operator taken, :<, 30, "it takes the three seconds"
    assert_includes app.server.unfinished_work.join("; "), "1 produced messages not delivered"
  end

  # Its close was given a minute, for which its thread went on.
  def test_a_stop_with_less_time_while_the_group_is_left
    name = topic
    long = %w[session.timeout.ms auto.commit.interval.ms].to_h { |option| [option, 60_000] }
    app = started(name, shutdown_timeout: 60, kafka: long)
    produce(app, name, %w[a])
    take(1)
    @cluster.round_trip_time = 30_000
    first = Thread.new { app.stop }
    eventually(20, "the end of the jobs") { app.server.assignments.empty? }
    assert_equal [false, true], [app.server.stop(timeout: 1), !first.join(20).nil?]
    eventually(5, "the end of its client") { Pelton::Threads.list.none? { |thread| thread.name.include?("listener") } }
    assert_match(/Kafka did not confirm the last commit/, app.server.unfinished_work.join)
  end

  def test_stop_of_one_that_never_reached_a_broker_is_bounded
    app = app(kafka: { "bootstrap.servers" => "127.0.0.1:1" }, shutdown_timeout: 3, flush_timeout: 1)
    reader = collector
    app.routes { topic("nowhere", to: reader) }
    app.start
    taken = seconds { refute_nil app.stop }
    assert_operator taken, :<, 30, "it takes a second"
  end

  # A shutdown hook runs longer than max.poll.interval.ms. Its member keeps its place in the group, and marked offsets
  # are committed.
  def test_a_long_shutdown_hook_keeps_polling
    name = topic
    kafka = { "max.poll.interval.ms" => 3000 } # not less than the session
    gate = Thread::Queue.new
    seen = @seen
    reader = Class.new(Pelton::Consumer) do
      define_method(:consume) { messages.each { |message| seen << [message.partition, message.offset, nil] } }
      define_method(:shutdown) do
        gate.pop
        mark_as_consumed(@last) if @last
      end
    end
    app = started(name, reader, group: "slow", kafka: kafka)
    produce(app, name, %w[a])
    take(1)
    stopping = Pelton::Threads.start("test") { @stopped = app.stop }
    eventually(20, "stopping") { app.server.status == :stopping }
    IO.select(nil, nil, nil, 4.5)
    gate.close
    stopping.join
    assert_equal true, @stopped
    assert_empty happened("partition.revoked")
    assert_empty errors
    again = started(name, group: "slow")
    produce(again, name, %w[b])
    assert_equal %w[b], take(1).map(&:last), "the first was committed"
  end

  # Its client is closed under its feet.
  def test_failed_group_restarts
    name = topic
    app = started(name, group: "restarted", group_restart: 0.1, kafka: OFTEN)
    produce(app, name, %w[a])
    take(1)
    await_commits("restarted", name, 1)
    app.server.instance_variable_get(:@listeners).first.instance_variable_get(:@subscription).close(10)
    eventually(20, "the restart") { happened("group.restarting").any? }
    produce(app, name, %w[b])
    assert_equal %w[b], take(1).map(&:last)
    assert app.stop
  end

  # --- the end of the process ---

  FORGETFUL = <<~RUBY
    require "pelton"

    class Reader < Pelton::Consumer
      def consume = puts("consumed \#{messages.first.raw_payload}")
      def shutdown = puts("shutdown")
    end

    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => ARGV[0] }
      config.group_id = ARGV[2]
    end
    Pelton.routes { topic ARGV[1], to: Reader }
    done = Thread::Queue.new
    Pelton.subscribe("consumer.consumed") { done << 1 }
    %w[app.stopping app.stopped].each do |name|
      Pelton.subscribe(name) { |event| puts [event.name, *event.payload[:reason]].join(" ") }
    end
    Pelton.start
    Pelton.producer.produce_sync(topic: ARGV[1], payload: "x")
    done.pop
    exit!(9) if fork { exit } && Process.wait2.last.exitstatus != 0 # a child has nothing to stop
    exit 3 if ARGV[2] == "exit"
    raise "oops" if ARGV[2] == "raise"
  RUBY

  def test_a_process_that_forgets_to_stop_stops_at_its_exit
    { "end" => 0, "exit" => 3, "raise" => 1 }.each do |way, code|
      result = Program.run(RbConfig.ruby, "-w", "-Ilib", "-e", FORGETFUL, @cluster.bootstrap_servers, topic, way,
                           limit: 240)
      assert_equal code, result.code, result.output
      expected = ["consumed x", "app.stopping exit", "shutdown", "app.stopped"]
      assert_equal expected, result.output.lines(chomp: true).grep(/^(consumed|app|shutdown)/), way
    end
  end

  def test_a_forked_child_of_a_running_app
    name = topic
    app = started(name, group: "forked", kafka: OFTEN)
    produce(app, name, %w[a])
    take(1)
    told = in_child(limit: 60) do
      fail "the parent's" unless app.server.status == :stopped && app.stop # rubocop:disable Style/SignalException

      app.start
      app.producer.produce_sync(topic: name, payload: "b", timeout: 20)
      stopped = app.stop
      app.close
      "child #{stopped}"
    end
    assert_equal "child true\n", told
    assert_predicate app.server, :running?
    eventually(20, "the child's message") { take(1).first.last == "b" } # the mock may refuse the commit of "a"
    await_commits("forked", name, 2)
    assert app.stop
  end

  private

  def held(app) = app.server.instance_variable_get(:@jobs).size
end
