# frozen_string_literal: true

require_relative "../../runtime/threads"
require_relative "../command"
require_relative "../report_topic"
require_relative "../top/frame"
require_relative "../top/screen"
require_relative "groups/group_positions"

module Pelton
  class CLI
    module Commands
      # `pelton top`
      class Top < Command
        # Seconds between two frames, and between two questions for the groups' lag.
        FRAME = 1
        LAG = 5
        # How old reports are read at first, and how long an ended process is shown, in seconds.
        BACK = 60
        # Below the frame.
        FOOTER = ["", "q quits"].freeze
        ONLY_REPORTED = "lag as reported; this account may not describe the group"
        private_constant :FRAME, :LAG, :BACK, :FOOTER, :ONLY_REPORTED

        details <<~TEXT
          Shows what server processes do: rates, lag, running jobs, partitions that need attention, errors. It
          reads the reports that they write to config.report_topic, so set that first. The lag of groups comes
          from the cluster. q or Ctrl-C ends it.
        TEXT
        example "pelton top -r ./app.rb"
        example "pelton top --bootstrap localhost:9092 --group billing"
        example "pelton top --bootstrap localhost:9092 --once", "one frame as text"
        option :group, "-g", "--group NAME", "only this group"
        option :host, "--host NAME", "only processes of this host"
        option :pid, "--pid PID", "only the process with this id", type: Integer
        include ReportTopic

        option :once, "--once", "print one frame, and end"
        option :timeout, "--timeout SECONDS", "wait this long for Kafka's answers", type: Float, default: 10
        connects

        private

        def run
          connected_app
          # {id => the latest report}; replaced as a whole by the reading thread.
          @latest = {}.freeze
          # {"billing" => the KafkaError with which its lag was refused}; replaced as a whole.
          @refused = {}
          return once if options[:once] || output.json?
          raise ConfigError.new("--once", nil, "is needed: the output is no terminal") unless @out.tty?

          live
        end

        def once
          interruption.during do
            Reports.each(app, topic, seconds: BACK, timeout: options[:timeout]) { |report| add(report) }
          end
          frame = frame(lags)
          output.report(frame.to_h) { frame.lines.each { |line| output.puts(line) } }
        end

        # A thread reads reports, another one asks for lags, and this one draws.
        def live
          @failure = nil
          @lags = {}
          threads = [Threads.start("pelton.top", report: method(:failed)) { follow },
                     Threads.start("pelton.top.lag", report: method(:failed)) { measure }]
          interruption.during { screen.open { redraw } }
          raise @failure if @failure
        ensure
          threads&.each(&:kill)
          Threads.join(threads.to_a, CLOSE)
        end

        def redraw
          until @failure
            rows, columns = screen.size
            height = [rows - FOOTER.size, 0].max
            screen.draw([*frame(@lags).lines(width: columns, height: height), *FOOTER.last(rows)])
            break if screen.key(FRAME) == "q"
          end
        end

        def follow
          Reports.each(app, topic, seconds: BACK, follow: true, timeout: options[:timeout]) do |report|
            add(report)
          end
        end

        def measure
          loop do
            @lags = lags
            Clock.wait(LAG)
          end
        end

        # The first one ends the command.
        def failed(error)
          @failure ||= error
          nil
        end

        def screen = @screen ||= CLI::Top::Screen.new(@input, @out)

        # Forgets processes that ended.
        def add(report)
          kept = @latest.reject { |_, older| report.at - older.at > BACK }
          @latest = { **kept, report.id => report }.freeze
        end

        def frame(lags)
          summary = Reports::Summary.new(chosen_reports, lags: lags, group: options[:group], now: Clock.wall)
          notes = @refused.map { |group, error| "#{group}: #{ONLY_REPORTED}: #{error.message}" }
          CLI::Top::Frame.new(summary, notes: notes)
        end

        def chosen_reports
          @latest.values.select { |report| shown?(report) }.sort_by { |report| [report.host, report.pid, report.at] }
        end

        def shown?(report)
          group, host, pid = options.values_at(:group, :host, :pid)
          (group.nil? || report.groups.include?(group)) && [report.host, nil].include?(host) &&
            [report.pid, nil].include?(pid)
        end

        # {"billing" => {["orders", 0] => 12}}, from the cluster.
        def lags
          groups = options[:group] ? [options[:group]] : @latest.each_value.flat_map(&:groups).uniq
          @positions ||= GroupPositions.new(app, timeout: options[:timeout])
          refused = {}
          lags = @positions.of(groups, refused: refused).transform_values { |all| all.transform_values(&:lag).compact }
          @refused = refused
          options[:host] || options[:pid] ? of_chosen(lags) : lags
        rescue KafkaError => e
          raise unless e.retriable?

          {}
        end

        # Of chosen processes, the lag is that of their partitions.
        def of_chosen(lags)
          lags.to_h do |id, all|
            own = chosen_reports.flat_map { |report| report.each_partition(id).to_a }
            [id, all.slice(*own.map { |_, topic, number,| [topic, number] })]
          end
        end
      end
    end
  end
end
