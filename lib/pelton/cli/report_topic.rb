# frozen_string_literal: true

require_relative "../reports/reports"

module Pelton
  class CLI
    # For commands that read the reports of server processes: the option --topic.
    module ReportTopic
      def self.included(command)
        command.option :topic, "--topic NAME",
                       "the topic with the reports (default: config.report_topic, or #{Reports::TOPIC})"
      end
      private_class_method :included

      private

      def topic = options[:topic] || Reports.topic(app.config)
    end
  end
end
