# frozen_string_literal: true

require_relative "report"
require_relative "../runtime/clock"

module Pelton
  # What server processes say of themselves. Each writes a Report to config.report_topic every few seconds, and
  # `pelton top` reads them.
  module Reports
    # Where readers look if config.report_topic is not set.
    TOPIC = "pelton.reports"
    # Where commands go if config.command_topic is not set.
    COMMANDS = "pelton.commands"

    # The topic to read from.
    #: (Config) -> String
    def self.topic(config) = config.report_topic || TOPIC

    # The topic that commands are sent to.
    #: (Config) -> String
    def self.command_topic(config) = config.command_topic || COMMANDS

    # Yields the reports of the last `seconds`, in their order. follow: also new ones, until `break` or the Time
    # `up_to`. Skips messages that are no reports, or of another version. Waits for Kafka. Raises ConfigError if the
    # topic does not exist, and KafkaError.
    #: (App, String, seconds: Numeric, ?follow: bool, ?up_to: Time?, ?timeout: Numeric?) { (Report) -> void } -> void
    def self.each(app, topic, seconds:, **options)
      app.each(topic, from: Time.at(Clock.wall - seconds), **options) do |message|
        report = Report.parse(message.raw_payload)
        yield report if report
      end
    end
  end
end
