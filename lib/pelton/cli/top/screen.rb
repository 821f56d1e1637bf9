# frozen_string_literal: true

require "io/console"
require "io/wait"
require_relative "../../runtime/clock"

module Pelton
  class CLI
    module Top
      # A terminal that is redrawn: the alternate screen without a cursor, and keys without Return. Lines do not wrap,
      # because characters of an error's message may be two columns wide.
      class Screen
        BEGIN_SCREEN = "\e[?1049h\e[?25l\e[?7l"
        END_SCREEN = "\e[?7h\e[?25h\e[?1049l"
        private_constant :BEGIN_SCREEN, :END_SCREEN

        #: (IO, IO) -> void
        def initialize(input, out)
          @input = input
          @out = out
        end

        # Runs the block on the screen, and puts the terminal back. Ctrl-C stays a signal.
        #: () { () -> untyped } -> untyped
        def open(&block)
          @out.print BEGIN_SCREEN
          @input.tty? ? @input.raw(intr: true, &block) : yield
        ensure
          @out.print END_SCREEN
          @out.flush
        end

        # [24, 80]: asked each time, so a resized terminal is filled with the next frame.
        #: () -> [Integer, Integer]
        def size = @out.winsize.then { |rows, columns| [rows.zero? ? 24 : rows, columns.zero? ? 80 : columns] }

        #: (Array[String]) -> void
        def draw(lines)
          @out.print "\e[H#{lines.map { |line| "#{line}\e[K" }.join("\r\n")}\e[J"
          @out.flush
        end

        # The key that was typed within these seconds, or nil.
        #: (Numeric) -> String?
        def key(seconds)
          return (Clock.wait(seconds) && nil) unless @input.tty?

          @input.getc if @input.wait_readable(seconds)
        end
      end
    end
  end
end
