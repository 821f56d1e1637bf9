# frozen_string_literal: true

require_relative "html"
require_relative "../logging/numbers"
require_relative "series"

module Pelton
  class Web
    # Draws Series as SVG. Style sheets color it, because the security policy allows no inline style.
    module Plot
      LARGE = [600, 120].freeze
      SMALL = [120, 24].freeze
      # Lines of a large plot, at the largest value and at half of it.
      GRID = Html.join([1, 60].map { |y| Html.tag(:line, nil, x1: 0, x2: 600, y1: y, y2: y) })
      # Most points of a line.
      POINTS = 240
      FEW = 60
      # The shortest time that is drawn, in seconds.
      SHORTEST = 60
      private_constant :LARGE, :SMALL, :GRID, :POINTS, :FEW, :SHORTEST

      module_function

      # The last hour, or since the first value. lines: {"in" => Series, …}, the first with the accent color.
      #: (String, Hash[String, Series], now: Float, ?unit: String) -> Html
      def large(title, lines, now:, unit: "")
        span, top = scale(lines.values, now)
        now_text = lines.map { |name, one| "#{name} #{Numbers.short(one.last || 0)}#{unit}" }
        foot = ["#{Numbers.seconds(span)} ago", "most #{Numbers.short(top)}#{unit}", "now"]
        caption = [Html.tag(:h2, title), Html.tag(:p, legend(lines, unit))]
        how = { now: now, span: span, top: top, points: POINTS, class: "large", grid: GRID }
        drawing = svg(LARGE, lines.values, how, "#{title}: #{now_text.join(", ")}")
        Html.tag(:figure, Html.join([Html.tag(:figcaption, Html.join(caption)), drawing,
                                     Html.tag(:p, Html.join(foot.map { |text| Html.tag(:span, text) }),
                                              class: "axis")]), class: "plot")
      end

      # A line for a table.
      #: (String, Series, now: Float) -> Html
      def small(title, series, now:)
        span, top = scale([series], now)
        svg(SMALL, [series], { now: now, span: span, top: top, points: FEW, class: "small" },
            "#{title}: now #{Numbers.short(series.last)}, most #{Numbers.short(top)}")
      end

      def legend(lines, unit)
        Html.join(lines.each_with_index.map do |(name, series), index|
          dot = Html.tag(:i, nil, class: "dot line-#{index}", "aria-hidden": "true")
          Html.tag(:span, Html.join([dot, name, " ", Html.tag(:b, "#{Numbers.short(series.last || 0)}#{unit}")]))
        end)
      end

      # Seconds and the largest value.
      def scale(lines, now)
        span = now - (lines.filter_map(&:begin).min || now)
        [span.clamp(SHORTEST, Series::SPAN), lines.filter_map(&:max).max || 0]
      end

      def svg((width, height), lines, scale, text)
        top = [scale[:top], 0.001].max
        drawn = lines.each_with_index.map do |series, index|
          points = series.points(scale[:points]).map do |time, value|
            x = width * (1 - ((scale[:now] - time) / scale[:span]))
            format("%<x>.1f,%<y>.1f", x: x, y: (height - 1) - ((height - 2) * value.fdiv(top)))
          end
          Html.tag(:polyline, nil, points: points.join(" "), class: "line-#{index}")
        end
        Html.tag(:svg, Html.join([*scale[:grid], *drawn]), viewBox: "0 0 #{width} #{height}", role: "img",
                                                           preserveAspectRatio: "none", "aria-label": text,
                                                           class: scale[:class])
      end
      private_class_method :legend, :scale, :svg
    end
  end
end
