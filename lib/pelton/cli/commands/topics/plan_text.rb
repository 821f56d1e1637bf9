# frozen_string_literal: true

module Pelton
  class CLI
    module Commands
      # A plan of topics as text, or as data for JSON.
      class PlanText
        # action → [sign, word, color]
        ACTIONS = { create: ["+", "create", :green], add_partitions: ["~", "change", :yellow],
                    alter_config: ["~", "change", :yellow], delete: ["-", "delete", :red] }.freeze
        REFUSED = ["!", "refused", :red].freeze
        WORDS = { create: "to create", change: "to change", delete: "to delete", refused: "refused" }.freeze
        private_constant :ACTIONS, :REFUSED, :WORDS

        #: (Topics::Plan, Output) -> void
        def initialize(plan, output)
          @plan = plan
          @output = output
        end

        # {changes: […], summary: { create: 1, change: 2, delete: 0, refused: 0 }, missing: { "a:9092" => ["orders"] }}
        #: () -> Hash[Symbol, untyped]
        def data = { changes: @plan.changes.map { |change| row(change) }, summary: summary, missing: @plan.missing }

        # One change as data: numbers and texts.
        #: (Topics::Change) -> Hash[Symbol, untyped]
        def row(change)
          { **change.to_h.compact, from: plain(change.from), to: plain(change.to), refused: change.refused? }
        end

        # Prints the changes, by cluster, and what the plan leaves out.
        #: () -> void
        def print
          @plan.empty? ? @output.puts("no difference: the topics are as declared") : print_changes
          @plan.missing.each do |cluster, names|
            next if names.empty?

            @output.puts("not created on #{cluster}: #{names.join(", ")}")
            @output.puts("  Routes need them, but nothing declares them: add `creates partitions: 3` to the routes.")
          end
        end

        private

        def print_changes
          width = @plan.changes.map { |change| change.topic.size }.max
          @plan.changes.group_by(&:cluster).each do |cluster, changes|
            @output.puts("cluster #{cluster}")
            changes.each { |change| print_change(change, width) }
          end
          counts = summary.filter_map { |word, count| "#{count} #{WORDS.fetch(word)}" if count.positive? }
          @output.puts("differences: #{counts.join(", ")}")
        end

        def print_change(change, width)
          sign, word, color = look(change)
          @output.puts("  #{@output.paint("#{sign} #{word.ljust(7)}", color)}  #{change.topic.ljust(width)}  #{change}")
          notes = [*change.warning, *change.refusal, *("declared at #{change.location}" if change.refused?)]
          notes.each { |note| @output.puts("#{" " * (width + 15)}#{note}") }
        end

        def look(change) = change.refused? ? REFUSED : ACTIONS.fetch(change.action)

        def summary
          words = @plan.changes.map { |change| look(change)[1].to_sym }.tally
          { create: 0, change: 0, delete: 0, refused: 0, **words }
        end

        # A Range of replicas has no form in JSON.
        def plain(value) = value.is_a?(Range) ? value.to_s : value
      end
    end
  end
end
