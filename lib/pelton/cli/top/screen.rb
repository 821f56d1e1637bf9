# frozen_string_literal: true

require "io/console"
require "io/wait"
require_relative "../../runtime/clock"
require_relative "../../server/signals"

module Pelton
  class CLI
    module Top
      # A terminal that is redrawn: the alternate screen without a cursor, and keys without Return. Lines do not wrap,
      # because characters of an error's message may be two columns wide.
      class Screen
        BEGIN_SCREEN = "\e[?1049h\e[?25l\e[?7l"
        END_SCREEN = "\e[?7h\e[?25h\e[?1049l"
        # Raised by the signal handler where `key` waits.
        class Suspension < StandardError; end
        private_constant :BEGIN_SCREEN, :END_SCREEN, :Suspension

        #: (IO, IO) -> void
        def initialize(input, out)
          @input = input
          @out = out
          # How the terminal was; nil: there is none.
          @mode = nil
          # Is Ctrl-Z not handled yet? Does `key` wait?
          @suspended = @waiting = false
        end

        # Runs the block on the screen, and puts the terminal back, also while Ctrl-Z stops the process. Ctrl-C stays a
        # signal.
        #: () { () -> untyped } -> untyped
        def open(&block)
          @mode = @input.console_mode if @input.tty?
          signals = Signals.new(%w[TSTP]) { handle }
          @out.print BEGIN_SCREEN
          @mode ? @input.raw(intr: true, &block) : yield
        ensure
          signals&.restore
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
          typed = waiting { @input.tty? ? @input.wait_readable(seconds) : Clock.wait(seconds) && nil }
          suspend if @suspended
          @input.getc if typed
        end

        private

        def handle
          @suspended = true
          raise Suspension if @waiting
        end

        # Returns what the block returns; nil after Ctrl-Z.
        def waiting
          @waiting = true
          found = yield unless @suspended
          @waiting = false
          found
        rescue Suspension
          nil
        ensure
          @waiting = false
        end

        # The next frame draws all of the screen again.
        def suspend
          @out.print END_SCREEN
          @out.flush
          @input.console_mode = @mode if @mode
          @suspended = false
          Process.kill(:STOP, Process.pid)
          @input.raw!(intr: true) if @mode
          @out.print BEGIN_SCREEN
        end
      end
    end
  end
end
