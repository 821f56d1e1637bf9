# frozen_string_literal: true

require_relative "../../../topics/settling"
require_relative "../../command"

module Pelton
  class CLI
    module Commands
      # `pelton topics delete`
      class TopicsDelete < Command
        details <<~TEXT
          Deletes topics with all their messages. It asks first. Without a terminal to ask on, it needs
          --yes. If one of the topics does not exist, or belongs to Kafka itself, it deletes none.
        TEXT
        example "pelton topics delete orders.old"
        example "pelton topics delete orders.old orders.older --yes", "without a question"
        arguments "TOPIC..."
        option :timeout, "--timeout SECONDS", "wait this long for Kafka", type: Float, default: 30
        confirms
        connects

        private

        def run
          names = arguments.uniq
          check(names)
          return failure("nothing was deleted") unless confirm(question(names))

          results = names.to_h { |name| [name, delete(name)] }
          settle(results.select { |_, error| error.nil? }.keys)
          output.report(results.map { |name, error| { topic: name, deleted: error.nil?, error: error } }) do
            results.each { |name, error| output.puts("deleted #{name}") unless error }
          end
          results.compact.each { |name, error| failure("#{name}: #{error}") }
          results.compact.empty? ? 0 : 1
        end

        def check(names)
          known = admin.topic_names(timeout: options[:timeout])
          missing = (names - known).first
          raise ConfigError.unknown(missing, known, what: "topic") if missing

          internal = admin.topics(*names, timeout: options[:timeout]).each_value.find(&:internal) or return
          raise ConfigError.new(internal.name, nil, "belongs to Kafka itself: without it, groups lose their offsets")
        end

        # The next command should not list them.
        def settle(names)
          Pelton::Topics::Settling.wait(options[:timeout]) do
            (admin.topic_names(timeout: options[:timeout]) & names).empty?
          end
        end

        def question(names)
          "delete #{names.join(", ")} with all messages on #{connected_app.config.kafka["bootstrap.servers"]}?"
        end

        # The message of an error, or nil.
        def delete(name)
          admin.delete_topic(name, timeout: options[:timeout])
          nil
        rescue KafkaError => e
          e.message
        end
      end
    end
  end
end
