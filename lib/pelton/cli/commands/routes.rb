# frozen_string_literal: true

require_relative "../../decoding/formats"
require_relative "../../settings/settings"
require_relative "../command"

module Pelton
  class CLI
    module Commands
      # `pelton routes`
      class Routes < Command
        details <<~TEXT
          Retry topics have rows of their own. Below the table are the settings of each topic that differ
          from the defaults. It connects to no broker.
        TEXT
        example "pelton routes -r ./app.rb"
        example "pelton routes -r ./app.rb -g billing --json", "one group, for a script"
        narrows
        connects

        # Settings that the table has columns for.
        COLUMNS = %i[decode concurrency retries dead_letters].freeze
        private_constant :COLUMNS

        private

        def run
          rows = app.routes.groups(app.config, **chosen).flat_map { |group| rows(group) }
          output.report(rows) do
            output.table(rows.map { |row| row.except(:settings) })
            own = rows.select { |row| row[:settings].any? }
            output.puts unless own.empty?
            output.record(own.to_h { |row| ["#{row[:group]} #{row[:topic]}", row[:settings]] })
          end
        end

        def rows(group)
          group.topics.each_value.map do |topic|
            { group: group.name, topic: topic.pattern ? topic.pattern.inspect : topic.name,
              consumer: topic.consumer_class.name || topic.consumer_class.inspect,
              format: Formats.name(topic.decode)&.to_s, concurrency: topic.concurrency, retries: topic.retries,
              dead_letters: topic.dead_letters, settings: topic.stage ? {} : settings(topic) }
          end
        end

        # {"max_messages" => 10}: what the route sets itself. An object is shown by its class.
        def settings(topic)
          others = Settings::TOPIC.reject { |setting| COLUMNS.include?(setting.name) }
          changed = others.to_h { |setting| [setting.name.to_s, topic.public_send(setting.name)] }
                          .reject { |name, value| value == default(name) }
          changed.transform_values { |value| shown(value) }
        end

        # A route takes max_messages from the app's config.
        def default(name)
          name == "max_messages" ? app.config.max_messages : Settings::TOPIC.fetch(name.to_sym).default
        end

        def shown(value)
          case value
          when Array then value.map { |part| shown(part) }
          when nil, true, false, Numeric, String then value
          when Symbol, Range then value.to_s
          else value.class.name
          end
        end
      end
    end
  end
end
