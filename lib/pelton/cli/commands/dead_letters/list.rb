# frozen_string_literal: true

require_relative "command"

module Pelton
  class CLI
    module Commands
      # `pelton dead-letters list`
      class DeadLettersList < DeadLettersCommand
        details <<~TEXT
          Prints the letters that failed last, first. Without TOPIC: those of all dead-letter topics in the
          routes of the app that -r loads. Of the topics that on_failure returns, these are the ones in its
          `dead_letters:`; name others. Letters that were redriven or deleted are not printed: see --status.
        TEXT
        details "An option that is given several times means any of its values. Different options add up."
        example "pelton dead-letters list orders.dead --bootstrap localhost:9092"
        example "pelton dead-letters list -r ./app.rb --group billing --since 2h", "of the app's topics"
        example "pelton dead-letters list orders.dead --by error", "how many of each error"
        arguments "[TOPIC...]"
        filters
        status "which letters"
        limit 50
        option :by, "--by FACT", "count letters instead", choices: %w[error group topic status]
        connects

        MESSAGE = 60
        private_constant :MESSAGE

        private

        def run
          topics = all(arguments)
          return count(topics) if options[:by]

          found = topics.flat_map { |topic| topic.list(limit: options[:limit] + 1, **filters) }
          print_first(found.sort_by { |letter| -letter.time.to_f }, topics.size > 1)
        end

        def print_first(found, several)
          limit = options[:limit]
          return print(found, several) if found.size <= limit

          print(found.first(limit), several)
          (output.json? ? err : output).puts "There are more: see --limit."
        end

        def count(topics)
          by = options[:by].to_sym
          counts = topics.map { |topic| topic.count_by(by, **filters) }
          total = counts.inject({}) { |all, of_topic| all.merge(of_topic) { |_, *letters| letters.sum } }
          rows = total.sort_by { |_, letters| -letters }.map { |value, letters| { by => value, letters: letters } }
          output.table(rows, empty: "no letters")
        end

        def print(found, several)
          output.report(found.map { |letter| facts(letter) }) do
            written = !found.all?(&:failed_at)
            rows = found.map { |letter| { **(several ? { dead_letters: letter.topic } : {}), **row(letter, written) } }
            output.table(rows, empty: "no letters")
          end
        end

        # written: other systems wrote some of the letters. When these failed is unknown.
        def row(letter, written)
          origin = letter.origin
          { place: letter.place, id: origin&.failure_id, failed_at: letter.failed_at,
            **(written ? { written_at: letter.written_at } : {}),
            from: origin && "#{origin.topic}/#{origin.partition} offset #{origin.offset}",
            group: letter.group, attempts: origin&.attempts, redrives: origin&.redrives,
            **(options[:status] == "open" ? {} : { status: letter.status }),
            error: letter.error, message: origin&.error_message && Printable.line(origin.error_message, MESSAGE) }
        end
      end
    end
  end
end
