# frozen_string_literal: true

require "io/console"
require_relative "../runtime/clock"

module Pelton
  class CLI
    # Shows how far a long command is: a line on a terminal, redrawn in place, with rate and remaining time. Elsewhere
    # it prints one line at the end. It writes to stderr, so results on stdout stay clean.
    #   bar = Progress.new($stderr, "redriving", total: 4000)
    #   messages.each { bar.advance }
    #   bar.finish
    class Progress
      # Seconds between two drawings.
      INTERVAL = 0.1
      BAR = 20
      private_constant :INTERVAL, :BAR

      # total: nil if it is not known. live: draw while it runs.
      #: (IO, String, ?total: Integer?, ?live: bool, ?clock: ^() -> Float) -> void
      def initialize(err, text, total: nil, live: err.tty?, clock: Clock.method(:now))
        @err = err
        @text = text
        @total = total
        @clock = clock
        @count = 0
        @started = clock.call
        @drawn = nil
        @terminal = live
      end

      # How many items there are, as far as it is known now.
      #: Integer?
      attr_writer :total

      # Counts items that are done.
      #: (?Integer) -> void
      def advance(count = 1)
        @count += count
        draw if @terminal && (@drawn.nil? || @clock.call - @drawn >= INTERVAL)
      end

      # Prints the result. Without an item it prints nothing.
      #: () -> void
      def finish
        return if @count.zero?

        @err.print "\r\e[K" if @terminal
        @err.puts "#{@text}: #{counted} in #{seconds(elapsed)}#{", #{number(rate)}/s" if rate}"
      end

      private

      def draw
        @drawn = @clock.call
        left = (@total - @count) / rate if @total && rate && @count <= @total
        parts = [@text, bar, counted, *("#{number(rate)}/s" if rate), *("#{seconds(left)} left" if left)]
        @err.print "\r\e[K#{parts.compact.join("  ")[0, columns - 1]}"
      end

      def bar
        return unless @total&.positive?

        filled = [BAR * @count / @total, BAR].min
        "[#{"#" * filled}#{"." * (BAR - filled)}]"
      end

      # "1,200 of 4,000 (30%)"
      def counted
        return number(@count) unless @total

        "#{number(@count)} of #{number(@total)}#{" (#{100 * @count / @total}%)" if @total.positive?}"
      end

      def elapsed = @clock.call - @started
      def rate = elapsed.positive? ? @count / elapsed : nil
      def number(value) = value.round.to_s.gsub(/(\d)(?=(\d{3})+\z)/, '\1,')

      # "0.4 s", "12 s", "3 min 5 s", "2 h 10 min"
      def seconds(value)
        return "#{value.round(1)} s" if value < 10

        whole = value.round
        return "#{whole} s" if whole < 60
        return "#{whole / 60} min #{whole % 60} s" if whole < 3600

        "#{whole / 3600} h #{whole % 3600 / 60} min"
      end

      # A terminal without a size says 0.
      def columns
        found = @err.respond_to?(:winsize) ? @err.winsize[1] : 0
        found.zero? ? 80 : [found, 40].max
      end
    end
  end
end
