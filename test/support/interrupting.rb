# frozen_string_literal: true

# Thread#raise and Thread#kill at every line of our code.
module Interrupting
  class Stop < Exception; end # rubocop:disable Lint/InheritException

  # Interrupts the thread that it surrounds, once, at a given event of our code: an event is a line or a return.
  class Trap
    EVENTS = %i[line return b_return].freeze

    #: (Integer, Symbol) -> void
    def initialize(at, kind)
      @at = at
      @kind = kind
      @seen = 0
      @victim = nil
      @orders = Thread::Queue.new
      @done = Thread::Queue.new
      @attacker = Thread.new { attack while @orders.pop }
      @trace = TracePoint.new(*EVENTS) { |point| hit(point) }
    end

    def surround(&block)
      @victim = Thread.current
      @trace.enable(&block)
    end

    # Did the event occur?
    def sprung? = @seen >= @at

    def close
      @orders << nil
      @attacker.join
    end

    private

    def hit(point)
      return unless Thread.current.equal?(@victim) && point.path.include?("/lib/pelton/")
      return unless (@seen += 1) == @at

      @orders << true
      @done.pop # the interrupt comes here, or later if it is deferred
    end

    def attack
      @kind == :kill ? @victim.kill : @victim.raise(Stop)
      @done << true
    end
  end

  def a_thread
    Thread.new do
      Thread.current.report_on_exception = false
      yield
    rescue Stop
      nil
    end.join
  end
end
