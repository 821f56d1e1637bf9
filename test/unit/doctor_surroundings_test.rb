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

  # What there is of Active Record in an app.
  def with_database(connections)
    pool = Array.new(connections) # has a size
    base = Module.new { define_singleton_method(:connection_pool) { pool } }
    Object.const_set(:ActiveRecord, Module.new { const_set(:Base, base) })
    yield
  ensure
    Object.send(:remove_const, :ActiveRecord)
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

  def test_processes_share_cores_and_memory
    @app.config.decoding_memory = Pelton::CLI::Doctor::Machine.memory / 4
    refute_found "decoding_memory"
    assert_found :warning, "decoding_memory", /for each of 3 processes is more than half/, examine(processes: 3)
    assert_found :warning, "processes", /1000 processes, \d+ core/, examine(processes: 1000)
    refute_found "processes"
  end
end
