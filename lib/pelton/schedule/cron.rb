# frozen_string_literal: true

require_relative "../errors"

module Pelton
  class Schedule
    # A line of five fields, as cron has them: minute, hour, day of the month, month, day of the week. Frozen.
    #   Cron.new("0 3 * * mon-fri").after(Time.now.to_i, zone)
    class Cron
      MONTHS = %w[jan feb mar apr may jun jul aug sep oct nov dec].each_with_index.to_h { |name, at| [name, at + 1] }
      DAYS = %w[sun mon tue wed thu fri sat].each_with_index.to_h
      # [what, smallest, largest, names]
      FIELDS = [["minute", 0, 59, {}], ["hour", 0, 23, {}], ["day of the month", 1, 31, {}], ["month", 1, 12, MONTHS],
                ["day of the week", 0, 7, DAYS]].freeze
      WORDS = { "@hourly" => "0 * * * *", "@daily" => "0 0 * * *", "@midnight" => "0 0 * * *",
                "@weekly" => "0 0 * * 0", "@monthly" => "0 0 1 * *", "@yearly" => "0 0 1 1 *",
                "@annually" => "0 0 1 1 *" }.freeze
      DAY = 86_400
      # Days until a line occurs at the latest: a 29 February on one day of the week, over a year such as 2100.
      LONGEST = 41 * 366
      private_constant :MONTHS, :DAYS, :FIELDS, :WORDS, :DAY, :LONGEST

      # Raises ConfigError for a line that is none, and for one that never occurs.
      #: (String) -> void
      def initialize(line)
        @line = line
        fields = WORDS.fetch(line, line).downcase.split
        raise ConfigError.new("cron", line, "expected five fields, as \"0 3 * * *\"") unless fields.size == 5

        @minutes, @hours, @days, @months, weekdays = fields.zip(FIELDS).map { |text, field| numbers(text, *field) }
        @weekdays = weekdays.map { |day| day % 7 }.uniq
        # A field that begins with * leaves the choice to the other one.
        @either = [fields[2], fields[4]].none? { |text| text.start_with?("*") }
        @each_hour = fields[1].start_with?("*")
        raise ConfigError.new("cron", line, "never occurs: no such month has this day") unless possible?

        freeze
      end

      # The first time after `seconds`, both since 1970. zone: has `offset(seconds)`. A local time that does not exist,
      # because clocks go forward, counts as if they had not. Of one that exists twice, the first counts; with * as
      # hour, both do.
      #: (Integer, untyped) -> Integer
      def after(seconds, zone)
        first = (seconds + zone.offset(seconds)).div(DAY) - 1
        (first..(first + LONGEST)).each do |day|
          next unless day?(day)

          found = times(day * DAY, zone).select { |time| time > seconds }.min
          return found if found
        end
      end

      private

      def numbers(text, what, min, max, names)
        text.split(",", -1).flat_map do |part|
          range, step = part.split("/", 2)
          raise wrong(what, text) if part.empty? || (step && !step.match?(/\A[1-9]\d*\z/))

          span(range, min, max, names, step, what, text).step(step.to_i.clamp(1, nil)).to_a
        end.uniq.sort
      end

      # "5" is 5, "5/10" is 5 to the largest, in steps.
      def span(range, min, max, names, step, what, text)
        return min..(what == "day of the week" ? 6 : max) if range == "*"

        from, to = range.to_s.split("-", 2).map { |bound| names[bound] || Integer(bound, 10, exception: false) || -1 }
        to ||= step ? max : from
        raise wrong(what, text) unless from && from >= min && to <= max && from <= to

        from..to
      end

      def wrong(what, text)
        ConfigError.new("cron", @line, "#{what}: #{text} is not allowed")
      end

      def possible?
        @either || @months.any? { |month| @days.first <= days_of(month) }
      end

      def days_of(month) = { 2 => 29, 4 => 30, 6 => 30, 9 => 30, 11 => 30 }.fetch(month, 31)

      # day: since 1970.
      def day?(day)
        date = Time.at(day * DAY).utc
        return false unless @months.include?(date.month)

        both = [@days.include?(date.day), @weekdays.include?(date.wday)]
        @either ? both.any? : both.all?
      end

      # The times of a local day, which begins at `start` in local seconds.
      def times(start, zone)
        offsets = [zone.offset(start - DAY), zone.offset(start + (2 * DAY))]
        locals = @hours.product(@minutes).map { |hour, minute| start + (hour * 3600) + (minute * 60) }
        return locals.map { |local| local - offsets.first } if offsets.uniq.one?

        locals.flat_map { |local| real(local, offsets, zone) }
      end

      # The times that a local time has on a day on which clocks change.
      def real(local, offsets, zone)
        found = offsets.map { |offset| local - offset }.select { |time| time + zone.offset(time) == local }.uniq.sort
        return found if @each_hour

        [found.first || (local - offsets.first)]
      end
    end
  end
end
