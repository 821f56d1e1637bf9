# frozen_string_literal: true

require_relative "../test_helper"
require "support/web_kit"
require "support/fake_messages"

# The dashboard's pages about server processes, and what it remembers of their reports. (From a real topic:
# test/integration/web.rb.)
class WebProcessesTest < Minitest::Test
  include WebKit

  JOB = { group: "billing", consumer: "OrdersConsumer", topic: "orders", partition: 0, kind: "consume",
          since: 0, called: nil, messages: 10, offset: 12 }.freeze
  ERROR = { at: 0, source: "consumer.consume", class: "KeyError", message: "no total", group: "billing",
            topic: "orders", partition: 1, offset: 42, failure_id: "f1" }.freeze

  # The wall clock stands still: on a busy machine, too, a job that began 150 s ago runs for 2 min 30 s.
  def clock_stopped(&test) = Pelton::Clock.stub(:wall, now, &test)

  def now = Pelton::Clock.wall
  def job(seconds, **more) = { **JOB, since: now - seconds, **more }
  def error(seconds, **more) = { **ERROR, at: now - seconds, **more }

  def test_processes_add_up_and_say_what_runs_and_what_needs_attention
    reported(report(running: [job(75)]), report(pid: 2, rates: { in: {}, out: 1, errors: 0 }, partitions: {}))
    text = get("/processes").text
    assert_match(/Live 2 of 2 processes .*Busy 2 of 10 workers .*Done 12 messages.*Sent 4\.5 /m, text)
    assert_match(%r{web:1 \s*shop \s*running \s*1 min \d+ s \s*1/5 \s*2 \s*12 \s*3\.5 \s*0\.2 \s*10 \s*50 MB}, text)
    assert_match(%r{OrdersConsumer \s*orders/0 \s*12 \s*consume \s*10 \s*1 min \d+ s \s*– \s*web:1}, text)
    assert_match(%r{orders/1 \s*billing \s*failing \s*– \s*– \s*3 \s*web:1}, text)
    refute_match(%r{orders/0 \s*billing \s*running}, text)
  end

  # It was in no list, and its partition was "fine" until the dashboard had watched it for a minute.
  def test_a_call_that_runs_longer_than_a_minute_needs_attention
    clock_stopped do
      orders
      reported(report(running: [job(200, called: now - 150), job(5, partition: 1, called: now - 5)], partitions: {}))
      assert_match(%r{Needs attention \s*billing: orders/0 has been in one call for 2 min 30 s, at offset 12 },
                   get("/").text)
      group = get("/group", { id: "billing" })
      assert_match(%r{orders/0 .*long call, 2 min 30 s offset 12 .*orders/1 .*fine}m, group.text)
      assert_includes group.body, 'href="/messages?topic=orders&amp;partition=0&amp;offset=12"'
      text = get("/processes").text
      assert_match(%r{OrdersConsumer \s*orders/0 \s*12 \s*consume \s*10 \s*3 min 20 s \s*2 min 30 s \s*web:1}, text)
      assert_match(%r{attention .*orders/0 \s*billing \s*long call \s*2 min 30 s \s*12 \s*– \s*web:1}m, text)
      refute_match(%r{orders/1 \s*billing \s*long}, text)
    end
  end

  def test_silent_processes_come_first_and_stopped_ones_last
    reported(report(host: "a", state: "stopped"), report(host: "b"), report(host: "c", at: now - 1000))
    text = get("/processes").text
    assert_match(/c:1 \s*shop \s*silent .*b:1 \s*shop \s*running .*a:1 \s*shop \s*stopped/m, text)
    assert_match(/Live 1 of 3 processes/, text)
    assert_match(/No job runs now/, text)
  end

  # Nothing said why it was silent, or missing. (A report of the past says nothing about a clock.)
  def test_processes_whose_clocks_differ_are_named
    clock_stopped do
      arrive = lambda do |report|
        payload = JSON.generate({ version: 1, **report.to_h })
        @web.reports.send(:take, Fakes::Message.new("pelton.reports", 0, 0, payload, key: report.id))
      end
      @web.reports.instance_variable_set(:@asked_at, Pelton::Clock.now)
      arrive.call(report(host: "past", at: now - 600))
      refute_match(/Clocks differ/, get("/processes").text)
      arrive.call(report(host: "slow", at: now - 600))
      arrive.call(report(host: "fast", at: now + 7300))
      arrive.call(report(host: "well", at: now - 2))
      text = get("/processes").text
      assert_match(/Clocks differ .*: slow:1 is 10 min behind, fast:1 is 2 h 1 min ahead\. States/, text)
      arrive.call(report(host: "slow"))
      assert_equal ["fast:1"], @web.reports.skews.keys
    end
  end

  def test_without_reports_the_page_says_what_to_do
    @app.config.report_topic = "our.reports"
    text = get("/processes").text
    assert_match(/No server process has reported to the topic our\.reports/, text)
    assert_match(/config\.report_topic = "our\.reports".*pelton topics apply.*pelton server/, text)
  end

  def test_a_missing_topic_is_what_an_empty_one_is_and_a_refusal_is_shown
    @reading[:error] = Pelton::ConfigError.new("topic", "pelton.reports", "does not exist")
    assert_match(/Set config\.report_topic/, get("/processes").text)
    @web.reports.close
    @reading[:error] = Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "not authorized")
    @web.reports.instance_variable_set(:@failed_at, nil)
    assert_match(/reports of processes cannot be read: .*not authorized/, get("/processes").text)
  end

  def test_one_process_shows_its_partitions_errors_and_versions
    rows = [[0, 7, "running"], [1, 3, "failing"], [2, nil, "idle"], [3, 90, "queued"]]
    reported(report(errors: [error(5)], partitions: { "billing" => { "orders" => rows } }, left_out: 3,
                    running: [job(5)], process: 2))
    text = get("/process", { id: "web:1:1" }).text
    order = text.scan(%r{orders/(\d) \s*billing \s*(\w+) \s*(\S+) }).map { |number, state, lag| [number, state, lag] }
    assert_equal [%w[1 failing 3], %w[3 queued 90], %w[0 running 7], %w[2 idle –]], order
    assert_match(/3 partitions without problem or lag are not in the report/, text)
    assert_match(/KeyError : no total/, text)
    assert_match(/Pelton \s*1\.0 .*Ruby \s*3\.4 .*Number \s*2 of pelton server/m, text)
    assert_match(%r{OrdersConsumer \s*orders/0 \s*12 \s*consume \s*10 \s*\S+ s \s*– \s*\n}, text)
  end

  def test_an_unknown_process_is_404
    answers = [get("/process"), get("/process", { id: "<b>" })]
    assert_equal [404, 404], answers.map(&:status)
    assert_match(/No process with this id has reported within the last hour/, answers.last.text)
  end

  def test_the_menu_has_counts_of_what_is_known
    orders
    assert_match(/Groups 1 with lag .*Processes Jobs/m, get("/settings").text.gsub(/\s+/, " ")) # no report is read yet
    reported(report(errors: [error(5), error(6)]), report(pid: 2, state: "stopped"))
    assert_match(/Processes 1 running Jobs Errors 2 in an hour Messages/, get("/").text.gsub(/\s+/, " "))
  end

  def test_texts_of_a_process_are_escaped_and_cut
    evil = "<script>alert(1)</script>#{"x" * 5_000}"
    reported(report(host: evil, name: evil, pelton: evil, ruby: evil, state: evil, groups: [evil],
                    settings: { evil => evil, "concurrency" => evil }, commands: evil,
                    job_classes: [{ class: evil, count: 1, failed: 1, seconds: 1, slowest: 1 }],
                    running: [job(5, consumer: evil, topic: evil, kind: evil, group: evil)],
                    errors: [error(5, class: evil, message: evil, group: evil, topic: evil, failure_id: evil)],
                    partitions: { evil => { evil => [[0, 1, evil]] } }))
    [["/processes"], ["/process", { id: "#{evil}:1:1" }], ["/jobs"], ["/errors"],
     ["/settings", { id: "#{evil}:1:1" }]].each do |path, query|
      answer = get(path, query || {})
      assert_equal [200, []], [answer.status, @reported], path
      refute_includes answer.body, "<script>alert", path
      assert_includes answer.body, "&lt;script&gt;alert(1)", path
      assert_operator answer.text.size, :<, 10_000, path
    end
  end

  def test_jobs_add_up_classes_of_active_job
    reported(report)
    assert_match(/No process ran a job of Active Job/, get("/jobs").text)
    mail = { class: "MailJob", count: 3, failed: 1, seconds: 0.6, slowest: 0.4 }
    slow = { **mail, class: "SlowJob", count: 2, failed: 0, seconds: 150 }
    reported(report(job_classes: [mail]), report(pid: 3),
             report(pid: 2, state: "stopped", job_classes: [{ **mail, count: 1, failed: 0, slowest: 0.123 }, slow]))
    text = get("/jobs").text
    assert_match(/SlowJob \s*2 \s*0 \s*1 min 15 s .*MailJob \s*4 \s*1 \s*300 ms \s*400 ms \s*1\.2 s/m, text)
  end

  def test_long_tables_are_cut
    rows = Array.new(250) { |number| [number, 1, "paused"] }
    reported(*Array.new(220) { |pid| report(pid: pid + 1, partitions: {}) },
             report(host: "b", partitions: { "billing" => { "orders" => rows } }))
    text = get("/processes").text
    assert_match(/… and 21 more/, text)
    assert_match(/… and 50 more/, text)
    assert_equal 200, text.scan(%r{orders/\d+ \s*billing \s*paused}).size
  end

  def test_jobs_shows_what_failed_and_is_tried_again
    @groups.logs.merge!({ ["orders.retry.60", 0] => 0...9, ["orders.retry.60", 1] => 0...5, ["orders", 0] => 0...3,
                          ["a.retry.x", 0] => 0...3, ["b.retry.0.5", 0] => 0...3 })
    @answers[:names] = @groups.logs.keys.map(&:first).uniq
    @groups.commits["billing"] = @groups.logs.keys.to_h { |place| [place, [1, ""]] }
    @groups.commits["billing"][["b.retry.0.5", 0]] = [3, ""]
    reported(report(errors: [error(9, message: "old"), error(5), error(1, partition: 2)]),
             report(pid: 2, partitions: { "audit" => { "orders" => [[1, 3, "failing"]] } }))
    answer = get("/jobs")
    assert_match(%r{tried again in their process .*orders/1 offset 42 \s*billing \s*\S+ \S+ UTC \s*KeyError: no total}m,
                 answer.text)
    assert_match(%r{orders/1 \s*audit \s*– \s*– \s*web:2 }, answer.text)
    assert_match(/Retry topics .*orders\.retry\.60 \s*billing \s*12 \s*\n/m, answer.text)
    refute_match(/retry\.x|retry\.0\.5|Retried/, answer.text)
    assert_includes answer.body, 'href="/messages?topic=orders.retry.60"'
  end

  def test_jobs_says_that_nothing_is_tried_again
    reported(report(partitions: {}))
    assert_match(/Retried .*No job and no message waits for another attempt/m, get("/jobs").text)
  end

  # --- plots --------------------------------------------------------------------------------------------------------

  def test_errors_per_second_are_the_sum_of_all_processes
    begins = ((now / 30).floor * 30) - 300
    [0, 10, 20, 30].each do |seconds|
      [1, 2].each do |pid|
        rate = pid * (seconds < 30 ? seconds : 1)
        reported(report(pid: pid, at: begins + seconds, rates: { in: {}, out: 0, errors: rate }))
      end
    end
    assert_equal [[begins + 30.0, 30.0], [begins + 60.0, 3.0]], history.total(:errors).points
  end

  # The plot drew a line from the errors before a pause to those after it.
  def test_errors_per_second_have_a_gap_where_no_process_reported
    begins = ((now / 30).floor * 30) - 900
    [0, 31, 600, 631].each { |at| reported(report(at: begins + at, rates: { in: {}, out: 0, errors: at.fdiv(10) })) }
    points = history.total(:errors).parts(100).map { |part| part.map { |at, rate| [(at - begins).to_i, rate] } }
    assert_equal [[[30, 0.0], [60, 3.1]], [[630, 60.0], [660, 63.1]]], points
    html = get("/errors").body
    assert_equal 2, html.scan("<polyline").size
    assert_includes html, "Errors: all processes unknown; most 63/s"
  end

  # Each report tells of the time since the one before. A sum of reports within 30 s would miss some processes.
  def test_errors_per_second_of_processes_that_report_each_minute
    begins = ((now / 30).floor * 30) - 300
    [0, 60, 120].product([1, 2]) do |at, pid|
      reported(report(pid: pid, at: begins + at + (pid * 20), interval: 60, rates: { in: {}, out: 0, errors: 3 }))
    end
    assert_equal [3.0, 6.0, 6.0, 6.0, 6.0, 3.0], history.total(:errors).points.map(&:last)
  end

  def test_numbers_of_a_process_have_a_gap_where_it_did_not_report
    [300, 290, 100, 90].each { |ago| reported(report(at: now - ago)) }
    html = get("/process", { id: history.latest.first.id }).body
    assert_equal [4, 2, 2], html.scan(%r{class="plot">.*?</figure>}m).map { |plot| plot.scan("<polyline").size }
  end

  def test_no_process_counts_between_two
    begins = ((now / 30).floor * 30) - 240
    reported(report(pid: 1, at: begins + 1, state: "stopped"), report(pid: 2, at: begins + 100, state: "stopped"))
    assert_equal [1, 0, 0, 1, 0, 0, 0, 0], history.processes.points.first(8).map(&:last)
  end

  def test_processes_count_from_their_first_report_to_the_last_or_to_now
    begins = ((now / 30).floor * 30) - 150
    { 1 => [0, 70], 2 => [31, 32], 3 => [65] }.each do |pid, times|
      times.each do |seconds|
        # The last process is live.
        reported(report(pid: pid, at: begins + seconds, interval: pid == 3 ? 600 : 1))
      end
    end
    assert_equal [[30, 1], [60, 2], [90, 2], [120, 1], [150, 1]],
                 history.processes.points.first(5).map { |at, count| [(at - begins).to_i, count] }
  end

  # --- other pages --------------------------------------------------------------------------------------------------

  def test_a_group_says_why_a_partition_is_stuck_as_its_process_reports_it
    orders
    @groups.logs[["orders", 1]] = 0...31
    state = -> { get("/group", { id: "billing" }).text.scan(%r{orders/(\d) .*?(fine|paused|failing)}m) }
    assert_equal [%w[0 fine], %w[1 fine]], state.call
    reported(report(partitions: { "billing" => { "orders" => [[0, 9, "paused"], [1, 1, "failing"]] } }),
             report(pid: 2, partitions: { "audit" => { "orders" => [[0, 9, "failing"]] } }, groups: ["audit"]))
    assert_equal [%w[0 paused], %w[1 failing]], state.call
    reported(report(state: "stopped", partitions: { "billing" => { "orders" => [[0, 9, "paused"]] } }))
    assert_equal [%w[0 fine], %w[1 fine]], state.call
  end

  # It said "no commit", and did not show how many messages wait.
  def test_a_group_says_why_a_partition_without_a_commit_is_stuck
    orders
    @groups.commits["billing"].delete(["orders", 1])
    @groups.logs[["orders", 1]] = 0...31
    reported(report(partitions: { "billing" => { "orders" => [[1, 31, "failing"]] } }))
    assert_match(%r{orders/1\s+\S+\s+–\s+31\s+31\s+–\s+failing}, get("/group", { id: "billing" }).text)
  end

  # --- settings -----------------------------------------------------------------------------------------------------

  def test_settings_of_a_process
    reported(report(settings: { "concurrency" => "7", "kafka.linger.ms" => "20", "kafka.sasl.password" => "[hidden]",
                                "later" => "x" }))
    text = get("/settings", { id: "web:1:1" }).text
    assert_match(/As \s*web:1 \s*reported at .*with Pelton 1\.0/m, text)
    assert_match(/later \s*x \s*linger\.ms \s*20 \s*sasl\.password \s*\[hidden\]/, text)
    assert_match(/Default \s*Is \s*concurrency \s*7 \s*5 \s*set .*report_interval \s*5 s \s*5 s \s*default/m, text)
    assert_match(/polling\.max_time .*liveness\.port /m, text)
    refute_match(/pelton doctor/, text)
    assert_equal 404, get("/settings", { id: "<b>" }).status
  end

  def test_settings_of_the_dashboards_app_come_with_advice
    @app.config.kafka = { "bootstrap.servers" => "a:1", "sasl.password" => "s3cret" }
    text = get("/settings").text
    assert_match(/The settings of the app that this dashboard runs in.*when config\.report_topic is set/m, text)
    assert_match(/Advice of \s*pelton doctor .*((error|warning|note) |Nothing to change)/m, text)
    assert_match(/bootstrap\.servers \s*"a:1" \s*sasl\.password \s*\[hidden\]/, text)
    refute_includes get("/settings").body, "s3cret"
    assert_match(/memory \s*unset \s*unset \s*default/, text)
  end

  # The page had only options that were set.
  def test_settings_of_the_dashboards_app_have_all_options_in_effect_on_request
    @app.config.kafka = { "bootstrap.servers" => "a:1", "linger.ms" => 7, "sasl.password" => "s3cret" }
    consumer = Class.new(Pelton::Consumer) { define_method(:consume) { nil } }
    @app.routes { ["billing", *"a".."k"].each { |name| group(name) { topic "orders", to: consumer } } }
    refute_match(/acks/, get("/settings").text)
    assert_match(%r{<a href="/settings\?all=yes">All options with the values in effect</a>}, get("/settings").body)
    page = get("/settings", { all: "yes" })
    assert_match(/In effect: options of producer .* acks \s*-1 .* linger\.ms \s*7 /m, page.text)
    assert_match(/In effect: options of group billing .* group\.id \s*billing /m, page.text)
    assert_equal [11, nil], [page.text.scan("In effect: options").size, page.body[/s3cret/]], "of ten groups"
  end

  # --- what is remembered ------------------------------------------------------------------------------------------

  def history = @web.reports

  def test_numbers_of_an_hour_are_remembered_for_each_process
    start = now - 100
    [0, 5, 10, 20].each do |seconds|
      reported(report(at: start + seconds, rates: { in: { "billing" => seconds }, out: 1, errors: 0 }))
    end
    assert_equal 20, history.series(:in, "web:1:1").last
    assert_equal [10, 50 << 20], %i[lag rss].map { |kind| history.series(kind, "web:1:1").last }
    assert_empty history.series(:in, "web:2:1").points
  end

  # A burst of errors in one report of many was overwritten by the report after it.
  def test_a_short_peak_of_errors_is_not_lost
    start = now.to_i - 100
    [0, 5, 6, 7, 8].each do |seconds|
      reported(report(at: start + seconds, rates: { in: {}, out: 0, errors: seconds == 6 ? 8 : 0 }))
    end
    assert_equal [0, 2.0], history.series(:errors, "web:1:1").points.map(&:last)
  end

  def test_an_error_that_several_reports_have_is_remembered_once
    first, second, third = [9, 8, 7].map { |seconds| error(seconds, failure_id: seconds.to_s) }
    reported(report(at: now - 6, errors: [first, second]), report(at: now - 1, errors: [second, third]),
             report(pid: 2, errors: [error(4000), error(1)]))
    assert_equal [["web:2", "f1"], ["web:1", "7"], ["web:1", "8"], ["web:1", "9"]],
                 history.failures.map { |failure| [failure.process, failure.facts[:failure_id]] }
  end

  def test_reports_of_a_wrong_clock_or_read_again_change_nothing
    reported(report(at: now - 5, threads: 1))
    reported(report(at: now - 10, threads: 2), report(at: now - 4000, pid: 2), report(at: now + 4000, pid: 3))
    assert_equal [1], history.latest.map(&:threads)
  end

  def test_at_most_so_many_processes_and_errors_are_remembered
    limits = Pelton::Web::ReportHistory
    count = limits::PROCESSES + 5
    reported(*Array.new(count) do |pid|
      report(pid: pid + 1, at: now - count + pid, errors: [error(1), error(2), error(3)])
    end)
    assert_equal limits::PROCESSES, history.latest.size
    assert_equal [6, count], history.latest.map(&:pid).minmax
    assert_equal Pelton::Web::ErrorHistory::MOST, history.failures.size
    assert_empty history.series(:in, "web:1:1").points
  end

  # Of a long past, some reports are enough; but the last one says whether the process stopped.
  def test_of_many_old_reports_some_are_read_and_the_last_one
    begins = now.to_i - 600
    many = Array.new(Pelton::Web::ReportHistory::MANY) { Message.new("x", "no report", begins * 1000) }
    @reading[:messages] = many + Array.new(81) do |number|
      at = begins + number
      report = report(at: at, state: number == 80 ? "stopped" : "running", rss: number)
      Message.new(report.id, JSON.generate({ version: 1, **report.to_h }), at * 1000)
    end
    found = history.latest(60).first
    assert_equal ["stopped", 80], [found.state, history.series(:rss, found.id).last]
    assert_equal [0, 30, 60, 80], history.series(:rss, found.id).points.map(&:last)
    assert history.complete?
  end

  Message = Struct.new(:raw_key, :raw_payload, :timestamp_ms)

  def test_messages_that_are_no_reports_are_skipped
    @reading[:messages] = [Message.new(nil, "no report", nil), Message.new("x", nil, 5)]
    assert_empty history.latest
    assert history.complete?
  end

  def test_a_page_reads_again_after_a_problem
    @reading[:error] = Pelton::KafkaError.new(-195, :_TRANSPORT, "gone")
    assert_empty history.latest
    assert_match(/gone/, history.problem.message)
    history.instance_variable_set(:@failed_at, Pelton::Clock.now - 6)
    @reading[:error] = nil
    history.latest
    assert_nil history.problem
    assert history.complete?
  end
end
