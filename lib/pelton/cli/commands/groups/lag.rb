# frozen_string_literal: true

require_relative "../../../runtime/clock"
require_relative "group_command"
require_relative "group_positions"

module Pelton
  class CLI
    module Commands
      # `pelton groups lag`
      class GroupsLag < GroupCommand
        # Seconds between two measurements.
        INTERVAL = 2
        CLEAR = "\e[H\e[2J"
        private_constant :INTERVAL, :CLEAR

        details <<~TEXT
          Counts the offsets between the committed offsets and the ends. A partition that a member has
          without a commit has no lag, for example if its first message fails. It is listed with "-", as
          Kafka's own tools do, and is not in the sum.
          The end of a transaction uses an offset, too. If only such ends follow the commit, the lag is 0;
          Kafka's own tools count them. Without names it counts for all groups. --watch measures again and
          again, until Ctrl-C: on a terminal it redraws the table, elsewhere it prints a table each time,
          with --json a line.
        TEXT
        example "pelton groups lag billing"
        example "pelton groups lag billing --watch 5", "every 5 seconds, with the change per second"
        example "pelton groups lag 'billing*' --max 10000", "exits with 1 if a group has a larger lag"
        arguments "[GROUP...]"
        topics_option "only this topic, or these partitions of it"
        option :watch, "--watch [SECONDS]", "measure every so often (default: 2)" do |text|
          seconds = Float(text || INTERVAL, exception: false)
          next seconds if seconds&.positive?

          raise ConfigError.new("--watch", text, "expected seconds, such as 5; names of groups come before --watch")
        end
        option :max, "--max N", "exit with 1 if the lag of a group is above this", type: Integer
        option :uncommitted, "--uncommitted", "also count messages of open transactions, and after them"

        # At a time of the monotonic clock, the positions of groups: {"billing" => {["orders", 0] => Position}}
        Measurement = Struct.new(:time, :groups)
        private_constant :Measurement

        private

        def run
          before = nil
          loop do
            now = measure(before)
            code = show(now, before) if now
            return code if code&.positive? || options[:watch].nil? || interruption.wait(options[:watch])

            before = now || before
          end
        end

        # nil if Kafka did not answer, while --watch goes on.
        def measure(before)
          @positions ||= GroupPositions.new(connected_app, timeout: timeout, uncommitted: options[:uncommitted])
          ids = ids(before)
          groups = @positions.of(ids, others: owned(ids)).transform_values do |all|
            all.select { |partition, _| topic?(*partition) }
          end
          check_topics(groups) unless before
          Measurement.new(Clock.now, groups)
        rescue KafkaError => e
          raise unless options[:watch] && e.retriable?

          err.puts "pelton: #{e.message}"
          nil
        end

        # {"billing" => [["orders", 0], …]}: what members have, also without a commit.
        def owned(ids)
          return {} if ids.empty?

          groups = admin.describe_groups(*ids, timeout: timeout)
          groups.transform_values { |group| group.members.flat_map(&:partitions) }
        end

        # A misspelled topic would look like no lag.
        def check_topics(groups)
          unknown = topics.to_h.keys - groups.each_value.flat_map { |all| all.keys.map(&:first) }
          return if unknown.empty?

          raise ConfigError.new("--topic", unknown.first, "no committed offsets there")
        end

        # The groups that are measured. A broker that has just started does not list its groups yet.
        def ids(before)
          found = select(arguments)
          raise ConfigError.new(arguments.join(" "), nil, "matches no group") if found.empty? && arguments.any?

          found
        rescue ConfigError
          before ? before.groups.keys : raise
        end

        # Prints a measurement and returns the exit code.
        def show(now, before)
          groups = now.groups.map { |id, all| facts(id, all, now, before) }
          data = { time: Time.now.utc.iso8601(3), lag: groups.sum { |group| group[:lag].to_i }, groups: groups }
          options[:watch] && output.json? ? output.line(data) : output.report(data) { print(data) }
          @out.flush # a pipe would get it much later
          groups.map { |group| above?(group) ? report_above(group) : 0 }.max || 0
        end

        def report_above(group)
          failure("the lag of #{shown(group[:group])} is #{group[:lag]}, above #{options[:max]}")
        end

        def above?(group) = options[:max] && group[:lag] && group[:lag] > options[:max]

        def facts(id, all, now, before)
          rows = all.map do |(topic, number), position|
            lag = position.lag
            { topic: topic, partition: number, committed: position.committed, end: position.end, lag: lag,
              **trend(lag, before&.groups&.dig(id, [topic, number])&.lag, now, before) }
          end
          lag = total(all)
          { group: id, lag: lag, **trend(lag, before && total(before.groups[id]), now, before), partitions: rows }
        end

        # nil for a group that was not there, or has no commits.
        def total(positions)
          lags = positions.to_h.each_value.filter_map(&:lag)
          lags.sum unless lags.empty?
        end

        # The change of the lag in a second, with --watch.
        def trend(lag, earlier, now, before)
          return {} unless options[:watch]

          { per_second: (((lag - earlier) / (now.time - before.time)).round(1) if lag && earlier) }
        end

        def print(data)
          output.puts "#{CLEAR if output.terminal?}#{data[:time]}" if options[:watch]
          rows = data[:groups].flat_map do |group|
            group[:partitions].map { |row| { group: group[:group], **row, **signed(row) } }
          end
          if rows.any? || data[:groups].empty?
            output.table(rows, empty: "no groups")
            output.puts if rows.any?
          end
          data[:groups].each { |group| output.puts(sum(group)) }
        end

        def signed(row) = row[:per_second] ? { per_second: format("%+.1f", row[:per_second]) } : {}

        # "billing: lag 20 in 3 partitions with a commit, 1 without, +1.5 per second"
        def sum(group)
          name = shown(group[:group])
          lags, without = group[:partitions].partition { |row| row[:committed] }.map(&:size)
          if group[:lag].nil?
            return "#{name}: no committed offsets#{" in #{count(without, "partition")}" if without.positive?}"
          end

          text = "#{name}: lag #{group[:lag]} in #{count(lags, "partition")} with a commit"
          text += ", #{without} without" if without.positive?
          text += ", #{signed(group)[:per_second]} per second" if group[:per_second]
          above?(group) ? output.paint(text, :red) : text
        end
      end
    end
  end
end
