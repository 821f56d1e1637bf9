# frozen_string_literal: true

require_relative "../errors"
require_relative "cron"

module Pelton
  class Schedule
    # When a recurring message is sent: every so many seconds since 1970, or as a line of cron says. Frozen.
    #   Recurrence.of(every: "1h").to_s # => "every 3600"
    class Recurrence
      UNITS = { "s" => 1, "m" => 60, "h" => 3600, "d" => 86_400, "w" => 604_800 }.freeze
      EVERY = "expected seconds, or a String such as \"90s\", \"5m\", \"1h\", \"1d\" or \"1w\""
      ONE = "needs one of every: and cron:"
      OFFSET = /\A([+-])(0\d|1[0-4]):([0-5]\d)\z/
      ZONE = "is unknown: use a name such as \"Europe/Berlin\", \"UTC\", or an offset such as \"+02:00\""
      TZINFO = "needs the gem tzinfo: add it to the Gemfile, or use \"UTC\" or an offset such as \"+02:00\""
      DATA = "needs time zone data: install the package tzdata or the gem tzinfo-data"
      private_constant :UNITS, :EVERY, :ONE, :OFFSET, :ZONE, :TZINFO, :DATA

      # A time zone without changes.
      Fixed = Struct.new(:seconds) do
        def offset(_time) = seconds
      end
      # A time zone of the gem tzinfo.
      Named = Struct.new(:zone) do
        def offset(time) = zone.period_for_utc(Time.at(time).utc).utc_total_offset
      end
      private_constant :Fixed, :Named

      # Raises ConfigError.
      #: (?every: (String | Numeric)?, ?cron: String?, ?zone: String?) -> Recurrence
      def self.of(every: nil, cron: nil, zone: nil)
        raise ConfigError.new("recurring", nil, ONE) unless every.nil? ^ cron.nil?
        raise ConfigError.new("zone", zone, "is for cron lines; `every` counts from 1970 in UTC") if every && zone
        raise ConfigError.new("cron", cron, "expected a String") unless cron.nil? || cron.is_a?(String)

        new(every ? "every #{seconds(every)}" : "cron #{zone || "UTC"} #{cron}")
      end

      def self.seconds(every)
        seconds = every.to_i if every.is_a?(Numeric) && every.to_i == every
        seconds = every.to_i * UNITS.fetch(every[-1]) if every.is_a?(String) && every.match?(/\A\d+[smhdw]\z/)
        return seconds if seconds&.between?(1, 366 * 86_400)

        raise ConfigError.new("every", every, EVERY)
      end
      private_class_method :seconds

      # "every 3600" or "cron UTC 0 3 * * *"
      #: () -> String
      attr_reader :to_s

      # text: as `to_s` returns it. Raises ConfigError.
      #: (String) -> void
      def initialize(text)
        @to_s = text
        kind, rest = text.split(" ", 2)
        if kind == "every"
          @every = rest.to_i
          raise ConfigError.new("recurring", text, EVERY) unless @every.positive?
        else
          zone, line = rest.to_s.split(" ", 2)
          @zone = zone(zone.to_s)
          @cron = Cron.new(line.to_s)
        end
        freeze
      end

      # The first time after this one, both in milliseconds since 1970.
      #: (Integer) -> Integer
      def after(time)
        seconds = time.div(1000)
        (@every ? seconds - (seconds % @every) + @every : @cron.after(seconds, @zone)) * 1000
      end

      private

      def zone(name)
        return Fixed.new(0) if name == "UTC"
        return Fixed.new((($2.to_i * 60) + $3.to_i) * ($1 == "-" ? -60 : 60)) if name =~ OFFSET

        raise ConfigError.new("zone", name, ZONE) unless name.match?(/\A[A-Za-z]/)

        load_tzinfo(name)
        named(name)
      end

      def load_tzinfo(name)
        require "tzinfo"
      rescue LoadError
        raise ConfigError.new("zone", name, TZINFO)
      end

      def named(name)
        Named.new(TZInfo::Timezone.get(name))
      rescue TZInfo::InvalidTimezoneIdentifier
        raise ConfigError.new("zone", name, ZONE)
      rescue TZInfo::DataSourceNotFound
        raise ConfigError.new("zone", name, DATA)
      end
    end
  end
end
