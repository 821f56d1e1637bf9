# frozen_string_literal: true

require_relative "../test_helper"
require "support/web_kit"

# The dashboard's page of errors, and the page of one error with its backtrace. (From a real topic, in Chromium:
# test/integration/web_browser.rb.)
class WebErrorsTest < Minitest::Test
  include WebKit

  ERROR = { at: 0, source: "consumer.consume", class: "KeyError", message: "no total", group: "billing",
            topic: "orders", partition: 1, offset: 42, failure_id: "f1" }.freeze
  PARTS = [{ class: "KeyError", message: "no 7", lines: ["app/total.rb:7:in `total'", "app.rb:3:in `consume'"],
             shared: 0, more: 0 },
           { class: "IOError", message: "<gone>", lines: ["io.rb:1:in `read'"], shared: 1, more: 20 }].freeze

  def now = @now ||= Pelton::Clock.wall
  def error(seconds, **more) = { **ERROR, at: now - seconds, **more }
  def backtrace(id, parts = PARTS) = { id: id, at: now - 60, parts: parts }
  def timeline(**query) = get("/errors", query).body[/id="timeline".*/m]
  # The addresses of the pages of errors, in their order.
  def pages(html) = html.scan(%r{<b><a href="/error\?id=(\h+)">}).flatten

  # --- repeats ------------------------------------------------------------------------------------------------------

  # A failure that repeats each second filled the timeline.
  def test_failures_that_were_raised_at_the_same_lines_are_one_row
    reported(report(errors: [error(50, message: "no 1", backtrace: "b1"), error(20, message: "no 2", backtrace: "b1"),
                             error(15, backtrace: "b2")]),
             report(pid: 2, errors: [error(10, message: "no 3", backtrace: "b1", offset: 44)]))
    html = timeline
    assert_equal 2, pages(html).uniq.size
    text = Answer.new(200, {}, html).text
    assert_match(%r{KeyError \s*no 3 \s*3 \s*\S+ \S+ UTC \s*orders/1 offset 44 \s*web:2 \s*f1 \s*2 earlier}, text)
    assert_match(/2 earlier failures \s*\S+ \S+ UTC .*web:1 .*web:1 .*KeyError \s*no total \s*1 \s*– /m, text)
  end

  # An older Pelton reports no backtraces; and another group, topic or class is another error.
  def test_other_failures_are_rows_of_their_own
    others = [{ message: "b" }, { class: "IOError" }, { group: "audit" }, { topic: "bills" }, { source: "x" },
              { backtrace: "b1" }, {}]
    reported(report(errors: others.map.with_index { |change, index| error(index, **change) } + [error(9)]))
    assert_equal 7, pages(timeline).uniq.size
    assert_includes timeline, "1 earlier failure<"
  end

  def test_a_row_unfolds_ten_earlier_failures
    reported(report(errors: Array.new(30) { |number| error(number, failure_id: "id-#{number}.") }))
    text = Answer.new(200, {}, timeline).text
    assert_match(/29 earlier failures .*id-1\. .*id-10\. \s*all 30 failures/m, text)
    refute_includes text, "id-11."
  end

  # --- one error ----------------------------------------------------------------------------------------------------

  def test_an_error_has_a_page_with_its_backtrace_and_its_causes
    reported(report(errors: [error(90, message: "no 6", backtrace: "b1"), error(60, message: "no 7", backtrace: "b1")],
                    backtraces: [backtrace("b1")]))
    answer = get("/error", { id: pages(timeline).first })
    assert_match(/Error KeyError .*Reported 2 times in an hour .*First .*ago .*Last .*ago .*Processes 1/m, answer.text)
    assert_match(/KeyError: no 7 .*Group \s*billing .*Reported by \s*consumer\.consume/m, answer.text)
    assert_includes answer.body, "app/total.rb:7:in `total&#39;\napp.rb:3:in `consume&#39;</pre>"
    assert_match(/Caused by IOError .*<gone> .*io\.rb:1:in `read'\n… 20 lines not reported\n… 1 line as above/m,
                 answer.text)
    assert_match(%r{Failures .*no 7 .*orders/1 offset 42 .*no 6 }m, answer.text)
    refute_includes answer.body, "<gone>"
  end

  def test_an_error_without_a_backtrace_says_why
    reported(report(errors: [error(9), error(8, backtrace: "b1")]))
    known, old = pages(timeline).map { |id| get("/error", { id: id }).text }
    assert_match(/The reports that were read do not have it/, known)
    assert_match(/The error has none, or its process runs an older version/, old)
  end

  def test_an_unknown_error_is_404
    answer = get("/error", { id: "<b>" })
    assert_equal 404, answer.status
    assert_match(/No process reported this error within the last hour/, answer.text)
  end

  def test_an_error_is_escaped_and_cut_as_its_report_says_it
    evil = "<script>alert(1)</script>#{"x" * 5_000}"
    parts = [{ class: evil, message: evil, lines: [evil] * 5, shared: 0, more: 0 }] * 30
    reported(report(errors: [error(5, class: evil, message: evil, group: evil, topic: evil, backtrace: evil,
                                      failure_id: evil, source: evil)], backtraces: [backtrace(evil, parts)]))
    answer = get("/error", { id: pages(timeline).first })
    assert_equal [200, []], [answer.status, @reported]
    refute_includes answer.body, "<script>alert"
    assert_operator answer.text.size, :<, 40_000
  end

  # A backtrace is in the reports of a minute. The error goes on.
  def test_a_backtrace_is_remembered_longer_than_the_report_that_had_it
    reported(report(at: now - 30, errors: [error(90, backtrace: "b1")], backtraces: [backtrace("b1")]),
             report(at: now - 20, errors: [error(90, backtrace: "b1"), error(25, backtrace: "b1")]))
    assert_includes get("/error", { id: pages(timeline).first }).text, "app/total.rb:7"
    rows = Array.new(400) { |number| backtrace("c#{number}") }
    reported(report(at: now - 10, errors: [error(90, backtrace: "b1")], backtraces: rows))
    refute_nil @web.reports.backtrace("c399")
    assert_nil @web.reports.backtrace("b1"), "of too many, the oldest are forgotten"
  end

  def test_a_process_leads_to_its_errors_and_counts_repeats
    reported(report(errors: [error(20, backtrace: "b1"), error(10, backtrace: "b1"), error(5, class: "IOError")]))
    answer = get("/process", { id: "web:1:1" })
    assert_match(/IOError : no total .*KeyError : no total 2 times/m, answer.text)
    ids = pages(timeline)
    assert_equal ids, answer.body[/id="errors".*/m].scan(/error\?id=(\h+)/).flatten
    assert_equal [200, 200], (ids.map { |id| get("/error", { id: id }).status })
  end
end
