# frozen_string_literal: true

require_relative "../test_helper"
require "support/web_kit"

# A day and a week of the dashboard's numbers, from reports that a test makes. (From a real topic:
# test/integration/web_trends.rb.)
class WebTrendsTest < Minitest::Test
  include WebKit

  Sample = Pelton::Web::TrendSample
  TOTALS = { in: { "billing" => 900 }, out: 90, errors: 9 }.freeze

  # The web's trends read what this block returns for a time.
  def setup
    super
    @asked = asked = []
    @gate = gate = Thread::Queue.new
    gate.close
    @at = at = {}
    failure = @failure = []
    @now = Pelton::Clock.wall
    trends = Pelton::Web::Trends.new(clock: -> { @now }) do |times, stop, &each|
      raise failure.first if failure.any?

      asked << times
      times.each do |time|
        gate.pop
        break if stop.stop?

        each.call(time, at.fetch(time, []))
      end
    end
    @web.instance_variable_set(:@trends, trends)
  end

  # The last time of a day's.
  def last = @now.to_i / 900 * 900
  def trends = @web.trends
  def numbers(...) = trends.series(...).points.map(&:last)

  def complete(name = "24h")
    eventually(20, "the topic is read") { trends.look(name).complete? }
  end

  def sample(reports, time, before = nil) = Sample.of(reports, time, before)

  # --- one time -----------------------------------------------------------------------------------------------------

  def test_a_sample_adds_up_processes_and_keeps_each
    found = sample([report, report(pid: 2, rss: 10, rates: { in: { "billing" => 2 }, out: 1, errors: 0 })], 0).values
    assert_equal [14.5, 4.5, 0.2, 20, (50 << 20) + 10],
                 [[:in], [:out], [:errors], [:lag], [:rss]].map { |words| found.fetch(words) }
    assert_equal [14.5, 20], [found[[:in, :group, "billing"]], found[[:lag, :group, "billing"]]]
    assert_equal [12.5, 2, 10], [found[[:in, :process, "web:1:1"]], found[[:in, :process, "web:2:1"]],
                                 found[[:rss, :process, "web:2:1"]]]
    assert_nil found[[:in, :group, "other"]]
  end

  def test_a_sample_counts_processes_that_run
    all = [report, report(pid: 2), report(pid: 3, state: "stopped")]
    assert_equal [2, nil], [all, []].map { |reports| sample(reports, 0).values[[:processes]] }
  end

  # The rate at the moment of a report misses what came between two samples.
  def test_rates_are_means_between_two_samples
    idle = { in: { "billing" => 0 }, out: 0, errors: 0 }
    first = sample([report(at: 1000.0, totals: TOTALS, rates: idle)], 1000)
    more = { in: { "billing" => 1800 }, out: 180, errors: 99 }
    found = sample([report(at: 1900.0, totals: more, rates: idle)], 1900, first).values
    assert_equal [1.0, 0.1, 0.1], [[:in, :group, "billing"], [:out], [:errors]].map { |words| found[words] }
  end

  def test_a_process_that_started_since_counts_from_its_start
    found = sample([report(at: 1900.0, started_at: 1800.0, totals: TOTALS)], 1900, sample([], 1000)).values
    assert_equal [1.0, 0.1, 0.01], [[:in], [:out], [:errors]].map { |words| found[words] }
  end

  def test_without_totals_or_a_sample_before_a_rate_is_as_reported
    early = { at: 1900.0, started_at: 1.0 }
    found = [sample([report(**early)], 1900, sample([report(at: 1000.0)], 1000)),
             sample([report(**early, totals: TOTALS)], 1900, sample([], 1000)), sample([report(totals: TOTALS)], 1900)]
    assert_equal [12.5] * 3, found.map { |sample| sample.values[[:in]] }
  end

  def test_a_stopped_process_has_no_lag_and_no_memory
    found = sample([report(state: "stopped")], 0).values
    assert_equal [12.5, nil, nil], [found[[:in]], found[[:lag]], found[[:rss]]]
  end

  def test_numbers_of_a_hundred_processes_are_kept_and_all_are_in_the_sum
    found = sample(Array.new(150) { |pid| report(pid: pid) }, 0).values
    assert_equal [1500, 100], [found[[:lag]], found.count { |words, _| words.first(2) == %i[lag process] }]
  end

  def test_numbers_of_a_thousand_groups_are_kept_and_all_are_in_the_sum
    rows = Array.new(3000) { |number| ["group-#{number}", { "t" => [[0, 1, "idle"]] }] }.to_h
    found = sample([report(partitions: rows)], 0).values
    assert_equal [3000, 1000], [found[[:lag]], found.count { |(_, kind, _), _| kind == :group }]
  end

  # --- a range ------------------------------------------------------------------------------------------------------

  def test_a_day_is_read_once_and_later_only_what_is_missing
    at = last
    @at.update(at - 900 => [report(totals: TOTALS, at: at - 900.0)], at => [report(at: at.to_f)])
    complete
    assert_equal [97, at, at - (96 * 900)], [@asked.first.size, @asked.first.last, @asked.first.first]
    assert_equal [10, 10], numbers("24h", :lag)
    trends.instance_variable_get(:@samples)["24h"].delete(at)
    complete
    assert_equal [97, 2], @asked.map(&:size)
    assert_equal [10, 10], numbers("24h", :lag)
    complete
    assert_equal 2, @asked.size
  end

  def test_a_week_has_a_time_each_hour
    complete("7d")
    assert_equal [169, 3600], [@asked.first.size, @asked.first[1] - @asked.first[0]]
  end

  def test_a_sample_older_than_the_range_is_forgotten
    complete
    samples = trends.instance_variable_get(:@samples)["24h"]
    samples.replace({ 0 => sample([report], 0).values }.merge(samples))
    trends.look("24h")
    refute samples.key?(0)
    assert_equal 96, samples.size
  end

  def test_after_the_clock_was_set_back_nothing_is_read
    complete
    trends.close
    @now -= 1000
    trends.look("24h")
    trends.close
    assert_nil trends.look("24h").problem
    assert_equal 1, @asked.size
  end

  def test_a_failure_is_shown_and_tried_again_later
    @failure << Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "not authorized")
    get("/", { range: "24h" })
    eventually(20, "the failure") { trends.look("24h").problem }
    assert_match(/reports of processes cannot be read: .*not authorized/, get("/", { range: "24h" }).text)
    @failure.clear
    trends.instance_variable_set(:@failed_at, -1000)
    complete
    assert_nil trends.look("24h").problem
  end

  # Its sums would be too small, and would be kept.
  def test_a_time_of_which_only_a_part_is_read_in_time_is_a_failure
    scan = Object.new
    def scan.keep = yield
    def scan.run(_ranges, **) = :time
    admin = Object.new
    def admin.topics(name, **) = { name => Struct.new(:partitions).new([]) }
    def admin.offsets(_places, **) = {}
    @app.define_singleton_method(:admin) { admin }
    error = Pelton::Offsets::Scan.stub(:new, scan) do
      assert_raises(Pelton::WaitTimeout) do
        Pelton::Web::TrendReading.new(@app, "reports", longest: 5).each([900], Pelton::Background::Stop.new) { flunk }
      end
    end
    assert_equal "reading the reports of reports not finished after 5 s", error.message
  end

  # --- pages --------------------------------------------------------------------------------------------------------

  PAGES = { "/" => {}, "/group" => { id: "billing" }, "/process" => { id: "web:1:1" }, "/errors" => {} }.freeze

  def test_pages_show_a_day_of_reports
    orders
    reported(report)
    @at[last] = [report(at: last.to_f)]
    complete
    PAGES.each do |path, query|
      answer = get(path, { **query, range: "24h" })
      assert_equal 200, answer.status
      assert_match(/1 d ago/, answer.text, path)
      assert_match(/From the reports of processes, a value each 15 min\./, answer.text)
      assert_match(/<a [^>]*aria-current="true">24 h</, answer.body)
      expected = URI.encode_www_form({ **query, range: "7d" }).gsub("&", "&amp;")
      assert_includes answer.body, "#{path}?#{expected}\""
      refute_match(/aria-current="true">24 h/, get(path, { **query, range: "<b>" }).body)
    end
    assert_match(/messages 10 .*most 10/m, get("/group", { id: "billing", range: "24h" }).text)
    assert_match(/resident 50 MB/, get("/process", { id: "web:1:1", range: "24h" }).text)
  end

  def test_a_page_says_how_much_is_read_and_does_not_wait
    @gate = gate = Thread::Queue.new
    trends = Pelton::Web::Trends.new do |times, stop, &each|
      times.first(3).each { |time| each.call(time, []) }
      gate.pop
      times.drop(3).each { |time| each.call(time, []) } unless stop.stop?
    end
    @web.instance_variable_set(:@trends, trends)
    eventually(20, "three times") { get("/", { range: "7d" }).text.include?("Being read: 2 of 168 times.") }
    gate.close
    complete("7d")
    assert_match(/No process reported within this time to the topic pelton\.reports/, get("/", { range: "7d" }).text)
  end
end
