# frozen_string_literal: true

require "set"
require_relative "../page"
require_relative "../trend_view"

module Pelton
  class Web
    module Pages
      # Throughput, lag, and what somebody should look at.
      class Overview < Page
        include TrendView

        # Most problems and groups that are listed.
        FEW = 20
        PLACE = %i[process group partition].freeze
        private_constant :PLACE

        private

        def title = "Overview"
        # What processes report, and what the cluster shows. Groups without members may be many and old: they come last.
        def problems = @problems ||= failing + now.problems

        # Partitions that a process reports as stopped or unbuilt, or whose call takes long; or as failing twice in a
        # row, because the next attempt may be only a second away.
        def failing
          rows = troubled.select { |row| [*Reports::Report::BAD, Reports::Summary::LONG_CALL].include?(row[:state]) }
          rows = rows.reject { |row| row[:state] == "failing" && !bad_before.include?(row.values_at(*PLACE)) }
          rows.map { |row| [trouble(row), :group, row[:group]] }.uniq
        end

        def trouble(row)
          title = "#{shown(row[:group])}: #{shown(row[:partition])}"
          return "#{title} is #{row[:state]}" unless row[:seconds]

          "#{title} has been in one call for #{seconds(row[:seconds])}#{", at offset #{row[:offset]}" if row[:offset]}"
        end

        # [["web-1:4711", "billing", "orders/0"], …]: what needed attention in the report before.
        def bad_before
          @bad_before ||= web.reports.before.flat_map do |report|
            bad = report.each_partition.select { |*, state| Reports::Report::BAD.include?(state) }
            bad.map { |group, topic, number,| [report.process_name, group, "#{topic}/#{number}"] }
          end.to_set
        end

        # Those with the largest lag.
        def groups = now.groups.keys.max_by(FEW) { |id| [now.lag(id).to_i, id] }
        def lag = now.groups.keys.sum { |id| now.lag(id).to_i }
        def longest = now.groups.keys.filter_map { |id| waiting(id) }.max
        def waiting(id) = (@waiting ||= {}).fetch(id) { @waiting[id] = history.waiting(now, id) }
        def rate(kind) = history.series(kind).mean(30)
        # Has a process reported?
        def reports? = web.reports.soon.any?

        # Why it is not known which partitions fail; nil: it is.
        def unreported
          return if web.reports.complete? && reports?
          return "The reports of processes are still being read." unless web.reports.complete? || web.reports.failed?

          Html.join(["Failing partitions are not known: there are ", link("no reports of processes", "/processes"),
                     "."])
        end

        def members = now.groups.each_value.sum { |group| group.members.size }
      end
    end
  end
end
