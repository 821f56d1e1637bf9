# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "stringio"
require "support/probe"
require "pelton/cli/cli"
require "support/sqlite_tables"

# The health checks of `pelton outbox`, on SQLite, with a clock that is set. The producer sends nothing.
class OutboxHealthTest < Minitest::Test
  include Probe
  include SqliteTables

  HUNG = "outbox: its relay has hung for 312 s, for example in a database call (liveness.max_poll_gap: 300 s)"
  # What /live and /ready answer.
  WELL = [200, 200, []].freeze
  ILL = [500, 500, [HUNG]].freeze
  # Publishes by a block, which returns true if the batch was sent.
  Session = Struct.new(:block) do
    def publish(_rows, &go_on) = block.call(go_on) ? {} : nil
    def close = nil
  end

  def setup
    open_tables(timeout: 5_000)
    Pelton::Outbox::Row.insert_all!([Pelton::Outbox::Row.attributes_of(topic: "orders", payload: "x")])
    @app = Pelton::App.new
    @app.config.logger = nil
    @app.config.liveness.bind = "127.0.0.1"
    @app.config.liveness.port = 0
    @relay = Pelton::Outbox::Relay.new(@app, batch: 500, poll: 0.1)
    @stop = Pelton::Background::Stop.new
    @clock = Pelton::Clock.now
    @found = []
  end

  def teardown = close_tables

  # Asks the endpoint when so many seconds more have gone by.
  def look(seconds)
    @clock += seconds
    endpoint = Pelton::Liveness.new(@app.config.liveness, @relay, @app.notifications).start
    live, ready = %w[/live /ready].map { |path| probe(endpoint.port, path) }
    @found.push([live.status, ready.status, live.json[:reasons]])
  ensure
    endpoint&.close
  end

  # The call of the database that this object's method makes hangs, and fails at last.
  def hanging(object, name, &block)
    call = lambda do |*|
      look(300)
      look(12)
      raise ActiveRecord::StatementInvalid, "cut off"
    end
    object.stub(name, call, &block)
  end

  # Runs the relay until it waits for rows or for the lock. begins: called while its producer begins.
  def relay(begins: -> {}, &publish)
    new = lambda do |*|
      begins.call
      Session.new(publish)
    end
    stop = @stop
    wait = method(:look)
    stop.define_singleton_method(:wait) { |_| stop? || (wait.call(10_000) && ask) || true }
    Pelton::Clock.stub(:now, -> { @clock }) do
      Pelton::Outbox::Session.stub(:new, new) { @relay.run(stop) }
    rescue ActiveRecord::StatementInvalid
      look(10_000)
    end
  end

  def test_a_query_that_hangs_makes_it_unhealthy_until_the_query_fails
    hanging(Pelton::Outbox::Row, :due) { relay { flunk "nothing to send" } }
    assert_equal [WELL, ILL, WELL], @found
  end

  def test_a_lock_that_hangs_makes_it_unhealthy
    hanging(Pelton::Outbox::Locks::RelayRow, :where) { relay { flunk "nothing to send" } }
    assert_equal [WELL, ILL, WELL], @found
  end

  # Its lease is renewed while it waits for Kafka.
  def test_a_lock_that_hangs_while_kafka_is_awaited_makes_it_unhealthy
    relay do |go_on|
      look(10_000)
      hanging(Pelton::Outbox::Locks::RelayRow, :where) { go_on.call }
    end
    assert_equal [WELL, WELL, ILL, WELL], @found
  end

  def test_waits_for_kafka_and_for_rows_are_no_hang
    relay(begins: -> { look(10_000) }) do |go_on|
      look(10_000)
      assert go_on.call
      look(10_000)
    end
    assert_equal [WELL] * 4, @found, "its begin, a batch twice, and no rows"
  end

  def test_a_relay_that_stands_by_is_healthy_and_ready
    other = Pelton::Outbox::Locks.for(ActiveRecord::Base.connection)
    assert other.acquire
    Pelton::Outbox::Locks::RelayRow.update_all(held_until: Time.now.utc + 3600)
    relay { flunk "another relay works" }
    assert_equal [WELL], @found
  end

  def test_a_relay_that_stops_is_not_ready
    relay do |go_on|
      @stop.ask
      look(10_000)
      go_on.call
    end
    look(10_000)
    assert_equal [[200, 500, []]] * 2, @found
  end

  def test_before_its_start_it_is_healthy
    look(10_000)
    assert_equal [WELL], @found
  end

  def test_a_port_that_is_taken_ends_the_command
    other = TCPServer.new("127.0.0.1", 0)
    @app.config.liveness.port = other.local_address.ip_port
    err = StringIO.new
    code = Pelton::CLI.new(%w[outbox --bootstrap x:9092], app: @app, out: StringIO.new, err: err, env: {}).run
    assert_equal 1, code
    assert_match(/liveness\.port = "127\.0\.0\.1:\d+": cannot listen on this address/, err.string)
  ensure
    other&.close
  end
end
