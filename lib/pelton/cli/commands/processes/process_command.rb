# frozen_string_literal: true

require_relative "../../../reports/command"
require_relative "../../command"
require_relative "../../report_topic"

module Pelton
  class CLI
    module Commands
      # What the commands to server processes share: each finds processes by their reports, sends them the command of
      # its name, and waits for the reports that say what became of it.
      class ProcessCommand < Command
        # Seconds of reports that are read to find the processes. A command waits so long for its outcome.
        BACK = Reports::Command::VALID
        ABOUT = <<~TEXT.freeze
          PROCESS is its host and process id, web-1:4711, as pelton top shows it. The process takes commands
          if its config.command_topic is set, and config.report_topic, too. Exits with 1 if one of them did
          not answer within #{BACK} s. The command is void then.
        TEXT
        private_constant :BACK, :ABOUT

        arguments "PROCESS..."
        include ReportTopic

        option :timeout, "--timeout SECONDS", "wait this long for Kafka's answers", type: Float, default: 10
        connects

        private

        def run
          commands = found.to_h { |report| [report, Reports::Command.new(report.id, @name[/\w+\z/])] }
          began = Time.now
          to = Reports.command_topic(app.config)
          commands.each_value { |command| app.producer.produce_sync(**command.message(to)) }
          states = outcomes(commands, began)
          output.table(commands.each_key.map { |report| { process: report.process_name, state: states[report.id] } })
          states.size == commands.size ? 0 : 1
        end

        # The latest reports of the processes that were named.
        def found
          latest = {}
          Reports.each(connected_app, topic, seconds: BACK, timeout: options[:timeout]) do |report|
            latest[report.id] = report
          end
          live = latest.each_value.reject { |report| report.stopped? || report.silent? }
          arguments.uniq.map do |name|
            check(live.find { |report| [report.process_name, report.id].include?(name) }, name, live)
          end
        end

        def check(report, name, live)
          raise ConfigError.unknown(name, live.map(&:process_name), what: "process") unless report

          wanted = Reports.command_topic(app.config)
          return report if report.commands == wanted

          takes = report.commands ? "takes commands from #{report.commands}, not from #{wanted}" : "takes no commands"
          raise ConfigError.new(name, nil, "#{takes}: see config.command_topic")
        end

        # {id => "quiet"}, of those that reported it in time. Reads again what `found` has read, so that no report in
        # between is left out.
        def outcomes(commands, began)
          waiting = commands.to_h { |report, command| [command.process, [report.at, command]] }
          states = {}
          interruption.during do
            Reports.each(app, topic, seconds: Time.now - began + BACK, follow: true, up_to: began + BACK,
                                     timeout: options[:timeout]) do |report|
              before, command = waiting[report.id]
              next unless command && report.at > before && command.done?(report.state)

              states[report.id] = report.state
              break if states.size == waiting.size
            end
          end
          states
        end
      end
    end
  end
end
