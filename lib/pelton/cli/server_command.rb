# frozen_string_literal: true

require_relative "../server/signals"
require_relative "../server/supervisor"
require_relative "../runtime/threads"

module Pelton
  class CLI
    # Runs the app's server in this process until signals end it, or in a Supervisor's child its parent's orders.
    class ServerCommand
      ENDING = Supervisor::ENDING
      FORCED = Supervisor::FORCED
      ORPHANED = 3
      private_constant :ENDING, :ORPHANED

      # orders: where a parent writes the names of signals.
      #: (App, err: IO, ?orders: IO?) -> void
      def initialize(app, err:, orders: nil)
        @app = app
        @err = err
        @orders = orders
        # Once it runs.
        @server = nil
        # Signals that came during the start.
        @early = []
        # In a child whoever takes this is the first to end it: a terminal and systemd tell parent and children at once.
        @first = Thread::Queue.new.push(:first)
        @ordered = false
        # Has its parent died?
        @orphaned = false
      end

      # Returns the exit code. The block gives the running server, or nil: it could not start. It is given the signals,
      # to take them back from what it loads.
      #: () { (Signals) -> Server? } -> Integer
      def run
        # A signal that comes during the start is not lost: the server stops as soon as it runs. A second one ends all.
        signals = Signals.new { |name| hear(name) if @orders.nil? || !ENDING.include?(name) || first? }
        @server = yield(signals) or return 1
        parent = Threads.start("pelton.parent") { obey } if @orders
        @server.signal(@early.shift) until @early.empty?
        @server.wait
        code = status
        @orphaned && code != FORCED ? ORPHANED : code
      ensure
        signals&.restore
        parent&.kill
      end

      private

      def hear(name)
        return @server.signal(name) if @server

        exit!(2) if ENDING.include?(name) && @early.intersect?(ENDING)
        @early << name
      end

      # What waits in the pipe since the start comes first.
      def obey
        while (name = @orders.gets(chomp: true))
          order(name)
        end
        @orphaned = true
        order("TERM")
      end

      # One that repeats what a signal said already counts only as a second order: then it is by force.
      def order(name)
        return hear(name) unless ENDING.include?(name)

        hear(name) if first? || @ordered
        @ordered = true
      end

      def first?
        !@first.pop(true).nil?
      rescue ThreadError
        false
      end

      def status
        if @server.status == :forced
          @err.puts "pelton: ended by force"
          @server.unfinished_work.each { |loss| @err.puts "pelton: left undone: #{loss}" }
          return FORCED
        end
        @server.unfinished_work.each { |loss| @err.puts "pelton: #{loss}" }
        undelivered = @app.close
        @err.puts "pelton: #{undelivered} produced messages not delivered" if undelivered.positive?
        return FORCED if undelivered.positive?

        failure = @server.failure or return 0
        return failure.status if failure.is_a?(SystemExit)

        @err.puts "pelton: stopped by #{failure.class}: #{failure.message}"
        1
      end
    end
  end
end
