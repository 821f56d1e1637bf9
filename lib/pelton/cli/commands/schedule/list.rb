# frozen_string_literal: true

require_relative "../../command"

module Pelton
  class CLI
    module Commands
      # `pelton schedule list`
      class ScheduleList < Command
        details "Prints the messages that wait in config.schedule_topic, those that are due next first."
        example "pelton schedule list -r ./app.rb"
        example "pelton schedule list --topic mails --limit 5 --json", "for scripts"
        option :topic, "-t", "--topic NAME", "only messages for this topic"
        option(:limit, "--limit N", "at most this many messages", type: Integer, default: 50) do |count|
          count.positive? ? count : raise(ConfigError.new("--limit", count, "expected an Integer >= 1"))
        end
        connects

        private

        def run
          found = connected_app.schedule.list(topic: options[:topic], limit: options[:limit] + 1)
          rows = found.first(options[:limit]).map do |entry|
            { id: entry.id, at: entry.at, topic: entry.topic, key: entry.key, bytes: entry.payload&.bytesize,
              recurring: entry.recurring }
          end
          output.table(rows, empty: "no messages")
          (output.json? ? err : output).puts "There are more: see --limit." if found.size > rows.size
        end
      end
    end
  end
end
