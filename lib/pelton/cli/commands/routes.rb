# frozen_string_literal: true

require_relative "../../decoding/formats"
require_relative "../../runtime/secrets"
require_relative "../../settings/settings"
require_relative "../command"

module Pelton
  class CLI
    module Commands
      # `pelton routes`
      class Routes < Command
        details <<~TEXT
          Retry topics have rows of their own. Below the table are recurring messages and jobs (not with -g, -t or
          --json), librdkafka's options of each group, and the settings of each topic that differ from the defaults.
          It connects to no broker.
        TEXT
        example "pelton routes -r ./app.rb"
        example "pelton routes -r ./app.rb -g billing --json", "one group, for a script"
        narrows
        connects

        # Settings that the table has columns for.
        COLUMNS = %i[decode concurrency retries dead_letters].freeze
        # A route without its own value takes these from the app's config.
        FROM_APP = %w[max_messages long_call].freeze
        private_constant :COLUMNS, :FROM_APP

        private

        def run
          groups = app.routes.groups(app.config, **chosen).map { |group| facts(group) }
          output.report(groups) do
            rows = groups.flat_map { |group| group[:topics].map { |topic| { group: group[:group], **topic } } }
            output.table(rows.map { |row| { **row.except(:settings), retries: row[:retries] || "no limit" } })
            print_recurring if chosen.empty?
            print_settings(groups)
          end
        end

        def print_recurring
          rows = app.routes.recurring.map(&:summary)
          return if rows.empty?

          output.puts
          output.table(rows.map { |row| { recurring: row[:name], **row.except(:name) } })
        end

        def facts(group)
          topics = group.topics.each_value.map do |topic|
            { topic: topic.pattern ? topic.pattern.inspect : topic.name,
              consumer: topic.consumer_class.name || topic.consumer_class.inspect,
              format: Formats.name(topic.decode)&.to_s, concurrency: topic.concurrency, retries: topic.retries,
              dead_letters: topic.dead_letters, settings: topic.stage ? {} : settings(topic) }
          end
          { group: group.name, kafka: Secrets.mask(group.kafka), topics: topics }
        end

        def print_settings(groups)
          groups.each do |group|
            own = group[:topics].to_h { |topic| ["#{group[:group]} #{topic[:topic]}", topic[:settings]] }
            { "#{group[:group]} (kafka)" => group[:kafka], **own }.each do |title, settings|
              next if settings.empty?

              output.puts
              output.record(title => settings)
            end
          end
        end

        # {"max_messages" => 10}: what the route sets itself.
        def settings(topic)
          others = Settings::TOPIC.reject { |setting| COLUMNS.include?(setting.name) }
          changed = others.to_h { |setting| [setting.name.to_s, topic.public_send(setting.name)] }
                          .reject { |name, value| value == default(name) }
          changed.to_h { |name, value| [name, shown(name, value)] }
        end

        def default(name)
          FROM_APP.include?(name) ? app.config.public_send(name) : Settings::TOPIC.fetch(name.to_sym).default
        end

        # As plain values; an object is shown by its class.
        def shown(name, value)
          return condition(value) if name == "where" && value

          case value
          when Array then value.map { |part| shown(name, part) }
          when Hash then nested(value)
          when nil, true, false, Numeric, String then value
          when Symbol, Range then value.to_s
          when Proc then "a block"
          else value.class.name
          end
        end

        # {partitions: 3, config: {}, location: "app.rb:3"} of `creates` → {"partitions" => 3}
        def nested(hash)
          hash.except(:location).reject { |_, part| part == {} }.to_h { |name, part| [name.to_s, shown(name, part)] }
        end

        # A tree of Routing::Condition as text: "type in [\"paid\"] and total gt 5".
        def condition(tree)
          kind, *parts = tree
          case kind
          when :all then parts.map { |part| condition(part) }.join(" and ")
          when :any then "(#{parts.map { |part| condition(part) }.join(" or ")})"
          when :not then "not (#{condition(parts.first)})"
          else
            (subject, *path), check, value = parts
            [*(subject unless subject == :field), *path, check, *(value.inspect unless check == :exists)].join(" ")
          end
        end
      end
    end
  end
end
