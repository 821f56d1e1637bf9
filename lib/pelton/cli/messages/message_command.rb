# frozen_string_literal: true

require_relative "../command"

module Pelton
  class CLI
    module Commands
      # The base of commands that read or write the messages of one topic.
      class MessageCommand < Command
        private

        def topic = arguments.first

        def note(text) = err.puts("pelton: #{text}")

        # The error for a topic that the cluster does not have.
        def missing_topic
          near = ConfigError.near(topic, admin.topic_names(timeout: options[:timeout]))
          hint = near ? ", did you mean #{near}?" : ": check the name and the cluster, or create the topic first"
          ConfigError.new("topic", topic, "does not exist#{hint}")
        end
      end
    end
  end
end
