# frozen_string_literal: true

require_relative "../errors"
require_relative "../reports/reports"
require_relative "../reports/command"
require_relative "../reports/summary"
require_relative "../runtime/clock"

module Pelton
  class Web
    # Commands to server processes: sends them to config.command_topic, and waits for the reports that say that they
    # were carried out.
    class ProcessCommands
      # Seconds between two looks whether processes have reported.
      LOOK = 0.5
      VOID = "within #{Reports::Command::VALID} s, so the command is void".freeze
      private_constant :LOOK, :VOID

      #: (Web) -> void
      def initialize(web)
        @web = web
      end

      # The processes that such a command to all of them reaches: they run, take commands, and have not done it.
      #: (String) -> Array[Reports::Report]
      def reached(action)
        topic = @web.command_topic
        live = Reports::Summary.new(@web.reports.latest, now: Clock.wall).live
        live.select do |report|
          report.commands == topic && !Reports::Command.new(report.id, action).done?(report.state)
        end
      end

      # The process with this id. Raises ConfigError if it does not report or takes no commands.
      #: (String?) -> Reports::Report
      def process(id)
        report = report(id) or raise ConfigError.new("id", id, "no process has reported under it")
        topic = @web.command_topic
        return report if report.commands == topic

        raise ConfigError.new("command_topic", topic, "#{report.process_name} takes no commands from it")
      end

      # Sends the command, and returns what the process then reported.
      #: (String, Reports::Report, Actions::Action, Background::Stop) -> String
      def command_process(action, report, progress, stop)
        failed = send_to([report], action, progress, stop)
        return "not known: the dashboard ended" if failed.nil?
        return "it is #{report(report.id).state}" if failed.empty?

        progress.failed = true
        "no answer #{VOID}"
      end

      # The same for several processes.
      #: (String, Array[Reports::Report], Actions::Action, Background::Stop) -> String
      def command_processes(action, reports, progress, stop)
        failed = send_to(reports, action, progress, stop)
        return "not known of all: the dashboard ended" if failed.nil?
        return "#{progress.done} done" if failed.empty?

        progress.failed = true
        "#{progress.done} done; no answer from #{failed.map(&:process_name).sort.join(", ")} #{VOID}"
      end

      private

      def report(id) = @web.reports.latest.find { |report| report.id == id }

      # Returns the processes that have not answered in time; nil: it was asked to stop before.
      def send_to(reports, action, progress, stop)
        commands = reports.to_h { |report| [report, Reports::Command.new(report.id, action)] }
        ends = commands.each_value.map(&:ends).max
        messages = commands.each_value.map { |command| command.message(@web.command_topic) }
        @web.app.producer.produce_many_sync(messages)
        loop do
          drop_answered(commands)
          progress.done = reports.size - commands.size
          return [] if commands.empty?
          return commands.keys if Clock.wall > ends
          return if stop.wait(LOOK)
        end
      end

      # commands: {a report before the command => the command}
      def drop_answered(commands)
        latest = @web.reports.latest.to_h { |report| [report.id, report] }
        commands.reject! do |before, command|
          found = latest[before.id]
          found && found.at > before.at && command.done?(found.state)
        end
      end
    end
    private_constant :ProcessCommands
  end
end
