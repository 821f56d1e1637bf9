# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/app"
require "pelton/web"

# What the dashboard remembers and draws, with times of its own.
class WebHistoryTest < Minitest::Test
  Web = Pelton::Web

  def series(*points) = Web::Series.new.tap { |series| points.each { |time, value| series.add(time.to_f, value) } }

  def observation(at, last, commit)
    place = ["orders", 0]
    group = Pelton::Admin::GroupDescription.new(id: "billing", state: :stable, type: :classic, assignor: "range",
                                                coordinator: 1, members: [])
    Web::Observation.new(cluster: nil, topics: {}, ends: { place => last }, groups: { "billing" => group },
                         commits: { "billing" => { place => commit } }, at: at.to_f)
  end

  def history(*rows)
    Web::History.new { flunk "asks no Kafka" }.tap do |history|
      rows.each { |row| history.send(:remember, observation(*row)) }
    end
  end

  def test_a_series_keeps_an_hour
    series = series([0, 1], [1800, 2], [3601, 3])
    assert_equal [[1800.0, 2], [3601.0, 3]], series.points
  end

  def test_a_coarse_series_replaces_values_that_come_soon
    series = Web::Series.new
    [0, 5, 10, 30, 35, 40, 60].each { |time| series.add(time.to_f, time, 30) }
    assert_equal 60, series.last
    assert_operator series.points.size, :<, 5
  end

  # It said that it had no progress for a minute, because there was no lag for that long.
  def test_a_partition_is_stuck_since_its_messages_wait_and_nothing_was_committed
    place = ["orders", 0]
    since = ->(*rows) { history(*rows).stuck_since("billing", place) }
    assert_nil since.call
    assert_nil since.call([0, 5, 5], [90, 5, 5])
    assert_equal 90, since.call([0, 5, 5], [90, 12, 5]), "messages that have just come"
    assert_equal 0, since.call([0, 9, 5], [30, 20, 5], [90, 30, 5])
    assert_equal 90, since.call([0, 9, 5], [90, 30, 6]), "more messages come than are done"
    assert_equal 60, since.call([0, 9, 5], [30, 9, 9], [60, 12, 9], [90, 12, 9])
  end

  def test_slope_and_mean
    series = series([0, 100], [10, 80], [20, 60])
    assert_in_delta(-2.0, series.slope(60))
    assert_in_delta(-2.0, series.slope(1))
    assert_in_delta 70, series.mean(15)
    assert_nil series([0, 1]).slope(60)
    assert_nil Web::Series::EMPTY.mean(30)
  end

  # A topic that was made again begins at 0.
  def test_since_when_values_have_been_above_one
    series = series([0, 90], [10, 3], [20, 7], [30, 9])
    assert_equal([0.0, 20.0, 20.0, 30.0, nil], [2, 3, 6, 8, 9].map { |value| series.above(value) })
    assert_equal [0.0, 90], [series.begin, series.max]
    assert_equal [nil, nil, nil], [Web::Series::EMPTY.begin, Web::Series::EMPTY.max, Web::Series::EMPTY.above(0)]
  end

  def test_growth_of_a_series
    assert_equal 5, series([0, 4], [10, 7], [20, 9]).growth
    assert_equal 0, series([0, 90], [10, 3]).growth # the topic was made again
    assert_equal [0, 0], [series([0, 4]).growth, Web::Series::EMPTY.growth]
  end

  # A page read points while the thread dropped those of an hour ago.
  def test_a_page_has_a_copy_of_a_series
    kept = history([0, 100, 50], [10, 300, 150])
    series = kept.series(:lag)
    kept.send(:remember, observation(3605, 400, 150))
    assert_equal [[[0.0, 50], [10.0, 150]], [[10.0, 150], [3605.0, 250]]], [series.points, kept.series(:lag).points]
  end

  def test_few_points_have_the_first_and_the_newest
    few = series(*Array.new(1000) { |index| [index, index] }).parts(60).flatten(1)
    assert_operator few.size, :<=, 61
    assert_equal [0, 999], [few.first.last, few.last.last]
    assert_empty Web::Series::EMPTY.parts(60)
  end

  def test_rates_count_what_grew
    kept = history([0, 100, 50], [10, 300, 150], [20, 250, 100], [24, 270, 112])
    assert_equal [20.0, 0.0, 5.0], kept.series(:produced).points.map(&:last)
    assert_equal [10.0, 0.0, 3.0], kept.series(:consumed, "billing").points.map(&:last)
    assert_equal [50, 150, 150, 158], kept.series(:lag, "billing").points.map(&:last)
  end

  def test_the_wait_begins_when_the_first_waiting_message_came
    rows = [[0, 100, 100], [10, 120, 110], [20, 150, 115]]
    kept = history(*rows)
    assert_in_delta 10.0, kept.waiting(observation(20, 150, 115), "billing")
    assert_in_delta 20.0, kept.waiting(observation(20, 150, 90), "billing")
    assert_nil kept.waiting(observation(20, 150, 150), "billing")
  end

  def test_a_group_that_is_gone_for_an_hour_is_forgotten
    kept = history([0, 100, 50], [10, 110, 60])
    kept.send(:remember, Web::Observation.new(cluster: nil, topics: {}, ends: {}, groups: {}, commits: {}, at: 3000.0))
    refute_empty kept.series(:lag, "billing")
    kept.send(:remember, Web::Observation.new(cluster: nil, topics: {}, ends: {}, groups: {}, commits: {}, at: 3620.0))
    left = kept.instance_variable_get(:@series).keys
    assert_empty left.reject { |words| words.size == 1 }, "series of the group and the topic"
    refute_empty left
  end

  # Kafka's answer for a partition with these messages: {offset => seconds since 1970}.
  def asked_times(messages, asked = [])
    Web::Waits.new do |times|
      asked << times
      times.transform_values { |time| messages.find { |_, at| at >= time.to_f }&.first }
    end
  end

  def test_a_message_from_before_the_first_look_waits_since_it_came
    now = 1_000_000.0
    { 0.5 => 1, 30 => 30, 7200 => 7200, 3 * 86_400 => 3 * 86_400, 30 * 86_400 => 7 * 86_400 }.each do |age, expected|
      waits = asked_times({ 41 => now - age - 900_000, 42 => now - age, 43 => now })
      since = waits.since({ [["orders", 0], 42] => now }, now).fetch([["orders", 0], 42])
      assert_in_delta expected, now - since, expected * 0.06, "#{age} s"
      assert_operator now - since, :<=, [age, 1].max, "no more than is true"
    end
  end

  def test_a_message_that_waits_is_asked_for_once_and_two_groups_in_two_questions
    asked = []
    waits = asked_times({ 42 => 500.0, 50 => 800.0 }, asked)
    spans = [[["orders", 0], 42], [["orders", 0], 50], [["orders", 1], 42]].to_h { |span| [span, 1000.0] }
    ages = waits.since(spans, 1000.0).transform_values { |since| 1000 - since }
    assert_equal spans.keys, ages.keys.sort
    [500, 200, 500].zip(ages.sort.map(&:last)) { |expected, age| assert_in_delta expected, age, 30 }
    assert_equal [2, 1], [asked.first.size, asked.last.size]
    count = asked.size
    waits.since(spans, 1010.0)
    assert_equal count, asked.size
    assert_empty waits.since({}, 1020.0), "it forgets"
    waits.since(spans.first(1).to_h, 1020.0)
    assert_operator asked.size, :>, count
  end

  def test_a_wait_that_kafka_does_not_tell_is_that_since_the_first_look
    answer = -> { raise Pelton::KafkaError.new(-195, :_TRANSPORT, "away") }
    waits = Web::Waits.new { answer.call }
    spans = { [["orders", 0], 42] => 900.0 }
    assert_empty waits.since(spans, 1000.0)
    answer = -> { { ["orders", 0] => nil } } # no message is so new
    assert_in_delta 7 * 86_400, 1000 - waits.since(spans, 1000.0).values.first, 30_000
  end

  def test_numbers
    numbers = Pelton::Numbers
    assert_equal %w[– 0 42 1,234,567], [nil, 0, 42, 1_234_567].map { |number| numbers.whole(number) }
    assert_equal ["–", "0", "0.25", "42", "12.3 k", "1.5 M"],
                 [nil, 0, 0.25, 42.0, 12_345.6, 1.5e6].map { |number| numbers.short(number) }
    # These were "1e+03 k".
    assert_equal ["999 k", "1 M", "1 G", "2.5 T"],
                 [999_400, 999_600, 999_900_000, 2.5e12].map { |number| numbers.short(number) }
    assert_equal ["–", "0 s", "0.1 s", "3.2 s", "10 s", "59 s", "1 min 15 s", "2 h", "1 d 1 h"],
                 [nil, 0.04, 0.05, 3.21, 10.0, 59, 75, 7200, 90_000].map { |seconds| numbers.seconds(seconds) }
  end

  def test_numbers_of_partitions
    pairs = [["orders", 5], ["c", 8], ["orders", 0], ["bills", 0], ["orders", 2], ["c", 7], ["orders", 1]]
    assert_equal "bills 0; c 7-8; orders 0-2,5", Pelton::Numbers.partitions(pairs)
  end

  def test_numbers_at_the_limits_of_their_units
    numbers = Pelton::Numbers
    assert_equal ["999", "1 k", "1 M", "1 G", "-2 k", "0.5", "99", "100", "100"],
                 [999, 1000, 1_000_000, 1e9, -2000, 0.5, 98.6, 99.97, 100.2].map { |number| numbers.short(number) }
    assert_equal ["9.9 s", "1 min", "1 h", "1 h 1 min", "1 d"],
                 [9.94, 60, 3600, 3661, 86_400].map { |seconds| numbers.seconds(seconds) }
  end

  # Some pages said 41.7 MB where others, and config.memory, mean 39.8 MB.
  def test_a_megabyte_is_what_config_memory_means_by_it
    numbers = Pelton::Numbers
    assert_equal ["0 B", "1023 B", "1 kB", "-1 kB", "1023 kB", "1 MB", "–"],
                 [0, 1023, 1024, -1024, 1_047_900, (1 << 20) - 1, nil].map { |bytes| numbers.bytes(bytes) }
    assert_equal ["39.8 MB", "1.5 GB"], [41_713_664, 3 << 29].map { |bytes| numbers.bytes(bytes) }
    assert_equal "128 MB", numbers.bytes(Pelton::Settings.bytes("128MB"))
  end

  def test_a_plot_of_bytes_has_round_values_of_its_unit
    assert_equal ["40 MB", "20 MB", "0"], scale_of(41_713_664, unit: "B")
    assert_equal ["1 kB", "512 B", "0"], scale_of(1024, unit: "B")
    assert_equal ["1 B", "0.5 B", "0"], scale_of(0, unit: "B")
  end

  def test_html_escapes_all_but_html
    html = Web::Html
    assert_equal "&lt;b&gt;&amp;&quot;&#39;", html.of("<b>&\"'")
    assert_equal "<b>", html.of(html.new("<b>"))
    assert_equal "a\u{FFFD}b", html.of("a\xFFb".b)
    assert_equal '<a href="&quot;" hidden>&lt;</a>', html.tag(:a, "<", href: '"', title: nil, hidden: true)
  end

  # --- changes of groups --------------------------------------------------------------------------------------------

  # groups: {"billing" => [state, { "app-1" => [partitions of orders] }]}
  def groups_at(at, groups)
    descriptions = groups.to_h do |id, (state, members)|
      list = (members || {}).map do |name, numbers|
        Pelton::Admin::Member.new(id: "#{name}-id", client_id: name, instance_id: nil, host: "h",
                                  partitions: numbers.map { |number| ["orders", number] })
      end
      [id, Pelton::Admin::GroupDescription.new(id: id, state: state, type: :classic, assignor: "range", coordinator: 1,
                                               members: list)]
    end
    Web::Observation.new(cluster: nil, topics: {}, ends: {}, groups: descriptions, commits: {}, at: at.to_f)
  end

  def changes(*observations)
    kept = history
    observations.each_with_index { |groups, index| kept.send(:remember, groups_at(index, groups)) }
    [kept, kept.changes.map(&:last)]
  end

  def test_a_group_that_appears_changes_its_state_and_goes_is_noted_newest_first
    kept, texts = changes({ "old" => [:empty] }, { "old" => [:empty], "new" => [:empty] }, { "new" => [:stable] })
    assert_equal ["is gone", "empty → stable", "appeared, empty"], texts
    assert_equal [[2.0, "old", "is gone"]], kept.changes("old")
    assert_equal [2.0, 1.0], kept.changes("new").map(&:first)
  end

  def test_members_that_join_and_leave_and_partitions_that_move_are_noted
    both = { "a" => [0, 1], "b" => [2] }
    _, texts = changes({ "g" => [:stable, { "a" => [0, 1, 2] }] }, { "g" => [:stable, both] },
                       { "g" => [:stable, both] }, { "g" => [:stable, { "b" => [0, 1, 2] }] })
    assert_equal ["2 partitions got another owner: orders 0-1", "a on h left",
                  "1 partition got another owner: orders 2", "b on h joined"], texts
  end

  def test_a_change_does_not_name_hundreds_of_partitions
    _, texts = changes({ "g" => [:stable, {}] }, { "g" => [:stable, { "a" => (0..400).map { |number| number * 2 } }] })
    assert_match(/\A401 partitions got another owner: orders 0,2,4,.{180,190}…\z/, texts.first)
  end

  def test_the_last_200_changes_are_kept
    states = Array.new(202) { |number| { "g" => [number.even? ? :stable : :empty] } }
    kept, texts = changes(*states)
    assert_equal [200, "stable → empty", 201.0, 2.0],
                 [texts.size, texts.first, kept.changes.first.first, kept.changes.last.first]
  end

  # --- plots --------------------------------------------------------------------------------------------------------

  def scale_of(*values, **options)
    series = series(*values.each_with_index.map { |value, index| [index * 10, value] })
    html = Web::Plot.large("Lag", { "messages" => series }, now: 60.0, **options)
    html[%r{<p class="scale" aria-hidden="true">(.*?)</p>}, 1].scan(%r{<span>(.*?)</span>}).flatten
  end

  def test_a_plot_has_round_values_beside_its_lines
    assert_equal %w[40 20 0], scale_of(1, 37)
    assert_equal ["600 MB", "300 MB", "0"], scale_of(512_345_678, unit: "B") # 489 MB
    assert_equal ["0.4/s", "0.2/s", "0"], scale_of(0.31, 0.1, unit: "/s")
    assert_equal ["100 k/s", "50 k/s", "0"], scale_of(100_000, unit: "/s")
  end

  def test_a_plot_of_seconds_goes_on_in_minutes
    values = lambda do |most|
      html = Web::Plot.large("Wait", { "x" => series([0, 3], [60, most]) }, now: 60, unit: :time)
      html.scan(/>([\d.]+ \w+)</).flatten.first(3)
    end
    assert_equal ["90 s", "100 s", "50 s"], values.call(90)
    assert_equal ["2.5 min", "4 min", "2 min"], values.call(150)
    assert_equal [["2 h", "2 h", "1 h"], ["6.5 d", "8 d", "4 d"]], [7200, 561_600].map { |most| values.call(most) }
  end

  def test_values_of_a_plot_without_a_number_or_with_one_message
    assert_equal [%w[2 1 0], %w[2 1 0], ["1/s", "0.5/s", "0"]], [scale_of, scale_of(1), scale_of(0, unit: "/s")]
  end

  def test_a_plot_has_its_values_as_a_label
    html = Web::Plot.large("Lag", { "messages" => series([0, 37], [10, 12]), "other" => series }, now: 10.0)
    assert_includes html, 'aria-label="Lag: messages 12, other unknown; most 37"'
    assert_includes html, "<b>–</b>"
  end

  def test_a_line_ends_where_values_are_missing
    values = [[0, 1], [10, 2], [50, 3], [60, 4], [100, 5]]
    lines = lambda do |gap, **how|
      known = values.each_with_object(Web::Series.new(gap: gap)) { |(at, value), all| all.add(at.to_f, value) }
      Web::Plot.large("Lag", { "x" => known }, now: 100.0, **how).scan(/points="(.*?)"/).flatten
    end
    assert_equal 1, lines.call(40).size
    assert_equal [2, 2, 2], lines.call(15).map { |line| line.split.size } # the last value alone: a short line
    assert_equal "0.0,99.3", lines.call(40, span: 100).first.split.first
  end

  # The line of a process that reported last an hour ago was drawn across the columns on its left.
  def test_values_that_are_older_than_a_plot_are_outside_of_it
    known = series([0, 1], [60, 2], [120, 3])
    lines = ->(now) { Web::Plot.small("Done", known, now: now).scan(/points="(.*?)"/).flatten }
    assert_equal 3, lines.call(Web::Series::SPAN + 0.0).first.split.size
    later = lines.call(Web::Series::SPAN + 30.0)
    assert_equal 2, later.first.split.size
    assert_operator later.first.to_f, :>=, 0
    assert_empty lines.call(Web::Series::SPAN + 500.0)
  end

  # Processes report also after the last look at the cluster. Their line left the plot on the right.
  def test_values_that_are_newer_than_a_plot_are_at_its_edge
    drawn = Web::Plot.large("Errors", { "x" => series([0, 1], [100, 2], [110, 3]) }, now: 100.0)
    assert_equal [0.0, 600.0, 600.0], drawn[/points="(.*?)"/, 1].split.map(&:to_f)
    alone = Web::Plot.small("Errors", series([100, 2]), now: 100.0)[/points="(.*?)"/, 1].split.map(&:to_f)
    assert_equal [119.6, 120.0], alone
  end

  # Of many values, a line has some. What it leaves out is no gap.
  def test_a_line_with_many_values_has_gaps_where_they_are
    known = Web::Series.new(gap: 60)
    [*0..1000, *2000..3000].each { |at| known.add(at, at) if (at % 5).zero? }
    parts = known.parts(60)
    assert_equal [[0, 1000], [2000, 3000]], parts.map { |part| [part.first.first, part.last.first] }
    assert_operator parts.sum(&:size), :<=, 64
  end

  # The legend said "errors 12/s" an hour after the last report.
  def test_a_plot_does_not_show_an_old_value_as_the_present_one
    known = Web::Series.new(gap: 15)
    known.add(0, 37)
    [["<b>37</b>", 15], ["<b>–</b>", 16]].each do |text, time|
      assert_includes Web::Plot.large("Lag", { "messages" => known }, now: time), text
    end
    assert_includes Web::Plot.small("Lag", known, now: 16), "now –"
  end

  def test_the_lines_of_groups_have_a_gap_where_kafka_was_away
    kept = history(*[0, 5, 40, 200, 205].map { |at| [at, 100, 50] })
    assert_equal [[0, 5, 40], [200, 205]], kept.series(:lag).parts(60).map { |part| part.map { |at, _| at.to_i } }
  end
end
