# frozen_string_literal: true

require "forwardable"
require "time"
require_relative "../../logging/numbers"
require_relative "../../logging/printable"
require_relative "../../reports/summary"

module Pelton
  class CLI
    module Top
      # What `pelton top` shows at one moment, as data and as lines of text.
      class Frame
        extend Forwardable

        # Lines of a table besides its rows: an empty one, and the headings.
        AROUND = 2
        private_constant :AROUND

        # notes: lines about what the tables lack.
        #: (Reports::Summary, ?notes: Array[String]) -> void
        def initialize(summary, notes: [])
          @summary = summary
          @notes = notes
        end

        # For --json.
        #: () -> Hash[Symbol, untyped]
        def to_h
          { time: Time.at(now).utc.iso8601(3), groups: groups, processes: processes, jobs: jobs,
            partitions: partitions, errors: errors, notes: @notes }
        end

        # height: most lines; nil: no limit. Each line has at most `width` characters; nil: any number.
        #: (?width: Integer?, ?height: Integer?) -> Array[String]
        def lines(width: nil, height: nil)
          tables = sections.reject { |_, rows| rows.empty? }
          head = [headline, *@notes.map { |note| Printable.line(note) }]
          limit = height ? [(height - head.size - (tables.size * AROUND)) / [tables.size, 1].max, 1].max : nil
          all = [*head, *tables.flat_map { |columns, rows| ["", *table(columns, rows, limit)] }]
          all << "" << "No process has reported lately." if reports.empty?
          all = all.first(height) if height
          all.map { |line| width ? line[0, width] : line }
        end

        private

        def_delegators :@summary, :groups, :processes, :jobs, :partitions, :errors, :reports, :live, :now

        def headline
          "pelton top  #{Numbers.time(now)}  #{live.size} of #{reports.size} processes live"
        end

        # [[headings, rows of text], …]
        def sections
          [[%w[GROUP PROCESSES LAG DONE/S], groups.map { |row| row.values_at(:group, :processes, :lag, :per_second) }],
           [%w[PROCESS NAME STATE UP BUSY WAITING DONE/S SENT/S ERRORS/S LAG MEMORY THREADS],
            processes.map { |row| process(row) }],
           [%w[RUNS CALL CONSUMER PARTITION OFFSET KIND MESSAGES PROCESS],
            jobs.map { |row| durations(row.except(:long)) }],
           [%w[PARTITION GROUP STATE CALL OFFSET LAG PROCESS], partitions.map { |row| durations(row) }],
           [%w[AGO ERROR AT MESSAGE], errors.map { |row| error(row) }]]
        end

        def process(row)
          [*row.values_at(:process, :name, :state), Numbers.seconds(row[:up]), "#{row[:busy]}/#{row[:workers]}",
           *row.values_at(:waiting, :per_second, :sent, :errors, :lag), Numbers.bytes(row[:rss]), row[:threads]]
        end

        # The values of a row, its seconds as text.
        def durations(row)
          row.map { |name, value| value && %i[seconds call].include?(name) ? Numbers.seconds(value) : value }
        end

        def error(row)
          [ago(row[:at]), *row.values_at(:error, :place, :message)]
        end

        def ago(time) = Numbers.seconds([now - time, 0].max.round)

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
