# frozen_string_literal: true

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

        private

        def title = "Overview"
        # What processes report, and what the cluster shows. Groups without members may be many and old: they come last.
        def problems = @problems ||= failing + now.problems

        # Partitions that a process reports as failing, stopped or unbuilt.
        def failing
          rows = troubled.select { |row| Reports::Report::BAD.include?(row[:state]) }
          rows.map { |row| row.values_at(:group, :partition, :state) }.uniq.map do |group, partition, state|
            ["#{shown(group)}: #{shown(partition)} is #{state}", :group, group]
          end
        end

        # Those with the largest lag.
        def groups = now.groups.keys.max_by(FEW) { |id| [now.lag(id).to_i, id] }
        def lag = now.groups.keys.sum { |id| now.lag(id).to_i }
        def longest = now.groups.keys.filter_map { |id| waiting(id) }.max
        def waiting(id) = (@waiting ||= {}).fetch(id) { @waiting[id] = history.waiting(now, id) }
        def rate(kind) = history.series(kind).mean(30)
        # Has a process reported? It begins to read them, and does not wait.
        def reports? = web.reports.latest(0).any?
        def members = now.groups.each_value.sum { |group| group.members.size }
      end
    end
  end
end
