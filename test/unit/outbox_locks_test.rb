# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"
begin
  require "pelton/outbox/locks"
  require "pelton/outbox/relay"
rescue LoadError
  nil # no Active Record for this Ruby: the tests say so
end

# The right to relay on PostgreSQL and MySQL: what is asked of the database. (Leases: see OutboxTest.)
class OutboxLocksTest < Minitest::Test
  # A database connection of Active Record, and of PostgreSQL's driver.
  class Connection
    # statements: all of them; waits: [seconds, …] of each wait for a NOTIFY. answers: {pattern => answer, …}; told:
    # the notifications that come.
    attr_reader :statements, :waits, :ended, :adapter_name
    attr_accessor :answers, :told

    def initialize(adapter = "PostgreSQL")
      @adapter_name = adapter
      @answers = {}
      @told = []
      @statements = []
      @waits = []
    end

    def select_value(sql)
      @statements << sql
      @answers.find { |pattern, _| sql.include?(pattern) }&.last
    end

    def execute(sql)
      @statements << sql
      raise @answers[sql] if @answers.key?(sql)
    end

    def quote(text) = "'#{text}'"
    def disconnect! = @ended = true
    def raw_connection = self
    def notifies = @told.shift

    def wait_for_notify(seconds)
      @waits << seconds
      @told.shift
    end
  end

  # Answers these one after the other, and then true.
  Stop = Struct.new(:answers) do
    def stop? = answers.empty? || answers.shift
  end

  Locks = Pelton::Outbox::Locks if defined?(ActiveRecord::Base)

  def setup
    skip "no gem activerecord for Ruby #{RUBY_VERSION}" unless defined?(ActiveRecord::Base)

    @connection = Connection.new
    @lock = Locks.for(@connection)
  end

  def statements = @connection.statements.slice!(0..)

  def test_each_database_has_its_lock_and_only_postgresql_is_notified
    { "PostgreSQL" => Locks::Postgres, "PostGIS" => Locks::Postgres, "Mysql2" => Locks::MySQL,
      "Trilogy" => Locks::MySQL, "SQLite" => Locks::Lease }.each do |adapter, lock|
      connection = Connection.new(adapter)
      assert_instance_of lock, Locks.for(connection), adapter
      connection.statements.clear
      Locks.notify(connection)
      assert_equal lock == Locks::Postgres ? ["NOTIFY pelton_outbox"] : [], connection.statements, adapter
    end
  end

  # --- PostgreSQL ---

  def test_an_advisory_lock_is_held_as_long_as_its_session_lives
    @connection.answers = { "pg_try_advisory_lock" => true, "pg_backend_pid" => 7 }
    assert @lock.acquire
    assert_includes statements, "LISTEN pelton_outbox"
    assert_predicate @lock, :held?
    @connection.answers["pg_backend_pid"] = 8
    refute_predicate @lock, :held?, "Active Record connected again, so another relay may have the lock"
  end

  def test_an_advisory_lock_of_another_relay_is_not_acquired
    @connection.answers = { "pg_try_advisory_lock" => false }
    refute @lock.acquire
    assert_equal 1, statements.size, "it listens only to what it will send"
  end

  def test_a_released_advisory_lock_is_the_one_that_was_acquired
    @connection.answers = { "pg_try_advisory_lock" => true }
    @lock.acquire
    key = statements.first[/lock(\(.*\))/, 1]
    @lock.release
    assert_equal ["UNLISTEN pelton_outbox", "SELECT pg_advisory_unlock#{key}"], statements
  end

  # The connection goes back to the pool, and its session would have the lock for good.
  def test_an_advisory_lock_whose_listen_fails_ends_with_its_session
    @connection.answers = { "pg_try_advisory_lock" => true,
                            "LISTEN pelton_outbox" => ActiveRecord::StatementInvalid.new("no LISTEN") }
    assert_raises(ActiveRecord::StatementInvalid) { @lock.acquire }
    assert @connection.ended
  end

  def test_a_relay_whose_lock_cannot_be_released_ends_its_session
    @connection.answers = { "UNLISTEN pelton_outbox" => ActiveRecord::StatementInvalid.new("cut off") }
    Pelton::Outbox::Relay.new(Pelton::App.new, batch: 1, poll: 1).send(:release, @lock, @connection)
    assert @connection.ended
  end

  # What was notified meanwhile is read with the next batch, so it is no reason to look again.
  def test_a_notification_ends_the_wait_and_takes_all_others_with_it
    @connection.told = [nil, "a", "b", "c"]
    @lock.wait(30, Stop.new([false] * 9))
    assert_equal [[1, 1], []], [@connection.waits, @connection.told]
  end

  def test_the_wait_looks_for_a_stop_each_second
    @lock.wait(30, Stop.new([false, false]))
    assert_equal [1, 1], @connection.waits
  end

  def test_the_wait_ends_in_time
    started = Pelton::Clock.now
    @lock.wait(0.02, Stop.new([false] * 1_000_000))
    assert_operator Pelton::Clock.now - started, :>=, 0.02
    assert_operator @connection.waits.max, :<=, 0.02
  end

  # --- MySQL and MariaDB ---

  def test_a_named_lock_belongs_to_its_database
    connection = Connection.new("Mysql2")
    connection.answers = { "DATABASE()" => "shop" }
    lock = Locks.for(connection)
    { acquire: "SELECT GET_LOCK('pelton.shop', 0)", held?: "SELECT IS_USED_LOCK('pelton.shop') = CONNECTION_ID()" }
      .each do |name, sql|
        { 1 => true, 0 => false, nil => false }.each do |answer, expected|
          connection.answers = { "LOCK" => answer }
          assert_equal [expected, sql], [lock.public_send(name), connection.statements.last]
        end
      end
    lock.release
    assert_equal "SELECT RELEASE_LOCK('pelton.shop')", connection.statements.last
  end

  def test_the_name_of_a_lock_is_no_longer_than_mysql_allows
    connection = Connection.new("Trilogy")
    connection.answers = { "DATABASE()" => "d" * 64 }
    Locks.for(connection).acquire
    assert_equal 64, connection.statements.last[/'(.*)'/, 1].size
  end
end
