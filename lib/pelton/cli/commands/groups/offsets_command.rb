# frozen_string_literal: true

require_relative "group_command"

module Pelton
  class CLI
    module Commands
      # What the commands that change committed offsets share: a dry run unless --apply is given, a table of changes.
      class OffsetsCommand < GroupCommand
        option :apply, "--apply", "make the changes; without it, they are only printed"

        private

        # group: its description, or nil for one that does not exist. Yields whether to change nothing, and prints the
        # OffsetChanges that the block returns. Returns the exit code.
        def change(id, group)
          busy = group&.members.to_a.any?
          apply = options[:apply] && !busy
          rows = yield(!apply).sort_by(&:first).map { |(topic, number), change| row(topic, number, change) }
          output.report({ group: id, applied: apply || false, live_members: busy ? members(group) : [],
                          changes: rows }) { print_changes(id, rows, group, apply) }
          options[:apply] && busy ? failure("nothing was changed: #{live(group)}") : 0
        end

        # skipped, repeated: offsets; nil without an earlier commit.
        def row(topic, number, change)
          moved = change.moved
          { topic: topic, partition: number, before: change.before, after: change.after,
            skipped: moved && [moved, 0].max, repeated: moved && [-moved, 0].max, bounded: change.bounded&.to_s }
        end

        def print_changes(id, rows, group, apply)
          output.table(rows.map { |row| { **row.except(:bounded), note: note(row).to_s } }, empty: "nothing to change")
          output.puts
          totals = %i[skipped repeated].map { |key| "#{rows.sum { |row| row[key].to_i }} #{key}" }
          output.puts "group #{shown(id)}: #{totals.join(", ")} in #{count(rows.size, "partition")}"
          output.puts(apply ? output.paint("applied", :green) : unchanged)
          print_live(group) if group&.members.to_a.any?
        end

        def unchanged = options[:apply] ? "nothing was changed" : "dry run: nothing was changed; add --apply"

        def print_live(group)
          output.puts
          output.puts output.paint(live(group), :red)
          print_members(group)
        end

        def note(row)
          return "no committed offset" if row[:after].nil?
          return "bounded to the #{row[:bounded]} of the log" if row[:bounded]

          "unchanged" if row[:before] == row[:after]
        end
      end
    end
  end
end
