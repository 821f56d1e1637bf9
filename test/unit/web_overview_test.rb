# frozen_string_literal: true

require_relative "../test_helper"
require "support/web_kit"
require "support/fake_messages"

# What the overview of the dashboard says of processes.
class WebOverviewTest < Minitest::Test
  include WebKit

  # An app may make the dashboard before it loads the file that has the settings.
  def test_settings_may_change_until_the_first_request
    refute_predicate @app.config, :frozen?
    @app.configure { |config| config.group_id = "billing" }
    get("/")
    assert_predicate @app.config, :frozen?
  end

  def test_the_overview_has_plots_of_errors_and_processes_once_one_reports
    orders
    titles = -> { get("/").body.scan(%r{<figcaption><h2>([^<]+)</h2>}).flatten }
    assert_equal ["Throughput", "Lag", "Longest wait"], titles.call
    reported(report)
    assert_equal ["Throughput", "Lag", "Longest wait", "Errors", "Processes"], titles.call
  end

  def test_the_overview_names_partitions_that_fail_and_not_those_that_were_paused
    orders
    problems = -> { get("/").text[/Needs attention(.*?) Groups/m, 1].strip.lines.map(&:strip).reject(&:empty?) }
    reported(report(partitions: { "billing" => { "orders" => [[0, 9, "paused"], [1, 1, "running"]] } }))
    assert_match(/\ANothing\. .* reports a partition that keeps failing or a long call\.\z/, problems.call.join)
    rows = [[0, 9, "paused"], [1, 1, "failing"], [2, 1, "stopped"], [3, nil, "unbuilt"]]
    report_all = lambda do # two processes may report it while it changes hands
      reported(report(partitions: { "billing" => { "orders" => rows } }),
               report(pid: 2, partitions: { "billing" => { "orders" => rows[1, 1] } }))
    end
    report_all.call
    assert_equal ["billing: orders/2 is stopped", "billing: orders/3 is unbuilt"], problems.call, "one failed attempt"
    report_all.call
    assert_equal ["billing: orders/1 is failing", "billing: orders/2 is stopped", "billing: orders/3 is unbuilt"],
                 problems.call
    reported(report(state: "stopped"), report(pid: 2, state: "stopped"))
    assert_match(/\ANothing/, problems.call.join)
  end

  # The first page said "Nothing" before it knew what processes report.
  def test_the_first_overview_waits_for_the_reports_and_says_when_they_are_still_being_read
    orders
    gate = Thread::Queue.new
    rows = Array.new(2) do |number|
      Fakes::Message.new("pelton.reports", 0, number, JSON.generate(report.to_h.merge(version: 1)))
    end
    reading = Pelton::Web::ReportHistory.new do |options, each|
      options[:on_begin].call({ ["pelton.reports", 0] => 0...2 })
      gate.pop
      rows.each(&each)
      options[:reached_end].call("pelton.reports", 0)
    end
    @web.instance_variable_set(:@reports, reading)
    assert_match(/attention \s*All partitions .*\. The reports of processes are still being read/, get("/").text)
    page = Thread.new { get("/").text }
    eventually { page.stop? }
    gate.close
    assert_match(%r{attention \s*billing: orders/1 is failing}, page.value)
  end

  def test_the_overview_waits_for_no_other_attempt_to_read_reports_after_a_failure
    orders
    @reading[:error] = Pelton::ConfigError.new("topic", "pelton.reports", "does not exist")
    get("/")
    waits = []
    gate = Thread::Queue.new
    @web.reports.instance_variable_set(:@read, ->(*) { gate.pop })
    @web.reports.instance_variable_set(:@failed_at, Pelton::Clock.now - 60)
    @web.reports.define_singleton_method(:latest) { |seconds| (waits << seconds) && super(seconds) }
    assert_match(/attention \s*All partitions .*there are no reports of processes/, get("/").text)
    assert_equal [0], waits.uniq
  ensure
    gate&.close
  end

  def test_the_overview_does_not_name_a_partition_that_fails_now_and_then
    orders
    now = Pelton::Clock.wall
    %w[failing running failing].each.with_index(-3) do |state, ago|
      reported(report(at: now + ago, partitions: { "billing" => { "orders" => [[1, 1, state]] } }))
    end
    assert_match(/Needs attention\s+Nothing/, get("/").text)
    reported(report(at: now, partitions: { "billing" => { "orders" => [[0, 1, "failing"]] } }))
    assert_match(/Needs attention\s+Nothing/, get("/").text, "another partition")
  end

  def test_the_overview_names_a_failing_partition_however_many_groups_have_no_members
    orders
    25.times { |number| @groups.commits["gone-#{number}"] = { ["orders", 0] => [50, ""] } }
    2.times { reported(report(partitions: { "billing" => { "orders" => [[1, 1, "failing"]] } })) }
    problems = get("/").text[/Needs attention(.*?) Groups/m, 1]
    assert_match(%r{\A\s*billing: orders/1 is failing\s+gone-\d+ has no members}, problems)
    assert_match(/and 6 more\s*\z/, problems)
  end

  # Small lags of groups that nobody uses any more hid it: the overview shows 20 lines.
  def test_the_group_with_the_largest_lag_comes_first_among_those_without_members
    orders
    @groups.logs[["orders", 0]] = 0..5000
    25.times { |number| @groups.commits["old-#{number}"] = { ["orders", 0] => [4_999, ""] } }
    @groups.commits["late"] = { ["orders", 0] => [0, ""] }
    lines = "late has no members and 5,000 messages wait\\s+old-0 has no members and 1 message waits"
    assert_match(/Needs attention \s*#{lines} /, get("/").text)
  end

  # The list and the overview did not say it.
  def test_each_lag_of_a_group_says_how_many_partitions_it_lacks
    orders
    refute_includes get("/").text + get("/groups").text, "without a commit"
    @groups.commits["billing"].delete(["orders", 0])
    @groups.members["new"] = [["m-3", "new", nil, "/10.0.0.3", [["orders", 0], ["orders", 1]]]]
    @web.history.look
    list = get("/groups").text
    assert_match(/billing \s*stable \s*1 \s*0 1 partition without a commit/, list)
    assert_match(/new \s*stable \s*1 \s*– 2 partitions without a commit/, list)
    assert_match(/Lag 0 messages 3 partitions without a commit .*new \s*stable \s*– 2 partitions/m, get("/").text)
  end

  # All members of an app have one client id by default, so the owner of a partition does not tell which one has it.
  def test_a_group_says_which_member_has_which_partitions
    orders
    places = [["orders", 1], ["<b>", 0], ["orders", 0], ["orders", 3]]
    @groups.members["billing"] = [["m-1", "pelton", nil, "/10.0.0.1", places], ["m-2", "pelton", nil, "/10.0.0.2", []]]
    members = get("/group", { id: "billing" }).text[/Members\s+Client.*Changes/m]
    assert_match(/ m-1 \s*<b> 0; orders 0-1,3 \s*4 /, members)
    assert_match(/ m-2 \s*none \s*0 /, members)
  end
end
