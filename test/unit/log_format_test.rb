# frozen_string_literal: true

require_relative "../test_helper"
require "json"
require "logger"
require "stringio"
require "pelton/app"
require "pelton/reporters/log"

# The formats of Pelton::Reporters::Log.
class LogFormatTest < Minitest::Test
  def setup
    @bus = Pelton::Notifications.new
    @io = StringIO.new
  end

  def log(target = @io, **options) = @bus.subscribe(Pelton::Reporters::Log.new(target, **options))
  def lines = @io.string.lines

  # With a cause, and a message that would forge a line.
  def failure
    raise IOError, "disk \"full\""
  rescue IOError
    begin
      raise ArgumentError, "no total\n2026-01-01 INFO forged"
    rescue ArgumentError => e
      e
    end
  end

  def fail_once(error = failure)
    @bus.publish("error.occurred", error: error, source: "consumer.consume", group: "g", topic: "orders", partition: 3,
                                   offset: 41, attempt: 2, failure_id: "ab12", client: nil)
  end

  def consumed(error: nil)
    @bus.publish("consumer.consumed", group: "g", topic: "orders", partition: 3, messages: 20, attempt: 1,
                                      consumption_lag: 1.3, processing_lag: 0.1, seconds: 0.01234, error: error)
  end

  def test_json_has_the_facts_the_backtrace_and_the_causes
    log(format: :json)
    fail_once
    object = JSON.parse(lines.fetch(0), symbolize_names: true)
    assert_equal [1, "ERROR", "error.occurred", Process.pid], [lines.size, *object.values_at(:level, :event, :pid)]
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/, object[:time])
    assert_equal ["g", "orders", 3, 41, 2, "ab12"],
                 object.values_at(:group, :topic, :partition, :offset, :attempt, :failure_id)
    refute object.key?(:client)
    error = object[:error]
    assert_equal ["ArgumentError", "no total\\n2026-01-01 INFO forged"], error.values_at(:class, :message)
    assert_match(/log_format_test\.rb:\d+/, error[:backtrace].first)
    assert_equal ["IOError", "disk \"full\""], error[:cause].values_at(:class, :message)
    assert_match(/log_format_test\.rb:\d+/, error.dig(:cause, :backtrace, 0))
  end

  def test_values_of_an_event_do_not_replace_those_of_the_line
    log(format: :json)
    log(format: :logfmt)
    @bus.publish("process.started", process: 1, pid: 7)
    @bus.publish("kafka.log", client: "p#1", level: 4, facility: "CONFWARN", message: "odd")
    started, started_pairs, warned, warned_pairs = lines
    assert_equal [Process.pid, 7], JSON.parse(started).values_at("pid", "event_pid")
    assert_equal ["WARN", 4, "p#1 CONFWARN: odd", "odd"],
                 JSON.parse(warned).values_at("level", "event_level", "message", "event_message")
    assert_match(/ pid=#{Process.pid} .* event_pid=7$/, started_pairs)
    assert_match(/ level=warn .* event_level=4 /, warned_pairs)
  end

  def test_json_of_any_value
    log(format: :json)
    @bus.publish("app.stopped", seconds: Float::NAN, undelivered: 0, unfinished_work: ["a\e[31m", "\xFF"],
                                phases: { groups: { "g" => { jobs: 0.5 } } })
    object = JSON.parse(lines.fetch(0))
    assert_equal ["NaN", { "groups" => { "g" => { "jobs" => 0.5 } } }], object.values_at("seconds", "phases")
  rescue FloatDomainError
    flunk "NaN is no number in JSON"
  end

  def test_logfmt
    log(format: :logfmt)
    fail_once
    assert_equal 1, lines.size
    assert_match(/\Atime=\S+Z level=error pid=#{Process.pid} event=error\.occurred msg="/, lines.first)
    assert_match(/ source=consumer\.consume group=g topic=orders partition=3 offset=41 attempt=2 /, lines.first)
    assert lines.first.end_with?(" failure_id=ab12 error=ArgumentError\n"), lines.first
    assert_includes lines.first, "caused by IOError: disk \\\"full\\\""
    refute_match(/(?<!\\)"disk/, lines.first)
  end

  def test_text_with_backtraces
    log(backtraces: true)
    fail_once
    assert_match(/ ERROR pelton\[\d+\] consumer\.consume \(.*ab12\): ArgumentError: no total\\n2026/, lines[0])
    assert_match(/\A    \S.*log_format_test\.rb:\d+/, lines[1])
    assert_includes @io.string, "\n  caused by IOError: disk \"full\"\n    "
  end

  class Unspeakable < StandardError
    def message = raise(KeyError)
  end

  # Its backtrace is no Array, and its message no String.
  class Odd < StandardError
    def message = :odd
    def backtrace = "one line"
  end

  # None of these lines was written.
  def test_errors_and_values_of_any_kind_have_a_line_in_each_format
    anonymous = Class.new(StandardError)
    caused = RuntimeError.new("outer").tap { |error| error.define_singleton_method(:cause) { Unspeakable.new } }
    %i[text logfmt json].each do |format|
      setup
      log(format: format, backtraces: true)
      others = []
      @bus.subscribe("error.occurred") { |event| others << event[:error] if event[:source].start_with?("subscriber") }
      [Unspeakable.new, Odd.new, anonymous.new("none"), caused].each { |error| fail_once(error) }
      { "a" => { "\xFF" => BasicObject.new }, "b" => BasicObject.new, "c" => [:x] }.each do |topic, label|
        @bus.publish("message.delivery_failed", client: "p", topic: topic, partition: 0, label: label,
                                                error: IOError.new("no"))
      end
      @bus.publish("app.stopped", seconds: 1, undelivered: 0, unfinished_work: [],
                                  phases: { groups: { "gr\xFF" => { jobs: 1.0 } } })
      assert_empty others, format
      assert_equal 8, lines.grep(/#{Process.pid}/).size, format
      assert_includes @io.string, "(its message raised KeyError)"
      assert_includes @io.string, anonymous.to_s
    end
    assert_equal({ "groups" => { "gr\\xFF" => { "jobs" => 1.0 } } }, JSON.parse(lines.last)["phases"])
  end

  # A database's error may quote a statement of megabytes.
  def test_a_long_message_is_cut
    error = IOError.new("é" * 1_000_000)
    %i[text logfmt json].each do |format|
      setup
      log(format: format)
      fail_once(error)
      assert_includes 10_000..21_000, @io.string.count("é"), format
      assert_includes @io.string, "é…", format
    end
    short = IOError.new("é" * 10_000)
    assert_equal short.message, Pelton::EventText.message(short)
  end

  def test_causes_that_are_a_circle_end
    log(format: :json)
    first = RuntimeError.new("one")
    second = RuntimeError.new("two")
    first.define_singleton_method(:cause) { second }
    second.define_singleton_method(:cause) { first }
    fail_once(first)
    error = JSON.parse(lines.fetch(0))["error"]
    assert_equal [%w[one two], nil], [[error["message"], error.dig("cause", "message")], error.dig("cause", "cause")]
  end

  def test_a_line_for_each_batch_only_if_it_is_wanted
    log
    consumed
    assert_empty lines
    refute @bus.wanted?("consumer.consumed")
    log(batches: true)
    consumed
    consumed(error: IOError.new)
    assert_match(%r{INFO  pelton\[\d+\] g orders/3 consumed 20 messages in 12\.3 ms, attempt 1, 1\.3 s old$}, lines[0])
    assert_match(/failed with 20 messages/, lines[1])
    assert_equal 2, lines.size
  end

  def test_a_logger_gets_the_message_alone
    log(Logger.new(@io, formatter: ->(severity, _time, _name, text) { "#{severity} #{text}\n" }), format: :json)
    fail_once
    severity, json = lines.fetch(0).split(" ", 2)
    assert_equal ["ERROR", "error.occurred", nil], [severity, *JSON.parse(json).values_at("event", "time")]
  end

  # A count has no event of its own.
  def test_counts_of_repeated_lines_have_the_format_too
    log(format: :json)
    12.times { @bus.publish("worker.replaced", worker: "pelton.worker#1") }
    Pelton::RepeatLimit.report(last: true)
    assert_operator lines.size, :<, 12
    objects = lines.map { |line| JSON.parse(line) }
    assert_match(/and \d+ more like it/, objects.last["message"])
  end

  def test_a_format_that_does_not_exist
    error = assert_raises(Pelton::ConfigError) { Pelton::Reporters::Log.new(@io, format: :jsn) }
    assert_includes error.message, "did you mean json?"
  end
end
