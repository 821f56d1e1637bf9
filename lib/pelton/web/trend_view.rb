# frozen_string_literal: true

require_relative "trends"

module Pelton
  class Web
    # The choice of the time that the plots of a page show: an hour, a day or a week.
    module TrendView
      # Fields of a page's address that its links keep.
      KEPT = %w[id name error group].freeze
      private_constant :KEPT

      private

      # "24h", "7d"; nil: the last hour.
      def range = @range ||= request[:range].then { |name| name if Trends::RANGES.key?(name) }

      # The links to the other times, and what is known of this one.
      def ranges
        names = { nil => "1 h", **Trends::RANGES.transform_values(&:name) }
        links = names.map { |name, text| Html.tag(:li, range_link(name, text)) }
        list = Html.tag(:ul, Html.join(links))
        Html.join([Html.tag(:nav, list, "aria-label": "Time of the plots", class: "ranges"),
                   *(Html.tag(:p, range_text, class: "status", role: "status") if range)])
      end

      def range_link(name, text)
        query = { **request.params.slice(*KEPT).transform_keys(&:to_sym), range: name }
        Html.tag(:a, text, href: url(request.path, **query), "aria-current": (name == range && "true"))
      end

      def range_text
        state = trends.look(range)
        return "#{unread} cannot be read: #{state.problem.message}" if state.problem
        return "Being read: #{state.done} of #{state.total} times." unless state.complete?
        return nothing_read if trend(*trend_known).empty?

        "From #{trend_source}, a value each #{seconds(Trends::RANGES.fetch(range).step)}."
      end

      # Where the numbers come from; pages may have others.
      def trends = web.trends
      # The numbers that are there if there are any.
      def trend_known = [:lag]
      def trend_source = "the reports of processes"
      def unread = "The reports of processes"
      def nothing_read = "No process reported within this time to the topic #{web.report_topic}."

      def trend(*words) = trends.series(range, *words)

      # lines: {"done" => [:in, :group, "billing"]}, see Trends#series.
      def trend_plot(title, lines, unit: "")
        Plot.large(title, lines.transform_values { |words| trend(*words) }, now: Clock.wall, unit: unit,
                                                                            span: Trends::RANGES.fetch(range).span)
      end
    end
  end
end
