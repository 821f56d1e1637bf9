# frozen_string_literal: true

require "json"
require_relative "../logging/printable"

module Pelton
  class CLI
    # Prints the results of a command: aligned text for people, with color on a terminal, or JSON for programs.
    #   output.table([{ topic: "orders", partitions: 4 }])
    #   output.record({ "cluster" => { "id" => "x" } })
    class Output
      COLORS = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 }.freeze
      ANSI = /\e\[\d*m/
      # A text with color, which was made safe before.
      class Painted < String; end
      private_constant :COLORS, :ANSI, :Painted

      # json: print JSON. Colors need a terminal that is not dumb, and no variable NO_COLOR (https://no-color.org).
      #: (IO, ?json: bool?, ?env: Hash[String, String]) -> void
      def initialize(out, json: false, env: ENV)
        @out = out
        @json = json || false
        @color = !@json && out.tty? && env["NO_COLOR"].to_s.empty? && env["TERM"] != "dumb"
      end

      #: () -> bool
      def json? = @json

      # true: it is a terminal that may be redrawn, and no program reads along.
      #: () -> bool
      def terminal? = !@json && @out.tty?

      # The text in this color, if there are colors: :bold, :dim, :red, :green, :yellow. Cells of a table may have one.
      #: (untyped, Symbol) -> String
      def paint(text, color)
        shown = Printable.line(text)
        @color ? Painted.new("\e[#{COLORS.fetch(color)}m#{shown}\e[0m") : shown
      end

      # Prints a line of text; nothing with --json.
      #: (?String) -> void
      def puts(text = "") = (@out.puts(text) unless @json)

      # Prints `data` as one JSON document, or calls the block, which prints text.
      #   output.report({ topics: rows, total: 3 }) { output.table(rows) }
      #: (untyped) { () -> void } -> void
      def report(data) = @json ? @out.puts(JSON.pretty_generate(data)) : yield

      # Prints one item of a stream: `data` as one line of JSON, or the text that the block returns.
      #: (untyped) { () -> String } -> void
      def line(data) = @out.puts(@json ? JSON.generate(data) : yield)

      # Prints rows with the same keys as a table, with the keys as headings; with --json an Array. A number goes to the
      # right, nil is "-". columns: other headings, {lag: "LAG"}, which also select. empty: the text without rows.
      #: (Array[Hash[Symbol, untyped]], ?columns: Hash[Symbol, String]?, ?empty: String) -> void
      def table(rows, columns: nil, empty: "none")
        report(rows) do
          next puts(empty) if rows.empty?

          columns ||= rows.first.keys.to_h { |key| [key, key.to_s.tr("_", " ").upcase] }
          print_table(rows, columns)
        end
      end

      # Prints facts, one per line, nested Hashes indented; with --json an object. A Symbol as key is shown with spaces.
      #: (Hash[untyped, untyped]) -> void
      def record(facts) = report(facts) { self.class.lines(facts).each { |line| puts(line) } }

      # ["ruby", "  version          4.0.5"]
      #: (Hash[untyped, untyped], ?Integer) -> Array[String]
      def self.lines(facts, depth = 0)
        facts.flat_map do |name, value|
          indent = "  " * depth
          name = name.to_s.tr("_", " ") if name.is_a?(Symbol)
          next ["#{indent}#{name}", *lines(value, depth + 1)] if value.is_a?(Hash) && !value.empty?

          ["#{indent}#{name.to_s.ljust(20 - (2 * depth))} #{text(value)}"]
        end
      end

      # A value as text: nil is "-", an Array its elements, a time ISO 8601 in UTC.
      #: (untyped) -> String
      def self.text(value)
        case value
        when Painted then value
        when nil then "-"
        when true then "yes"
        when false then "no"
        when Array, Hash then value.empty? ? "none" : value.map { |part| text(part) }.join("; ")
        when Time then value.utc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")
        else Printable.line(value)
        end
      end

      private

      def print_table(rows, columns)
        columns.map { |key, title| column(title, rows.map { |row| row[key] }) }.transpose.each do |cells|
          puts(cells.join("  ").rstrip)
        end
      end

      # The cells of a column, padded to the same width.
      def column(title, values)
        right = values.any? && values.compact.all?(Numeric)
        cells = [paint(title, :bold), *values.map { |value| self.class.text(value) }]
        width = cells.map { |cell| width(cell) }.max
        cells.map do |cell|
          space = " " * (width - width(cell))
          right ? "#{space}#{cell}" : "#{cell}#{space}"
        end
      end

      def width(cell) = cell.gsub(ANSI, "").size
    end
  end
end
