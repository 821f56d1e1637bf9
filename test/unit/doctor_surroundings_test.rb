# frozen_string_literal: true

require "test_helper"
require "pelton/app"
require "pelton/cli/doctor"

# `pelton doctor` on what workers and processes share: a database's connections, cores and memory.
class DoctorSurroundingsTest < Minitest::Test
  def setup = @app = Pelton::App.new
  def examine(**options) = Pelton::CLI::Doctor.new(@app, offline: true, **options).examine

  def assert_found(level, about, text, report = examine)
    found = report.findings.select { |finding| finding[:about] == about && finding[:level] == level }
    assert(found.any? { |finding| finding[:text].match?(text) }, "no #{level} of #{about}: #{report.findings}")
  end

  def refute_found(about, report = examine)
    assert_empty(report.findings.select { |finding| finding[:about] == about })
  end

  # A connection whose server allows this many.
  Connection = Struct.new(:adapter_name, :allowed) do
    def select_value(query) = query.include?("max_connections") ? allowed.to_s : raise(query)
  end

  # A pool; `with_connection` fails if there is no connection.
  Pool = Struct.new(:connections, :connection) do
    def size = connections
    def with_connection = yield(connection || raise(::ActiveRecord::ActiveRecordError, "refused"))
  end

  Settings = Struct.new(:name, :pool)

  # What there is of Active Record in an app. more: {"animals" => 3}, further databases.
  def with_database(connections, connection: nil, **more)
    pool = Pool.new(connections, connection)
    all = more.empty? ? [] : { primary: connections, **more }.map { |name, size| Settings.new(name.to_s, size) }
    configurations = Object.new
    configurations.define_singleton_method(:configs_for) { |env_name:| env_name == "test" ? all : raise(env_name) }
    base = Module.new do
      define_singleton_method(:connection_pool) { pool }
      define_singleton_method(:configurations) { configurations }
    end
    Object.const_set(:ActiveRecord, Module.new do
      const_set(:Base, base)
      const_set(:ActiveRecordError, Class.new(StandardError))
      const_set(:ConnectionHandling, Module.new { const_set(:DEFAULT_ENV, -> { "test" }) })
    end)
    yield
  ensure
    Object.send(:remove_const, :ActiveRecord)
  end

  # With the question to the database server, which `offline` leaves out.
  def asked(**options)
    report = Pelton::CLI::Doctor::Report.new
    Pelton::CLI::Doctor::Database.new(@app.config, timeout: 5, **options).examine(report)
    report
  end

  def test_pool_with_fewer_connections_than_workers_is_a_warning
    @app.config.concurrency = 7
    with_database(5) do
      assert_found :warning, "database", /the pool has 5 connections for 7 workers.*set `pool` in database\.yml to 7/
      assert_equal({ "connections in the pool" => 5, "workers" => 7 }, examine.facts["database"])
    end
  end

  def test_pool_with_enough_connections_is_no_finding
    with_database(5) { refute_found "database" }
    refute_found "database"
    refute examine.facts.key?("database"), "without Active Record"
  end

  def test_pool_of_each_database_is_compared_with_the_workers
    @app.config.concurrency = 4
    with_database(5, animals: 3) do
      report = examine
      assert_found :warning, "database", /the pool of animals has 3 connections for 4 workers/, report
      assert_equal 1, (report.findings.count { |finding| finding[:about] == "database" })
      assert_equal({ "connections in the pool of primary" => 5, "connections in the pool of animals" => 3,
                     "workers" => 4 }, report.facts["database"])
    end
  end

  def test_relay_of_the_outbox_needs_a_connection_beside_the_workers
    %w[outbox prices].each { |name| @app.background(name) { nil } }
    with_database(5, animals: 5) do
      report = examine
      text = /the pool of primary has 5 connections for 5 workers and the thread "outbox", so.*database\.yml to 6/
      assert_found :warning, "database", text, report
      assert_equal 1, (report.findings.count { |finding| finding[:about] == "database" })
      assert_equal "outbox", report.facts["database"]["other threads"]
    end
    with_database(6) { refute_found "database" }
  end

  %w[PostgreSQL Mysql2 Trilogy].each do |adapter|
    define_method("test_pools_of_all_processes_are_compared_with_what_#{adapter}_allows") do
      with_database(25, connection: Connection.new(adapter, 100)) do
        refute_found "database", asked(processes: 4)
        report = asked(processes: 5)
        assert_found :warning, "database", /5 processes with a pool of 25 may open 125.*the server allows 100/, report
        assert_equal({ "connections in the pool" => 25, "workers" => 5, "processes" => 5,
                       "connections that the server allows" => 100 }, report.facts["database"])
      end
    end
  end

  def test_relay_of_the_outbox_has_a_connection_beside_the_pool
    with_database(25, connection: Connection.new("PostgreSQL", 100)) do
      text = /4 processes with a pool of 25 and one for the outbox may open 104 connections, and the server allows 100/
      assert_found :warning, "database", text, asked(processes: 4, threads: ["outbox"])
      refute_found "database", asked(processes: 3, threads: ["outbox"])
    end
  end

  def test_database_without_a_limit_is_not_asked
    with_database(25, connection: Connection.new("SQLite")) { refute_found "database", asked(processes: 1000) }
  end

  def test_database_that_does_not_answer_is_a_note
    with_database(25) { assert_found :note, "database", /does not answer: refused/, asked }
    with_database(25) { refute_found "database" }
  end

  def test_processes_share_cores_and_memory
    @app.config.memory = Pelton::Container.memory / 4
    refute_found "memory"
    assert_found :warning, "memory", /for each of 3 processes is more than half/, examine(processes: 3)
    assert_found :warning, "processes", /1000 processes, \d+ core/, examine(processes: 1000)
    refute_found "processes"
  end
end
