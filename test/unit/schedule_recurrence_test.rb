# frozen_string_literal: true

require_relative "../test_helper"
require "rbconfig"
require "tmpdir"
require "pelton/schedule"
require "pelton/schedule/recurrence"

# When recurring messages are due.
class ScheduleRecurrenceTest < Minitest::Test
  Recurrence = Pelton::Schedule::Recurrence
  Cron = Pelton::Schedule::Cron

  # Central Europe in 2026: from UTC+1 to UTC+2 on 29 March at 1:00 UTC, and back on 25 October at 1:00 UTC.
  BERLIN = Object.new.tap do |zone|
    summer = Time.utc(2026, 3, 29, 1).to_i...Time.utc(2026, 10, 25, 1).to_i
    zone.define_singleton_method(:offset) { |time| summer.cover?(time) ? 7200 : 3600 }
  end
  UTC = Object.new.tap { |zone| def zone.offset(_time) = 0 }

  # The next times of a line, as texts in UTC.
  def times(line, from, count = 1, zone: UTC)
    cron = Cron.new(line)
    time = Time.utc(*from).to_i
    Array.new(count) { Time.at(time = cron.after(time, zone)).utc.strftime("%F %H:%M") }
  end

  def test_lines_in_utc
    {
      "* * * * *" => "2026-11-23 20:31", "*/15 * * * *" => "2026-11-23 20:45", "0 3 * * *" => "2026-11-24 03:00",
      "30 20 * * *" => "2026-11-24 20:30", "5,35 20-22 * * *" => "2026-11-23 20:35",
      "10/20 * * * *" => "2026-11-23 20:50",
      "0 0 1 * *" => "2026-12-01 00:00", "0 0 1 JAN *" => "2027-01-01 00:00", "0 9 * * mon-fri" => "2026-11-24 09:00",
      "0 9 * * 0" => "2026-11-29 09:00", "0 9 * * 7" => "2026-11-29 09:00", "0 9 * * Sat,Sun" => "2026-11-28 09:00",
      "0 0 13 * 5" => "2026-11-27 00:00", "0 0 29 2 *" => "2028-02-29 00:00", "0 0 31 * *" => "2026-12-31 00:00",
      "@hourly" => "2026-11-23 21:00", "@weekly" => "2026-11-29 00:00", "@yearly" => "2027-01-01 00:00",
      "0 0 */10 * 1-5" => "2026-12-01 00:00"
    }.each { |line, expected| assert_equal [expected], times(line, [2026, 11, 23, 20, 30]), line }
  end

  def test_leap_day_is_found_over_a_year_without_one
    assert_equal ["2104-02-29 00:00"], times("0 0 29 2 *", [2096, 3, 1])
  end

  # With * in front, both days must fit.
  def test_leap_day_on_a_day_of_the_week_is_found_after_40_years
    assert_equal ["2128-02-29 00:00"], times("0 0 29 2 */7", [2088, 3, 1])
  end

  def test_local_time_that_does_not_exist_counts_as_if_clocks_had_not_moved
    assert_equal ["2026-03-28 01:30", "2026-03-29 01:30", "2026-03-30 00:30"],
                 times("30 2 * * *", [2026, 3, 27, 12], 3, zone: BERLIN)
  end

  def test_local_time_that_exists_twice_counts_once
    assert_equal ["2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"],
                 times("30 2 * * *", [2026, 10, 23, 12], 3, zone: BERLIN)
  end

  def test_each_hour_is_each_real_hour
    assert_equal ["2026-03-29 00:30", "2026-03-29 01:30", "2026-03-29 02:30"],
                 times("30 * * * *", [2026, 3, 29], 3, zone: BERLIN)
    assert_equal %w[23:30 00:30 01:30 02:30],
                 times("30 * * * *", [2026, 10, 24, 23], 4, zone: BERLIN).map { |text| text[-5..] }
  end

  def test_lines_that_are_none
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *",
     "5-1 * * * *", "*/0 * * * *", "1, * * * *", "-1 * * * *", "1-2-3 * * * *", "/5 * * * *", "@never",
     "* * * feb-foo *"].each do |line|
      error = assert_raises(Pelton::ConfigError, line) { Cron.new(line) }
      assert_equal ["cron", line], [error.key, error.value]
    end
    ["0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30 feb *", "0 0 30 2 */2"].each do |line|
      assert_includes assert_raises(Pelton::ConfigError) { Cron.new(line) }.message, "never occurs"
    end
  end

  def test_every_counts_from_1970
    hourly = Recurrence.of(every: "1h")
    assert_equal "every 3600", hourly.to_s
    assert_equal 7_200_000, hourly.after(3_600_000)
    assert_equal 7_200_000, hourly.after(7_199_999)
    assert_equal [90, 300, 86_400, 604_800, 7],
                 ["90s", "5m", "1d", "1w", 7].map { |every| Recurrence.of(every: every).after(0) / 1000 }
  end

  def test_values_that_are_not_allowed
    [{}, { every: 5, cron: "* * * * *" }, { every: "5x" }, { every: 0 }, { every: 1.5 }, { every: "1h", zone: "UTC" },
     { cron: 5 }, { cron: "* * * * *", zone: "+15:00" }].each do |options|
      assert_raises(Pelton::ConfigError, options) { Recurrence.of(**options) }
    end
  end

  # They come from the schedule topic, where others may write.
  def test_texts_that_are_none
    ["", "every", "every abc", "every 0", "every -5", "cron", "cron UTC", "cron UTC 5", "often 5"].each do |text|
      assert_raises(Pelton::ConfigError, text) { Recurrence.new(text) }
    end
  end

  def test_offsets_as_zones
    at = Recurrence.of(cron: "0 3 * * *", zone: "+05:30").after(0)
    assert_equal Time.utc(1970, 1, 1, 21, 30).to_i * 1000, at
    assert_equal Time.utc(1970, 1, 1, 8).to_i * 1000, Recurrence.of(cron: "0 3 * * *", zone: "-05:00").after(0)
  end

  # The gem is not a part of Pelton: Rails brings it.
  def test_named_zones_come_from_tzinfo
    period = Struct.new(:utc_total_offset)
    berlin = Class.new do
      define_method(:period_for_utc) { |time| period.new(time.month == 7 ? 7200 : 3600) }
    end
    unknown = Class.new(StandardError)
    timezone = Module.new.tap do |made|
      made.define_singleton_method(:get) do |name|
        raise unknown if name == "Mars/Base"

        name == "Europe/Berlin" ? berlin.new : raise(TZInfo::DataSourceNotFound)
      end
    end
    with_tzinfo(timezone, unknown) do
      recurrence = Recurrence.of(cron: "0 3 * * *", zone: "Europe/Berlin")
      assert_equal Time.utc(2026, 7, 2, 1).to_i * 1000, recurrence.after(Time.utc(2026, 7, 1, 12).to_i * 1000)
      error = assert_raises(Pelton::ConfigError) { Recurrence.of(cron: "0 3 * * *", zone: "Mars/Base") }
      assert_includes error.message, "unknown"
      error = assert_raises(Pelton::ConfigError) { Recurrence.of(cron: "0 3 * * *", zone: "Asia/Tokyo") }
      assert_equal ["zone", "Asia/Tokyo", true], [error.key, error.value, error.message.include?("tzdata")]
    end
  end

  def test_named_zone_without_the_gem
    Dir.mktmpdir do |folder|
      File.write("#{folder}/tzinfo.rb", "raise LoadError, 'none'")
      code = "require 'pelton/schedule'; require 'pelton/schedule/recurrence'; begin; " \
             "Pelton::Schedule::Recurrence.of(cron: '0 3 * * *', zone: 'Europe/Berlin'); " \
             "rescue Pelton::ConfigError => e; puts e.message; end"
      lib = File.expand_path("../../lib", __dir__)
      out = IO.popen([RbConfig.ruby, "-I#{folder}", "-I#{lib}", "-rpelton", "-e", code], err: [:child, :out], &:read)
      assert_includes out, "needs the gem tzinfo"
    end
  end

  private

  def with_tzinfo(timezone, unknown)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/tzinfo.rb", "")
      $LOAD_PATH.unshift(folder)
      Object.const_set(:TZInfo, Module.new)
      TZInfo.const_set(:Timezone, timezone)
      TZInfo.const_set(:InvalidTimezoneIdentifier, unknown)
      TZInfo.const_set(:DataSourceNotFound, Class.new(StandardError))
      yield
    ensure
      Object.send(:remove_const, :TZInfo)
      $LOAD_PATH.delete(folder)
      $LOADED_FEATURES.reject! { |path| path.start_with?(folder) }
    end
  end
end
