# frozen_string_literal: true

require_relative "../trend_view"
require_relative "processes"

module Pelton
  class Web
    module Pages
      # What failed within the last hour, as processes reported it.
      class Errors < Reported
        include TrendView

        # Earlier failures of an error that unfold in the timeline; its own page has the others.
        FEW = 10

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

        def repeats = @repeats ||= Repeats.of(failures)

        # The failures before the last one, which unfold.
        def earlier(error)
          return if error.count == 1

          rows = error.failures.drop(1).first(FEW).map { |failure| brief(failure) }
          rows << link("all #{plural(error.count, "failure")}", "/error", id: error.id) if error.count > FEW + 1
          list = tag(:ol, Html.join(rows.map { |row| tag(:li, row) }))
          summary = tag(:summary, plural(error.count - 1, "earlier failure"))
          tag(:details, Html.join([summary, list]), id: "earlier-#{error.id}")
        end

        def brief(failure) = Html.join([clock(failure.facts[:at]), place(failure.facts), small(failure)], " ")

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

      # One error: all its failures of the last hour, its whole backtrace and its causes.
      class RepeatedError < Reported
        # Most causes and lines that a page shows: a process sends fewer.
        PARTS = 10
        LINES = 500
        private_constant :LINES

        def initialize(...)
          super
          @repeats = Repeats.of(web.reports.failures).find { |repeats| repeats.id == request[:id] }
          raise NotFound, "No process reported this error within the last hour." unless @repeats
        end

        private

        attr_reader :repeats

        def section = "/errors"
        def title = "Error #{shown(repeats.facts[:class])}"
        # What a reader reads should not move.
        def live? = false

        def backtrace = @backtrace ||= web.reports.backtrace(repeats.facts[:backtrace])

        # Without the message: each failure has one.
        def facts
          facts = repeats.facts
          group, topic = facts.values_at(:group, :topic)
          { "Group" => group && group_link(shown(group)), "Topic" => topic && topic_link(shown(topic)),
            "Reported by" => shown(facts[:source]), "Last message" => (place(facts) if topic),
            "Dead letters" => letters_link(group, topic) }.compact
        end

        # To those of this error, if the app that the dashboard runs in says where this group's go.
        def letters_link(group, topic)
          route = group && routes[group]&.topics&.fetch(topic, nil)
          links = route&.dead_letter_topics.to_a.map do |name|
            link(name, "/dead-letters", topic: name, error: repeats.facts[:class])
          end
          Html.join(links, ", ") if links.any?
        end

        def ago(at) = Html.join([seconds([time - at, 0].max), tag(:small, "ago")], " ")

        # The lines of the error or of a cause.
        def lines(part)
          more = { "not reported" => part[:more], "as above" => part[:shared] }.select { |_, count| count.positive? }
          [*part[:lines].first(LINES).map { |line| line[0, 2 * LONGEST] },
           *more.map { |what, count| "… #{plural(count, "line")} #{what}" }].join("\n")
        end

        def no_backtrace
          return "The reports that were read do not have it. One comes with the next report if it fails again." if
            repeats.facts[:backtrace]

          "The error has none, or its process runs an older version of Pelton."
        end
      end
    end
  end
end
