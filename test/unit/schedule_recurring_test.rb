# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "support/fake_messages"
require "pelton/app"
require "pelton/schedule"
require "pelton/schedule/recurring"

# Recurring messages: how routes declare them, and what a change of the routes makes of an entry.
class ScheduleRecurringTest < Minitest::Test
  Recurring = Pelton::Schedule::Recurring

  def recurring(**options) = Recurring.new("cleanup", topic: "jobs", payload: "{}", **{ every: "1h" }.merge(options))

  # As it is read from the schedule topic.
  def stored(entry)
    row = entry.record("sched")
    headers = row[:headers].transform_values(&:b)
    message = Fakes::Message.new("sched", 0, 7, row[:payload].b, key: row[:key], headers: headers)
    Pelton::Schedule::ScheduledMessage.read(message)
  end

  def test_first_time_is_the_next_one
    now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
    entry = recurring.entry("@recurring/g/cleanup", 0, nil)
    assert_includes now..(now + 3_700_000), entry.at_ms
    assert_equal [0, "every 3600", nil], [entry.at_ms % 3_600_000, entry.recurring, entry.last]
  end

  def test_unchanged_message_keeps_its_entry
    options = { key: "é", headers: { "a" => "ü" }, partition: 2, payload: "ö" }
    entry = recurring(**options).entry("id", 0, nil)
    assert_nil recurring(**options).entry("id", 0, stored(entry))
  end

  def test_changed_message_gets_another_entry
    before = stored(recurring.entry("id", 0, nil))
    [{ every: "2h" }, { payload: "x" }, { key: "k" }, { partition: 1 }, { headers: { "a" => "b" } }].each do |change|
      entry = recurring(**change).entry("id", 0, before)
      assert_equal change.fetch(:payload, "{}"), entry.payload, change
    end
  end

  # The servers that are deployed with a changed message were down at its time.
  def test_missed_time_is_sent_after_a_change_of_the_message
    missed = stored(recurring.entry("id", 0, nil).with(at_ms: 3_600_000))
    assert_equal 3_600_000, recurring(payload: "new").entry("id", 0, missed).at_ms
    now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
    assert_operator recurring(every: "2h").entry("id", 0, missed).at_ms, :>, now
  end

  # The server that sent last had a faster clock.
  def test_time_that_was_sent_does_not_come_again_after_a_change
    ahead = (Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond).div(3_600_000) + 5) * 3_600_000
    before = stored(Recurring.next(recurring.entry("id", 0, nil).with(at_ms: ahead), 0))
    assert_equal [ahead + 3_600_000, ahead], [before.at_ms, before.last]
    entry = recurring(payload: "new").entry("id", 0, before)
    assert_equal [ahead + 3_600_000, ahead], [entry.at_ms, entry.last]
    assert_equal ahead + 1_800_000, recurring(every: "30m").entry("id", 0, before).at_ms
  end

  def test_messages_of_a_group_whose_name_begins_alike_belong_to_others
    found = %w[shop shop/eu sho].map { |group| Recurring.of?("shop", recurring.id(group)) }
    assert_equal [true, false, false], found
  end

  def test_missed_times_are_sent_once
    entry = recurring.entry("id", 0, nil).with(at_ms: 3_600_000, moved: 5)
    after = Recurring.next(entry, (3_600_000 * 10) + 1)
    assert_equal [3_600_000 * 11, 3_600_000, nil], [after.at_ms, after.last, after.moved]
  end

  def test_words_of_routes
    routing = Pelton::Routing.new
    routing.draw { recurring "a", cron: "0 3 * * *", topic: "jobs", payload: "{}" }
    assert_equal ["a"], routing.recurring.map(&:name)
    { "is declared twice" => { topic: "jobs", payload: "{}", every: 5 }, "needs payload" => { topic: "jobs", every: 5 },
      "needs topic" => { payload: "", every: 5 } }.each do |text, options|
      assert_includes assert_raises(Pelton::ConfigError) { routing.draw { recurring "a", **options } }.message, text
    end
    [{ payload: 5 }, { key: 7 }, { headers: [] }, { headers: { a: "b" } }, { partition: -1 },
     { topic: "a b" }, { partition_key: "x" }, { every: nil }, { cron: "0 3 * * *" }].each do |options|
      assert_raises(Pelton::ConfigError, options.to_s) { recurring(**options) }
    end
    assert_raises(Pelton::ConfigError) { Recurring.new("a b", topic: "t", payload: "", every: 1) }
  end

  def test_recurring_needs_a_schedule_topic
    routing = Pelton::Routing.new
    routing.draw do
      topic "jobs", to: Class.new(Pelton::Consumer) { def consume = nil }
      recurring "a", every: 5, topic: "jobs", payload: "{}"
    end
    config = Pelton::Config.new.tap { |made| made.group_id = "g" }
    assert_equal "schedule_topic", assert_raises(Pelton::ConfigError) { routing.groups(config) }.key
    config.schedule_topic = "sched"
    assert_equal ["g"], routing.groups(config).map(&:name)
  end
end
