# frozen_string_literal: true

require_relative "../../reports/summary"
require_relative "../page"
require_relative "../trend_view"

module Pelton
  class Web
    module Pages
      # What the pages about server processes share.
      class Reported < Page
        def initialize(...)
          super
          @reports = web.reports.latest
        end

        private

        def section = "/processes"
        def needs_cluster? = false
        def time = Clock.wall
        def summary = @summary ||= Reports::Summary.new(@reports, now: time)
        def problem = @problem ||= web.reports.problem
        def series(kind, id) = web.reports.series(kind, id)

        # {"web-1:4711" => id of the report}
        def ids = @ids ||= @reports.to_h { |report| [report.process_name, report.id] }

        def process_state(state)
          badge(shown(state), { "running" => :good, "silent" => :bad, "stopped" => :plain }.fetch(state, :warn))
        end

        def partition_state(state) = badge(shown(state), Reports::Report::WELL.include?(state) ? :plain : :warn)
        def errors_per_second(rate) = rate.positive? ? badge(short(rate), :bad) : short(rate)
        def jobs = @jobs ||= summary.jobs

        # How long a call runs. It stands out if that is long.
        def call_time(time, long) = long ? badge(seconds(time), :bad) : seconds(time)

        # The message that failed: a link, if the error says which one.
        def place(facts)
          topic, partition, offset = facts.values_at(:topic, :partition, :offset)
          return "–" unless topic
          return partition_link([shown(topic), partition]) unless partition && offset

          link("#{shown(topic)}/#{partition} offset #{offset}", "/message", topic: topic, partition: partition,
                                                                            offset: offset)
        end

        # Below the place: the process, and the id of the failure that logs and reporters have, too.
        def small(failure)
          id = failure.facts[:failure_id]
          process = process_link(shown(failure.process), failure.id)
          tag(:small, Html.join([process, *(tag(:code, shown(id)) if id)], " "))
        end
      end

      # All processes that reported within the last hour.
      class Processes < Reported
        # What each command to all of them does.
        EFFECTS = { "quiet" => "They start no new job. Running jobs finish, and they keep their partitions.",
                    "resume" => "They start jobs again.",
                    "stop" => "They finish their running jobs, leave their groups and end. The parent of " \
                              "pelton server --processes starts new ones." }.freeze
        ORDER = Hash.new(1).update("silent" => 0, "stopped" => 2).freeze
        private_constant :EFFECTS, :ORDER

        private

        def title = "Processes"
        def several? = true
        def live = @live ||= summary.live
        def sum(&block) = live.sum(&block)
        def partitions = @partitions ||= summary.partitions

        # ["web-1:4711 is 10 min behind", …]
        def clocks
          web.reports.skews.map do |name, ahead|
            "#{shown(name)} is #{seconds(ahead.abs)} #{ahead.negative? ? "behind" : "ahead"}"
          end
        end

        # [["quiet", how many it reaches, what it does], …]: those that reach one.
        def commands
          @commands ||= EFFECTS.map { |action, effect| [action, web.actions.reached(action).size, effect] }
                               .select { |_, count, _| count.positive? }
        end

        # [[Report, row of Summary], …]: silent ones first, those that stopped last.
        def rows
          @rows ||= @reports.zip(summary.processes).sort_by.with_index { |(_, row), at| [ORDER[row[:state]], at] }
        end
      end

      # One process.
      class ServerProcess < Reported
        include TrendView

        # What each command does.
        EFFECTS = { "quiet" => "It starts no new job. Running jobs finish, and it keeps its partitions.",
                    "resume" => "It starts jobs again.",
                    "stop" => "It finishes its running jobs, leaves its groups and ends." }.freeze
        # A child of pelton server --processes.
        RESTARTED = " Its parent then starts a new one."
        # Errors that it lists; the page of errors has the others.
        FEW = 20
        private_constant :EFFECTS, :RESTARTED

        def initialize(...)
          super
          @report = @reports.find { |report| report.id == request[:id] }
          raise NotFound, "No process with this id has reported within the last hour." unless @report
        end

        private

        attr_reader :report

        def several? = false
        def title = "Process #{shown(report.process_name)}"
        def summary = @summary ||= Reports::Summary.new([report], now: time)
        def row = @row ||= summary.processes.first
        def commands? = web.actions.enabled? && !%w[silent stopping stopped].include?(row[:state])

        # {"quiet" => what it does}: those that make sense in its state.
        def commands
          quiet = %w[quieting quiet].include?(row[:state])
          EFFECTS.except(quiet ? "quiet" : "resume").merge("stop" => "#{EFFECTS["stop"]}#{RESTARTED if report.process}")
        end

        # Why it gets no command; nil: it gets them.
        def refusal
          return "It takes no commands: its config.command_topic is not set, or not read yet." unless report.commands
          return if report.commands == web.command_topic

          "It takes commands from #{shown(report.commands)}, and the dashboard writes to #{web.command_topic}."
        end

        def failures = @failures ||= web.reports.failures.select { |failure| failure.id == report.id }
        def repeats = @repeats ||= Repeats.of(failures)

        # Those that need attention first, then those with the largest lag.
        def partitions
          @partitions ||= report.each_partition.sort_by do |group, topic, number, lag, state|
            [Reports::Report::WELL.include?(state) ? 1 : 0, -lag.to_i, group, topic, number]
          end
        end

        def facts
          groups = some(report.groups).map { |id| group_link(shown(id)) }
          { "Name" => shown(report.name), "Groups" => Html.join(groups, ", "), "Started" => clock(report.started_at),
            "Last report" => clock(report.at), "Pelton" => shown(report.pelton), "Ruby" => shown(report.ruby),
            "Number" => report.process && "#{report.process} of pelton server --processes" }.compact
        end
      end
    end
  end
end
