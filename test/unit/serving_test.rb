# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/cli/server_command"
require "stringio"
require "support/server_kit"

# A server in a process that a Supervisor looks after: orders through a pipe, signals, its parent's death.
class ServingTest < Minitest::Test
  include ServerKit

  def setup
    super
    @orders, @teller = IO.pipe
    @err = StringIO.new
  end

  def teardown
    super
    [@orders, @teller].each(&:close)
  end

  def order(name) = @teller.puts(name)

  def command(format: :text)
    lines = Pelton::CLI::ErrorLines.new(@err, format: format)
    Pelton::CLI::ServerCommand.new(app, err: @err, lines: lines, orders: @orders)
  end

  # Serves with a job that runs; yields then. Returns the exit code.
  def serve(format: :text, **settings)
    app(**settings).routes { topic "orders", to: Consumer }
    produce(1)
    block_jobs
    Pelton::Events::TABLE.each_key { |name| app.subscribe(name) { |event| @events << event } }
    @acting = Pelton::Threads.start("test") do
      event("app.running")
      subscription.assign_now(["orders", 0])
      @begun.pop
      yield
    end
    command(format: format).run { app.start(process: 3) }
  ensure
    @acting&.join
  end

  def test_an_order_is_obeyed
    code = serve do
      order("TERM")
      event("app.stopping")
      @gate.close
    end
    assert_equal 0, code
    assert_equal 1, @native.kafka.position("g", ["orders", 0])
  end

  # As a terminal and systemd do it: the whole process group, or control group, hears of it.
  def test_a_signal_and_the_order_of_it_are_one
    code = serve do
      Process.kill("INT", Process.pid)
      event("app.stopping")
      order("INT")
      Process.kill("INT", Process.pid)
      order("CONT") # heard when what came before was
      eventually { @orders.wait_readable(0).nil? }
      @gate.close
    end
    assert_equal [0, :stopped], [code, app.server.status]
  end

  def test_an_order_and_the_signal_of_it_are_one
    code = serve do
      order("TERM")
      event("app.stopping")
      Process.kill("TERM", Process.pid)
      @gate.close
    end
    assert_equal 0, code
  end

  def test_a_second_order_is_force
    code = serve do
      order("TERM")
      event("app.stopping")
      order("TERM")
    end
    assert_equal 2, code
    assert_match(%r{ended by force\n.*left undone: orders/0: consume}m, @err.string)
    assert_equal "second signal (SIGTERM)", event("app.forced")[:reason]
  end

  def test_a_second_order_after_a_signal_is_force
    code = serve do
      Process.kill("TERM", Process.pid)
      event("app.stopping")
      2.times { order("TERM") }
    end
    assert_equal 2, code
  end

  def test_with_json_logs_a_forced_end_says_in_json_what_is_left_undone
    assert_equal 2, serve(format: :json, shutdown_timeout: 0.1, flush_timeout: 0.05) { order("TERM") }
    rows = @err.string.lines.map { |line| JSON.parse(line) }
    assert_equal ["ended by force"], rows.map { |row| row["message"] }.first(1)
    assert_match(%r{\Aleft undone: orders/0: consume}, rows[1]["message"])
  end

  def test_quiet_and_back
    code = serve do
      order("TSTP")
      event("app.quieting")
      order("CONT")
      event("app.resumed")
      order("QUIT")
      @gate.close
    end
    assert_equal 0, code
  end

  # When its parent process dies, a child stops gracefully.
  def test_death_of_the_parent_stops_the_child_gracefully
    code = serve do
      @teller.close
      event("app.stopping")
      @gate.close
    end
    assert_equal 3, code
    assert_equal 1, @native.kafka.position("g", ["orders", 0])
    assert_equal :shutdown, Array.new(@log.size) { @log.pop }.last
  end

  def test_a_process_whose_parent_ended_and_that_cannot_finish_ends_by_force
    assert_equal 2, serve(shutdown_timeout: 0.1, flush_timeout: 0.05) { @teller.close }
  end

  def test_an_order_that_came_during_the_start
    app.routes { topic "orders", to: Consumer }
    order("TERM")
    assert_equal 0, command.run { app.start }
  end

  def test_server_that_cannot_start_exits_with_an_error
    assert_equal 1, command.run { nil }
  end

  # --- what its number is for --------------------------------------------------------------------------------------

  def instances(process, **kafka)
    app.config.kafka = kafka
    app.routes do
      group("one", kafka: { "group.instance.id" => "own" }) { topic "orders", to: Consumer }
      group("two") { topic "orders", to: Consumer }
    end
    app.start(process: process)
    @native.subscriptions.map { |subscription| subscription.config["group.instance.id"] }
  end

  def test_a_static_member_has_its_number_in_its_name
    assert_equal %w[own-2 shop-2], instances(2, "group.instance.id" => "shop")
  end

  def test_group_without_an_instance_id_gets_none
    assert_equal ["own-0", nil], instances(0)
  end

  def test_without_a_number_a_name_is_a_name
    assert_equal %w[own shop], instances(nil, "group.instance.id" => "shop")
  end

  def test_each_has_a_port_of_its_own
    free = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
    app.config.liveness.port = free - 2
    app.config.liveness.bind = "127.0.0.1"
    instances(2)
    assert_equal free, app.server.liveness.port
  end

  def test_a_number_is_a_number
    error = assert_raises(Pelton::ConfigError) { instances(-1) }
    assert_equal "process = -1: expected an Integer >= 0", error.message
  end
end
