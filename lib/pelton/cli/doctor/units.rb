# frozen_string_literal: true

require_relative "../../settings/settings"

module Pelton
  class CLI
    class Doctor
      # Finds times that look like milliseconds, as other frameworks have them: 60_000 s are 16.7 hours.
      class Units
        # s
        HOUR = 3_600
        DAY = 24 * HOUR
        YEAR = 365 * DAY
        LONG = 10_000
        UNITS = [[DAY, "days"], [HOUR, "hours"], [60, "minutes"]].freeze
        private_constant :HOUR, :DAY, :YEAR, :LONG, :UNITS

        #: (Config, Array[Routing::Group]) -> void
        def initialize(config, groups)
          @config = config
          @groups = groups
        end

        #: (Report) -> void
        def examine(report)
          Settings::APP.select { |setting| setting.unit == "s" }.each do |setting|
            value = @config.public_send(setting.name)
            report.warning(setting.name.to_s, text(value)) if value.is_a?(Numeric) && value >= LONG
          end
          routes.each do |(name, value, long), topics|
            report.warning(topics.join(", "), "#{name} #{value}: #{text(long)}")
          end
        end

        private

        # {["backoff", 1_000..30_000, 1_000] => ["topic orders", …]}
        def routes
          topics = @groups.flat_map { |group| group.topics.values }.reject(&:stage)
          topics.each_with_object({}) do |topic, found|
            times(topic).each do |name, value, numbers|
              long = numbers.find { |number| number.is_a?(Numeric) && milliseconds?(number) } or next
              (found[[name, value, long]] ||= []) << "topic #{topic.pattern&.inspect || topic.name}"
            end
          end
        end

        # [["backoff", 1..30, [1, 30]], …]
        def times(topic)
          settings = Settings::TOPIC.select { |setting| setting.unit == "s" }
          found = settings.to_h { |setting| [setting.name.to_s, topic.public_send(setting.name)] }
          found["throttle … every:"] = topic.throttle&.last
          found.map { |name, value| [name, value, value.is_a?(Range) ? [value.begin, value.end] : [*value]] }
        end

        # Whole thousands, but 18_000 s are 5 hours, and 2_592_000 s are 30 days.
        def milliseconds?(value)
          return false if value < 1_000 || (value % 1_000).positive?

          value > YEAR || (value % (value < 1_000_000 ? HOUR : DAY)).positive?
        end

        def text(seconds)
          size, unit = UNITS.find { |length, _| seconds >= 2 * length }
          "#{seconds} s are #{(seconds / size.to_f).round(1)} #{unit}: Pelton's times are in seconds, not in " \
            "milliseconds"
        end
      end
    end
  end
end
