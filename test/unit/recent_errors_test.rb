# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "pelton/reports/recent_errors"
require "pelton/reports/report"
require "pelton/runtime/notifications"

# The errors of a process's reports, with their backtraces. (Other fields: reports_test.rb.)
class RecentErrorsTest < Minitest::Test
  def setup
    @bus = Pelton::Notifications.new
    @errors = Pelton::Reports.const_get(:RecentErrors).new(@bus)
    @now = Pelton::Clock.now
  end

  def teardown = @errors.close

  def failed(error, **facts) = @bus.publish("error.occurred", error: error, source: "x", **facts)

  # What a report has, some seconds later. It is one that readers take.
  def report(seconds = 0)
    found = Pelton::Clock.stub(:now, @now + seconds) { @errors.report }
    facts = { version: 1, id: "h:1:2", at: 1.0, started_at: 0.5, interval: 5, host: "h", pid: 1, process: nil,
              name: "n", pelton: "1", ruby: "3", state: "running", groups: [], threads: 3, rss: nil, workers: 5,
              jobs: { running: 0, waiting: 0, aside: 0 }, rates: { in: {}, out: 0, errors: 0 }, running: [],
              partitions: {}, left_out: 0, settings: {}, **found }
    parsed = Pelton::Reports::Report.parse(JSON.generate(facts)) || flunk("no report: #{found}")
    assert_equal [found[:errors].map { |row| { **row } }, found[:backtraces]], [parsed.errors, parsed.backtraces]
    found
  end

  def raised(message = "no total", lines: 3)
    lines.zero? ? raise(KeyError, message) : raised(message, lines: lines - 1)
  rescue KeyError => e
    e
  end

  def with_cause(message = "outer")
    raise KeyError, "inner"
  rescue KeyError
    begin
      raise ArgumentError, message
    rescue ArgumentError => e
      e
    end
  end

  def test_an_error_has_its_whole_backtrace
    error = raised
    failed(error)
    found = report
    row = found[:backtraces].first
    assert_equal [row[:id], 1], [found[:errors].first[:backtrace], row[:parts].size]
    assert_equal ["KeyError", "no total", error.backtrace, 0, 0], row[:parts].first.values
    assert_operator error.backtrace.size, :>, 10
    assert_match(/\A\h{16}\z/, row[:id])
  end

  def test_causes_follow_with_the_lines_that_are_their_own
    failed(error = with_cause)
    found = report
    outer, inner = found[:backtraces].first[:parts]
    assert_equal [%w[ArgumentError outer], %w[KeyError inner]],
                 (found[:backtraces].first[:parts].map { |part| part.values_at(:class, :message) })
    assert_equal [error.backtrace, error.cause.backtrace.first(1)], [outer, inner].map { |part| part[:lines] }
    assert_equal [0, error.cause.backtrace.size - 1], [outer, inner].map { |part| part[:shared] }
  end

  # The text of such a cause may be the payload.
  def test_the_cause_of_a_decode_error_is_left_out
    begin
      raise "secret payload"
    rescue RuntimeError
      failed(begin
        raise Pelton::DecodeError.new("orders", 0, 1, "no JSON")
      rescue Pelton::DecodeError => e
        e
      end)
    end
    found = report
    assert_equal ["Pelton::DecodeError"], (found[:backtraces].first[:parts].map { |part| part[:class] })
    refute_includes found.inspect, "secret payload"
  end

  def test_messages_have_no_passwords_of_urls_and_one_line
    failed(raised("https://joe:s3cret@registry refused\nthe second line"))
    found = report
    texts = [found[:errors].first[:message], found[:backtraces].first[:parts].first[:message]]
    assert_equal ["https://[hidden]@registry refused"] * 2, texts
  end

  def test_the_same_lines_are_one_backtrace_whatever_the_message
    found = Array.new(5) { |number| raised("no #{number}") }
    found.each { |error| failed(error) }
    found = report
    assert_equal [1, 1], [found[:errors].map { |row| row[:backtrace] }.uniq.size, found[:backtraces].size]
  end

  # A process that failed once a day ago would send kilobytes each 5 seconds.
  def test_a_backtrace_is_in_the_reports_of_a_minute_and_after_ten_minutes_again
    errors = Array.new(20) { raised }
    again = lambda do |seconds|
      failed(errors.pop)
      report(seconds)[:backtraces].size
    end
    counts = [0, 5, 59, 61, 599, 601, 640, 662].map(&again)
    assert_equal [1, 1, 1, 0, 0, 1, 1, 0], counts
    assert_equal 0, report(1300)[:backtraces].size, "it did not fail again"
  end

  def test_the_row_of_an_error_stays_as_it_is
    failed(raised)
    before = report[:errors]
    failed(with_cause)
    assert_equal before, report(90)[:errors].first(1)
  end

  def test_a_report_has_three_backtraces_and_others_take_turns
    (1..7).each { |lines| failed(raised(lines: lines)) }
    sent = Array.new(3) { |number| report(number * 5)[:backtraces].map { |row| row[:id] } }
    assert_equal [[3, 3, 3], 7], [sent.map(&:size), sent.flatten.uniq.size]
  end

  # A report must stay below the largest message that Kafka takes.
  def test_a_long_backtrace_is_cut
    error = KeyError.new("x")
    error.set_backtrace(Array.new(150) { |number| "#{"é" * 1_000}#{number}" })
    failed(error)
    part = report[:backtraces].first[:parts].first
    assert_operator part[:lines].sum(&:bytesize), :<=, 24_576
    assert_equal 150, part[:lines].size + part[:more]
    assert_equal 301, part[:lines].first.size
    assert_operator part[:lines].size, :>, 30
  end

  def test_an_error_without_a_backtrace_or_whose_methods_raise
    failed(KeyError.new("new"))
    failed(Class.new(StandardError) { def backtrace = raise("never") }.new("odd"))
    found = report
    assert_equal [[nil, nil], []], [found[:errors].map { |row| row[:backtrace] }, found[:backtraces]]
  end

  # An exception may hold anything, for example a message with its payload.
  def test_no_error_is_kept_after_the_report
    failed(raised)
    report
    entries = @errors.instance_variable_get(:@entries)
    assert_equal [nil], entries.map(&:event)
  end

  # Each one was, on the thread that failed: 1,000 failures a second took more than 1 % of a core.
  def test_of_many_failures_only_the_last_ones_are_read
    read = []
    odd = Class.new(StandardError) { define_method(:message) { (read << [Thread.current, object_id]) && "no total" } }
    Thread.new { 500.times { failed(odd.new) } }.join
    assert_equal 0, read.size
    assert_equal [10, 500], [report[:errors].size, @errors.count]
    assert_equal [[Thread.current], 10], [read.map(&:first).uniq, read.uniq.size]
  end
end
