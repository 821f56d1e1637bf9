# frozen_string_literal: true

require_relative "../server/server" # once, before child processes are forked
require_relative "../server/signals"
require_relative "../server/state_report"
require_relative "../server/supervisor"
require_relative "../runtime/threads"
require_relative "error_lines"

module Pelton
  class CLI
    # Runs the app's server in this process until a signal ends it; in a child of the Supervisor, an order of the
    # parent.
    class ServerCommand
      ENDING = Supervisor::ENDING
      FORCED = Supervisor::FORCED
      PARENT_ENDED = 3
      private_constant :ENDING, :PARENT_ENDED

      # err: gets reports; lines: what went wrong. orders: the IO to which a parent writes the names of signals.
      #: (App, err: IO, lines: ErrorLines, ?orders: IO?) -> void
      def initialize(app, err:, lines:, orders: nil)
        @app = app
        @err = err
        @lines = lines
        @orders = orders
        # The server, when it runs.
        @server = nil
        # Signals that came during the start.
        @early = []
        # In a child, the first ending takes this element. A terminal and systemd signal parent and children at once,
        # and the parent's order must not count as a second signal.
        @first = Thread::Queue.new.push(:first)
        @ordered = false
        # true: the parent died.
        @parent_ended = false
      end

      # Returns the exit code. The block returns the running server, or nil if it could not start. It gets the Signals,
      # to install the traps again after loading the app's files.
      #: () { (Signals) -> Server? } -> Integer
      def run
        # A signal that comes during the start is not lost: the server stops as soon as it runs. A second one ends all.
        signals = Signals.new { |name| handle(name) if @orders.nil? || !ENDING.include?(name) || first? }
        @server = yield(signals) or return 1
        parent = Threads.start("pelton.parent") { read_orders } if @orders
        @server.signal(@early.shift) until @early.empty?
        @server.wait
        code = status
        @parent_ended && code != FORCED ? PARENT_ENDED : code
      ensure
        signals&.restore
        parent&.kill
      end

      private

      def handle(name)
        return report if name == "TTIN"
        return @server.signal(name) if @server

        exit!(2) if ENDING.include?(name) && @early.intersect?(ENDING)
        @early << name
      end

      # Also in a trap, and before the server runs.
      def report
        Threads.outside_trap("pelton.report") do
          @err.write(@server ? @server.report : StateReport.threads)
        rescue StandardError => e
          @lines.write("no report: #{e.class}: #{e.message}")
        end
      end

      # Orders that came during the start are in the pipe, and come first.
      def read_orders
        while (name = @orders.gets(chomp: true))
          order(name)
        end
        @parent_ended = true
        order("TERM")
      end

      # An order that only repeats a signal does not count; a second order forces the end.
      def order(name)
        return handle(name) unless ENDING.include?(name)

        handle(name) if first? || @ordered
        @ordered = true
      end

      def first?
        !@first.pop(true).nil?
      rescue ThreadError
        false
      end

      def status
        if @server.status == :forced
          @lines.write("ended by force")
          @server.unfinished_work.each { |loss| @lines.write("left undone: #{loss}") }
          return FORCED
        end
        @server.unfinished_work.each { |loss| @lines.write(loss) }
        undelivered = @app.close
        @lines.write("#{undelivered} produced messages not delivered") if undelivered.positive?
        return FORCED if undelivered.positive?

        failure = @server.failure or return 0
        return failure.status if failure.is_a?(SystemExit)

        @lines.write("stopped by #{failure.class}: #{failure.message}")
        1
      end
    end
  end
end
