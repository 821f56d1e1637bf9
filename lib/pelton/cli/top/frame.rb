# frozen_string_literal: true

require "time"
require_relative "../../logging/numbers"
require_relative "../../logging/printable"
require_relative "../../reports/report"

module Pelton
  class CLI
    module Top
      # What `pelton top` shows at one moment, as data and as lines of text.
      class Frame
        # Lines of a table besides its rows: an empty one, and the headings.
        AROUND = 2
        private_constant :AROUND

        # reports: the latest of each process. lags: {"billing" => 12}, from the cluster. group: show this one only.
        # now: seconds since 1970.
        #: (Array[Reports::Report], now: Float, ?lags: Hash[String, Integer?], ?group: String?) -> void
        def initialize(reports, now:, lags: {}, group: nil)
          @reports = reports
          @now = now
          @lags = lags
          @group = group
        end

        # For --json.
        #: () -> Hash[Symbol, untyped]
        def to_h
          { time: Time.at(@now).utc.iso8601(3), groups: groups, processes: processes, jobs: jobs,
            partitions: partitions, errors: errors }
        end

        # height: most lines; nil: no limit. Each line has at most `width` characters; nil: any number.
        #: (?width: Integer?, ?height: Integer?) -> Array[String]
        def lines(width: nil, height: nil)
          tables = sections.reject { |_, rows| rows.empty? }
          limit = height ? [(height - 1 - (tables.size * AROUND)) / [tables.size, 1].max, 1].max : nil
          all = [headline, *tables.flat_map { |columns, rows| ["", *table(columns, rows, limit)] }]
          all << "" << "No process has reported lately." if @reports.empty?
          all = all.first(height) if height
          all.map { |line| width ? line[0, width] : line }
        end

        private

        def groups
          names = @group ? [@group] : @reports.flat_map(&:groups).uniq.sort
          names.map do |name|
            live = live(name)
            # The cluster's lag lacks partitions without a commit, and that of processes those without an owner.
            lag = [@lags[name], live.sum { |one| one.lag(name) }].compact.max
            { group: name, processes: live.size, lag: lag,
              per_second: live.sum { |one| one.rate_in(name) }.round(1) }
          end
        end

        def processes
          @reports.map do |one|
            { process: one.process_name, name: one.name, state: one.silent?(@now) ? "silent" : one.state,
              up: (@now - one.started_at).round, busy: one.jobs[:running], workers: one.workers,
              waiting: one.jobs[:waiting], per_second: one.rate_in(@group).round(1), sent: one.rates[:out].round(1),
              errors: one.rates[:errors].round(2), lag: one.lag(@group), rss: one.rss, threads: one.threads }
          end
        end

        # The longest first.
        def jobs
          rows = live(@group).flat_map do |one|
            one.running.select { |job| of_group?(job) }.map do |job|
              { seconds: [@now - job[:since], 0].max.round(1), consumer: job[:consumer],
                partition: "#{job[:topic]}/#{job[:partition]}", kind: job[:kind], messages: job[:messages],
                process: one.process_name }
            end
          end
          rows.sort_by { |row| -row[:seconds] }
        end

        # Those that need attention.
        def partitions
          live(@group).flat_map do |one|
            troubled = one.each_partition(@group).reject { |*, state| Reports::Report::WELL.include?(state) }
            troubled.map do |group, topic, number, lag, state|
              { partition: "#{topic}/#{number}", group: group, state: state, lag: lag, process: one.process_name }
            end
          end
        end

        # The newest first.
        def errors
          rows = @reports.flat_map do |one|
            one.errors.select { |error| of_group?(error) }.map do |error|
              place = "#{error[:topic]}/#{error[:partition]} #{error[:offset]}".strip if error[:topic]
              { at: error[:at], error: error[:class], message: error[:message], place: place,
                failure_id: error[:failure_id], process: one.process_name }
            end
          end
          rows.sort_by { |row| -row[:at] }
        end

        def live(group)
          @reports.reject { |one| one.stopped? || one.silent?(@now) || (group && !one.groups.include?(group)) }
        end

        def of_group?(row) = @group.nil? || row[:group] == @group

        def headline
          "pelton top  #{Numbers.time(@now)}  #{live(@group).size} of #{@reports.size} processes live"
        end

        # [[headings, rows of text], …]
        def sections
          [[%w[GROUP PROCESSES LAG DONE/S], groups.map { |row| row.values_at(:group, :processes, :lag, :per_second) }],
           [%w[PROCESS NAME STATE UP BUSY WAITING DONE/S SENT/S ERRORS/S LAG MEMORY THREADS],
            processes.map { |row| process(row) }],
           [%w[RUNS CONSUMER PARTITION KIND MESSAGES PROCESS],
            jobs.map { |row| [Numbers.seconds(row[:seconds]), *row.values.drop(1)] }],
           [%w[PARTITION GROUP STATE LAG PROCESS], partitions.map(&:values)],
           [%w[AGO ERROR AT MESSAGE], errors.map { |row| error(row) }]]
        end

        def process(row)
          [*row.values_at(:process, :name, :state), Numbers.seconds(row[:up]), "#{row[:busy]}/#{row[:workers]}",
           *row.values_at(:waiting, :per_second, :sent, :errors, :lag), Numbers.bytes(row[:rss]), row[:threads]]
        end

        def error(row)
          [ago(row[:at]), *row.values_at(:error, :place, :message)]
        end

        def ago(time) = Numbers.seconds([@now - time, 0].max.round)

        def table(headings, rows, limit)
          shown = limit && rows.size > limit ? rows.first([limit - 1, 1].max) : rows
          columns = headings.each_with_index.map { |heading, at| column(heading, shown.map { |row| row[at] }) }
          lines = columns.transpose.map { |cells| cells.join("  ").rstrip }
          shown.size < rows.size ? [*lines, "… #{rows.size - shown.size} more"] : lines
        end

        # Cells of the same width; numbers go to the right.
        def column(heading, values)
          cells = [heading, *values.map { |value| value.nil? ? "-" : Printable.line(value) }]
          width = cells.map(&:size).max
          cells.map { |cell| values.compact.all?(Numeric) ? cell.rjust(width) : cell.ljust(width) }
        end
      end
    end
  end
end
