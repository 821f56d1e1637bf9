# frozen_string_literal: true

# A bar for each case of a bench, as SVG, with a line from the least to the most of the rounds. What belongs together
# (by the words before the first comma or colon) has one colour.
class Chart
  BARS = 400
  # Width of a character, about.
  LETTER = 6.8
  ROW = 22
  TOP = 48
  COLOURS = %w[#3b6ea5 #c8553d #588157 #8d6a9f #b08900 #4f5d75 #2a9d8f #9b2226].freeze

  Bar = Struct.new(:name, :median, :least, :most, :text) do
    def series = name[/\A[^,:]+/]
  end

  #: (String, Array[Bar]) -> void
  def initialize(title, bars)
    @title = title
    @bars = bars
    @most = bars.map(&:most).max
    @labels = width(bars.map(&:name))
    @width = [@labels + BARS + width(bars.map(&:text)), (title.size * LETTER * 1.5).ceil].max
    @colours = bars.map(&:series).uniq.zip(COLOURS.cycle).to_h
  end

  #: () -> String
  def to_svg
    <<~SVG
      <svg xmlns="http://www.w3.org/2000/svg" width="#{@width}" height="#{height}" viewBox="0 0 #{@width} #{height}"
           font-family="sans-serif" font-size="12">
      <rect width="100%" height="100%" fill="white"/>
      <text x="12" y="26" font-size="15" font-weight="bold">#{escape(@title)}</text>
      #{@bars.each_with_index.map { |bar, row| draw(bar, TOP + (row * ROW)) }.join("\n")}
      </svg>
    SVG
  end

  private

  def width(texts) = (texts.map(&:size).max * LETTER).ceil + 20
  def height = TOP + (@bars.size * ROW) + 10

  def draw(bar, y)
    middle = y + (ROW / 2)
    <<~SVG.chomp
      <text x="#{@labels - 8}" y="#{middle + 4}" text-anchor="end">#{escape(bar.name)}</text>
      <rect x="#{@labels}" y="#{y + 3}" width="#{length(bar.median)}" height="#{ROW - 6}" fill="#{@colours[bar.series]}"/>
      <path d="M#{@labels + length(bar.least)} #{middle}H#{@labels + length(bar.most)}" stroke="black"/>
      <text x="#{@labels + length(bar.most) + 6}" y="#{middle + 4}">#{escape(bar.text)}</text>
    SVG
  end

  def length(value) = @most.positive? ? ([value, 0].max.fdiv(@most) * BARS).round(1) : 0
  def escape(text) = text.gsub("&", "&amp;").gsub("<", "&lt;").gsub(">", "&gt;")
end
