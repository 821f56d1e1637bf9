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
      # Lines of a large plot, at its top and in the middle.
      GRID = Html.join([1, 60].map { |y| Html.tag(:line, nil, x1: 0, x2: 600, y1: y, y2: y) })
      # A round number has one of these before its zeros, and so has half of it: "4 k" and "2 k".
      ROUND = [1, 2, 4, 6, 8, 10].freeze
      # Most points of a line.
      POINTS = 240
      FEW = 60
      # The shortest time that is drawn, in seconds.
      SHORTEST = 60
      # From so many seconds on, a time is shown in this unit.
      TIMES = { 172_800 => [86_400.0, " d"], 7200 => [3600.0, " h"], 120 => [60.0, " min"], 0 => [1, " s"] }.freeze
      private_constant :LARGE, :SMALL, :GRID, :ROUND, :POINTS, :FEW, :SHORTEST, :TIMES

      module_function

      # lines: {"in" => Series, …}, the first with the accent color. unit: "/s" or "B"; without one, values are whole
      # numbers; :time for seconds, up to days. span: seconds that are drawn; nil: since the first value.
      #: (String, Hash[String, Series], now: Float, ?unit: String | Symbol, ?span: Numeric?) -> Html
      def large(title, lines, now:, unit: "", span: nil)
        most = lines.values.filter_map(&:max).max || 0
        text, top = measure(unit, most)
        how = { now: now, span: span || since(lines.values, now), top: top,
                points: POINTS, class: "large", grid: GRID }
        last = lines.transform_values { |series| series.known(now)&.then(&text) }
        drawing = svg(LARGE, lines.values, how, label(title, last, text.call(most)))
        foot = spans(["#{Numbers.seconds(how[:span])} ago", "most #{text.call(most)}", "now"])
        Html.tag(:figure, Html.join([Html.tag(:figcaption, Html.join([Html.tag(:h2, title), legend(last)])),
                                     Html.tag(:div, Html.join([values(how[:top], text), drawing]), class: "drawing"),
                                     Html.tag(:p, foot, class: "axis")]), class: "plot")
      end

      # A line for a table.
      #: (String, Series, now: Float) -> Html
      def small(title, series, now:)
        most = series.max || 0
        svg(SMALL, [series], { now: now, span: since([series], now), top: most, points: FEW, class: "small" },
            "#{title}: now #{Numbers.short(series.known(now))}, most #{Numbers.short(most)}")
      end

      # What makes text of a value, and the value at the top.
      def measure(unit, most)
        return measure_bytes(most) if unit == "B"

        factor = 1
        factor, unit = TIMES.find { |least, _| most >= least }.last if unit == :time
        [->(value) { "#{Numbers.short(value / factor)}#{unit}" }, round_up(most / factor, unit.empty? ? 2 : 0) * factor]
      end

      def measure_bytes(most)
        size = Numbers.unit_of(most)
        [Numbers.method(:bytes), round_up(most / size, 0) * size]
      end

      # The least round number that is not smaller, and at least `least`; 1 for nothing.
      #   round_up(37, 0) # => 40
      #: (Numeric, Numeric) -> Numeric
      def round_up(number, least)
        return [1, least].max unless number.positive?

        size = 10.0**Math.log10(number).floor
        top = ROUND.find { |factor| factor * size >= number * 0.999_999 } * size
        [top >= 1 ? top.round : top, least].max
      end

      # Beside the lines of GRID and the bottom.
      def values(top, text)
        Html.tag(:p, spans([*[top, top / 2.0].map(&text), "0"]), class: "scale", "aria-hidden": "true")
      end

      # last: {"in" => "12/s", "done" => nil}
      def legend(last)
        items = last.each_with_index.map do |(name, text), index|
          dot = Html.tag(:i, nil, class: "dot line-#{index}", "aria-hidden": "true")
          Html.tag(:span, Html.join([dot, name, " ", Html.tag(:b, text || "–")]))
        end
        Html.tag(:p, Html.join(items))
      end

      # For those who do not see it.
      def label(title, last, most)
        "#{title}: #{last.map { |name, text| "#{name} #{text || "unknown"}" }.join(", ")}; most #{most}"
      end

      def spans(texts) = Html.join(texts.map { |text| Html.tag(:span, text) })

      # Seconds since the first value, up to what a Series keeps.
      def since(lines, now) = (now - (lines.filter_map(&:begin).min || now)).clamp(SHORTEST, Series::SPAN)

      def svg(size, lines, scale, text)
        drawn = lines.each_with_index.flat_map { |series, index| polylines(series, index, size, scale) }
        Html.tag(:svg, Html.join([*scale[:grid], *drawn]), viewBox: "0 0 #{size.join(" ")}", role: "img",
                                                           preserveAspectRatio: "none", "aria-label": text,
                                                           class: scale[:class])
      end

      def polylines(series, index, (width, height), scale)
        first = scale[:now] - scale[:span]
        series.parts(scale[:points]).filter_map do |part|
          # What is older is outside of the drawing, for example of a process that reported last an hour ago.
          part = part.drop_while { |time, _| time < first }
          next if part.empty?

          # A value alone is a short line.
          part = [[part.last.first - (scale[:span] * 0.003), part.last.last], *part] if part.size == 1
          Html.tag(:polyline, nil, points: coordinates(part, width, height, scale), class: "line-#{index}")
        end
      end

      def coordinates(points, width, height, scale)
        top = [scale[:top], 0.001].max
        points.map do |time, value|
          # A report may be newer than the look at the cluster.
          x = (width * (1 - ((scale[:now] - time) / scale[:span]))).clamp(0, width)
          format("%<x>.1f,%<y>.1f", x: x, y: (height - 1) - ((height - 2) * value.fdiv(top)))
        end.join(" ")
      end
      private_class_method :measure, :measure_bytes, :round_up, :values, :legend, :label, :spans, :since, :svg,
                           :polylines, :coordinates
    end
  end
end
