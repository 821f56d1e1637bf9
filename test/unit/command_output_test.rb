# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/cli/output"
require "pelton/cli/progress"
require "pelton/cli/values"
require "stringio"

# What commands print: tables, JSON, colors, progress; and the values that they read.
class CommandOutputTest < Minitest::Test
  class TerminalIO < StringIO
    def tty? = true
    def winsize = [24, 80]
  end

  ROWS = [{ topic: "orders", partitions: 12, at: nil }, { topic: "b", partitions: 3, at: Time.at(0) }].freeze

  def output(io = StringIO.new, env: {}, **options)
    yield Pelton::CLI::Output.new(io, env: env, **options)
    io.string
  end

  def test_table_is_aligned
    assert_equal <<~TEXT, output { |out| out.table(ROWS) }
      TOPIC   PARTITIONS  AT
      orders          12  -
      b                3  1970-01-01T00:00:00.000Z
    TEXT
    assert_equal "NAME\norders\nb\n", output { |out| out.table(ROWS, columns: { topic: "NAME" }) }
    assert_equal "no topics\n", output { |out| out.table([], empty: "no topics") }
  end

  def test_json_instead_of_text
    assert_equal [{ "topic" => "orders", "partitions" => 12 }],
                 JSON.parse(output(json: true) { |out| out.table([{ topic: "orders", partitions: 12 }]) })
    assert_equal [], JSON.parse(output(json: true) { |out| out.table([], empty: "no topics") })
    assert_equal({ "a" => { "b" => 1 } }, JSON.parse(output(json: true) { |out| out.record({ "a" => { "b" => 1 } }) }))
    assert_equal %({"a":1}\n), output(json: true) { |out| out.puts("text") || out.line({ a: 1 }) { "text" } }
    assert_equal "text\n", output { |out| out.line({ a: 1 }) { "text" } }
  end

  def test_record_indents_nested_facts
    facts = { "ruby" => { "version" => "4.0", "yjit" => true }, "empty" => [], "list" => [1, 2] }
    assert_equal <<~TEXT, output { |out| out.record(facts) }
      ruby
        version            4.0
        yjit               yes
      empty                none
      list                 1; 2
    TEXT
  end

  def test_color_only_on_a_terminal_without_no_color
    paint = ->(out) { out.puts(out.paint("late", :red)) }
    assert_equal "\e[31mlate\e[0m\n", output(TerminalIO.new, &paint)
    assert_equal "late\n", output(&paint)
    assert_equal "late\n", output(TerminalIO.new, env: { "NO_COLOR" => "1" }, &paint)
    assert_equal "\e[31mlate\e[0m\n", output(TerminalIO.new, env: { "NO_COLOR" => "" }, &paint)
    assert_equal "late\n", output(TerminalIO.new, env: { "TERM" => "dumb" }, &paint)
    assert_empty output(TerminalIO.new, json: true, &paint)
  end

  def test_colored_cells_are_aligned_by_what_is_seen
    text = output(TerminalIO.new) do |out|
      out.table([{ state: out.paint("ok", :green), n: 1 }, { state: "failed", n: 2 }])
    end
    assert_equal ["STATE   N", "ok      1", "failed  2"], text.gsub(/\e\[\d+m/, "").lines(chomp: true)
    assert_includes text, "\e[32mok\e[0m      1"
  end

  def test_control_characters_from_kafka_are_escaped
    text = output(TerminalIO.new) { |out| out.table([{ group: "a\e[2Jb", other: out.paint("x\e[2J", :red) }]) }
    refute_includes text, "\e[2J"
    assert_includes text, 'a\e[2Jb'
    assert_includes output { |out| out.record({ "a" => "b\e[2J" }) }, 'b\e[2J'
  end

  # --- progress ---

  def progress(io, total:, steps:)
    now = 0.0
    bar = Pelton::CLI::Progress.new(io, "redriving", total: total, clock: -> { now })
    steps.each do |count, seconds|
      now += seconds
      bar.advance(count)
    end
    bar.finish
    io.string
  end

  def test_progress_on_a_terminal_shows_count_rate_and_remaining_time
    text = progress(TerminalIO.new, total: 4000, steps: [[1000, 2], [1000, 2]])
    drawn = text.split("\r\e[K").reject(&:empty?)
    assert_equal ["redriving  [#####...............]  1,000 of 4,000 (25%)  500/s  6.0 s left",
                  "redriving  [##########..........]  2,000 of 4,000 (50%)  500/s  4.0 s left",
                  "redriving: 2,000 of 4,000 (50%) in 4.0 s, 500/s\n"], drawn
    text = progress(TerminalIO.new, total: nil, steps: [[10, 1], [90, 100]])
    assert_equal ["redriving  10  10/s", "redriving  100  1/s", "redriving: 100 in 1 min 41 s, 1/s\n"],
                 text.split("\r\e[K").reject(&:empty?)
  end

  def test_progress_draws_at_most_ten_times_a_second
    text = progress(TerminalIO.new, total: nil, steps: [[1, 0.001]] * 250)
    assert_includes 3..4, text.scan("redriving  ").size
  end

  def test_progress_elsewhere_is_one_line_at_the_end
    assert_equal "redriving: 40 of 40 (100%) in 10 s, 4/s\n", progress(StringIO.new, total: 40, steps: [[40, 10]])
    assert_empty progress(StringIO.new, total: 40, steps: [])
  end

  # --- values ---

  Values = Pelton::CLI::Values

  def test_durations
    { "30s" => 30, "15m" => 900, "15min" => 900, "1h30m" => 5400, "7d" => 604_800, "2w" => 1_209_600, "250ms" => 0.25,
      "1.5h" => 5400 }.each { |text, seconds| assert_in_delta seconds, Values.duration("--x", text), 1e-9, text }
    ["", "5", "h", "-5m", "5 m", "5m\n6"].each do |text|
      assert_raises(Pelton::ConfigError, text) { Values.duration("--x", text) }
    end
  end

  def test_rates
    { "100" => 100, "100/s" => 100, "6000/min" => 100, "6000/m" => 100, "90/h" => 0.025, "0.5" => 0.5 }
      .each { |text, rate| assert_in_delta rate, Values.rate("--rate", text), 1e-9, text }
    ["", "0", "0/s", "0.0", "-1", "5/d", "5/week", "1e3", "9" * 400, "5\n"].each do |text|
      error = assert_raises(Pelton::ConfigError, text) { Values.rate("--rate", text) }
      assert_includes error.message, "expected a rate, such as 100/s, 6000/min or 10/h"
    end
  end

  def test_times
    now = Time.at(1_000_000)
    assert_equal now - 7200, Values.time("--x", "2h", now: now)
    assert_equal Time.utc(2026, 11, 23, 8), Values.time("--x", "2026-11-23T08:00:00Z")
    assert_equal Time.utc(2026, 11, 23, 6), Values.time("--x", "2026-11-23T08:00:00+02:00")
    assert_equal Time.local(2026, 11, 23, 8), Values.time("--x", "2026-11-23T08:00:00", now: Time.local(2026, 11, 23))
    assert_equal Time.local(2026, 11, 23), Values.time("--x", "2026-11-23")
    ["yesterday", "2026-13-01", "2026-11-23T25:00:00Z", ""].each do |text|
      error = assert_raises(Pelton::ConfigError, text) { Values.time("--x", text) }
      assert_includes error.message, "expected a time, such as"
    end
  end

  def test_day_that_does_not_exist_is_not_the_one_after
    ["2026-02-30", "2026-02-30T00:00:00Z", "2026-02-29T00:00:00"].each do |text|
      error = assert_raises(Pelton::ConfigError, text) { Values.time("--x", text) }
      assert_includes error.message, "expected a time, such as"
    end
  end

  def test_local_time_in_summer_is_not_read_with_the_offset_of_winter
    before = ENV.fetch("TZ", nil)
    ENV["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
    winter = Time.utc(2026, 1, 1)
    assert_equal Time.utc(2026, 7, 1, 6, 0, 0.5), Values.time("--x", "2026-07-01T08:00:00.5", now: winter)
    assert_equal Time.utc(2026, 1, 15, 7), Values.time("--x", "2026-01-15T08:00:00", now: winter)
  ensure
    ENV["TZ"] = before
  end

  def test_partitions
    assert_equal ["orders", nil], Values.partitions("-t", "orders")
    assert_equal ["orders", [0, 10]], Values.partitions("-t", "orders:0,10")
    ["", ":1", "orders:", "orders:a", "orders:0,", "orders:-1"].each do |text|
      assert_raises(Pelton::ConfigError, text) { Values.partitions("-t", text) }
    end
  end
end
