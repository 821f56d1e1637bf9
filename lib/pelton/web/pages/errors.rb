# frozen_string_literal: true

require_relative "../trend_view"
require_relative "processes"

module Pelton
  class Web
    module Pages
      # What failed within the last hour, as processes reported it.
      class Errors < Reported
        include TrendView

        private

        def title = "Errors"
        def section = "/errors"
        def all = @all ||= web.reports.failures

        # Those that the reader asks for, newest first.
        def failures
          @failures ||= all.select do |failure|
            has = { error: failure.facts[:class], group: failure.facts[:group], process: failure.id }
            has.all? { |name, value| [nil, value].include?(request[name]) }
          end
        end

        # Does the reader ask for some of them?
        def some? = %i[error group process].any? { |name| request[name] }

        # "Timeline of ArgumentError in web-1:4711"
        def timeline
          process = failures.first&.process if request[:process]
          ["Timeline", *("of #{shown(request[:error])}" if request[:error]),
           *("in #{shown(process)}" if process)].join(" ")
        end

        # [[class, group, errors], …]: the most frequent first.
        def kinds
          @kinds ||= all.group_by { |failure| failure.facts.values_at(:class, :group) }
                        .map { |(name, group), list| [name, group, list] }
                        .sort_by { |name, group, list| [-list.size, name, group.to_s] }
        end

        def rate = summary.live.sum { |report| report.rates[:errors] }
      end
    end
  end
end
