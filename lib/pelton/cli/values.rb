# frozen_string_literal: true

require "date"
require "time"
require_relative "../errors"

module Pelton
  class CLI
    # Values that several commands accept. Each method raises ConfigError with the option's name.
    #   option(:since, "--since TIME", "…") { |text| Values.time("--since", text) }
    module Values
      UNITS = { "ms" => 0.001, "s" => 1, "m" => 60, "min" => 60, "h" => 3600, "d" => 86_400, "w" => 604_800 }.freeze
      DURATION = /\A(?:\d+(?:\.\d+)?(?:ms|min|[smhdw]))+\z/
      RATE = %r{\A(\d{1,18}(?:\.\d{1,18})?)(?:/(s|m|min|h))?\z}
      private_constant :UNITS, :DURATION, :RATE

      module_function

      # Seconds: "30m" → 1800, "1h30m" → 5400, "250ms" → 0.25.
      #: (String, String) -> Numeric
      def duration(option, text)
        unless DURATION.match?(text)
          raise ConfigError.new(option, text, "expected a duration, such as 30s, 15m, 2h or 7d")
        end

        text.scan(/(\d+(?:\.\d+)?)(ms|min|[smhdw])/).sum do |amount, unit|
          (amount.include?(".") ? Float(amount) : Integer(amount)) * UNITS.fetch(unit)
        end
      end

      # Messages per second: "100" or "100/s" → 100.0, "6000/min" or "6000/m" → 100.0, "90/h" → 0.025.
      #: (String, String) -> Float
      def rate(option, text)
        count, unit = RATE.match(text)&.captures
        rate = count ? Float(count) / UNITS.fetch(unit || "s") : 0
        return rate if rate.positive?

        raise ConfigError.new(option, text, "expected a rate, such as 100/s, 6000/min or 10/h")
      end

      # A Time: ISO 8601 ("2026-11-23T08:00:00Z"; without a zone, local time), or a duration before now ("2h").
      #: (String, String, ?now: Time) -> Time
      def time(option, text, now: Time.now)
        return now - duration(option, text) if DURATION.match?(text)

        # Ruby would take February 30 for March 2.
        Date.iso8601(text[0, 10]) if text.match?(/\A\d{4}-\d{2}-\d{2}/)
        return Time.strptime(text, "%Y-%m-%d") if text.match?(/\A\d{4}-\d{2}-\d{2}\z/)

        return Time.iso8601(text) if text.match?(/(Z|[+-]\d{2}:?\d{2})\z/i)

        local(Time.iso8601("#{text}Z"))
      rescue ArgumentError
        raise ConfigError.new(option, text, "expected a time, such as 2026-11-23T08:00:00Z, or 2h for 2 hours ago")
      end

      # The same digits as local time. Its offset may differ from that of today: daylight saving time.
      def local(time) = Time.local(time.year, time.month, time.day, time.hour, time.min, time.sec + time.subsec)
      private_class_method :local

      # ["orders", [0, 1]] of "orders:0,1"; ["orders", nil] of "orders": all partitions.
      #: (String, String) -> [String, Array[Integer]?]
      def partitions(option, text)
        topic, list = text.split(":", 2)
        valid = !topic.to_s.empty? && (list.nil? || list.match?(/\A\d+(,\d+)*\z/))
        raise ConfigError.new(option, text, "expected TOPIC or TOPIC:0,1") unless valid

        [topic, list&.split(",")&.map { |number| Integer(number, 10) }]
      end
    end
  end
end
