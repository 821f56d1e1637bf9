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
            %i[error group].all? { |name| [nil, failure.facts[name == :error ? :class : name]].include?(request[name]) }
          end
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
