# frozen_string_literal: true

require_relative "runtime/backoff"
require_relative "runtime/clock"
require_relative "errors"
require_relative "runtime/threads"

module Pelton
  # A thread of your own that a consumer or an app manages. It is asked to stop and joined when its owner ends. If it
  # dies, Pelton publishes error.occurred and, with `restart: true`, starts it again. If it does not end in time, Pelton
  # publishes thread.leaked. Consumer#background returns one.
  #   Pelton.background("prices", restart: true) { |stop| PRICES.refresh until stop.wait(60) }
  class Background
    # The argument of the thread's block: its methods say when the thread should end. Callable from every thread.
    #   background("flush") { |stop| flush until stop.wait(10) }
    class Stop
      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @asked = false
        # Until when its owner waits, in monotonic seconds; nil: not known.
        @ends = nil
      end

      # Should the thread end? Does not wait.
      #   work until stop.stop?
      #: () -> bool
      def stop? = @asked

      # Waits this many seconds (nil: no limit), but not longer than until the thread should end. Returns true if it
      # should end.
      #   refresh until stop.wait(60)
      #: (?Numeric?) -> bool
      def wait(seconds = nil)
        deadline = Clock.deadline(seconds)
        @lock.synchronize do
          @changed.wait(@lock, Clock.left(deadline)) until @asked || (deadline && Clock.now >= deadline)
          @asked
        end
      end

      # For Pelton: asks the thread to end. Its owner waits this many seconds for that.
      #: (?Numeric?) -> void
      def ask(seconds = nil)
        @lock.synchronize do
          @ends = [*@ends, *Clock.deadline(seconds)].min
          @asked = true
          @changed.broadcast
        end
      end

      # For Pelton: seconds for the last work of the thread, which takes up to `longest`. It is less if the owner waits
      # less: half of what is left, so that the thread has ended when the owner looks.
      #: (Numeric) -> Numeric
      def time_for(longest) = [longest, *Clock.left(@ends)&.fdiv(2)].min
    end

    # Seconds before a restart: the first, doubled up to the last.
    BACK_OFF = Backoff.new(1, 30)
    # Seconds after which a failure counts as the first one.
    CALM = 60
    # The start of the thread's name.
    THREAD = "pelton.background["
    private_constant :BACK_OFF, :CALM, :THREAD

    # For Pelton: raises ConfigError if a thread with this name and block cannot start.
    #: (untyped, Proc?) -> void
    def self.check(name, block)
      raise ConfigError.new("background", name, "expected its name, a String") unless name.is_a?(String) && !name.empty?
      raise ConfigError.new("background", name, "a block is missing") unless block
    end

    # For Pelton: is the caller a background thread?
    #: () -> bool
    def self.here? = Thread.current.name.to_s.start_with?(THREAD)

    # name: as it was given. thread: the Ruby thread that runs now.
    #   thread.name # => "prices"
    #: (thread: Thread)
    attr_reader :name, :thread
    # Where its block is, "app.rb:12"; nil if Ruby does not know.
    attr_reader :started_at

    # For Pelton. label: the owner's name. facts: of the owner, for events.
    #: (String, started_at: String?, label: String?, facts: Hash[Symbol, untyped], bus: Notifications, restart: bool)
    #:   { (Stop) -> void } -> void
    def initialize(name, started_at:, label:, facts:, bus:, restart:, &block)
      @name = name
      @started_at = started_at
      @facts = facts
      @bus = bus
      @restart = restart
      @block = block
      @stop = Stop.new
      @thread_name = "#{THREAD}#{[name, *label].join(" ")}]"
      # How often it died soon after its start, and when that start was.
      @failures = 0
      @began = Clock.now
      begin_thread
    end

    # Asks the thread to end and waits up to `timeout` seconds (nil: no limit; 0: does not wait). Returns true if it has
    # ended.
    #   thread = background("flush") { |stop| flush until stop.wait(10) }
    #   thread.stop(5) # => true
    # Callable from every thread.
    #: (?Numeric?) -> bool
    def stop(timeout = nil)
      Clock.check(timeout)
      @stop.ask
      Threads.join([@thread], timeout).empty?
    end

    # For Pelton: asks the thread to end. Its owner waits this many seconds for that.
    #: (?Numeric?) -> void
    def ask(seconds = nil) = @stop.ask(seconds)

    # Does the thread run?
    #   thread.alive? # => true
    #: () -> bool
    def alive? = @thread.alive?

    def inspect = "#<#{self.class} #{@name} #{@started_at}#{" ended" unless alive?}>"

    private

    # The new thread defers interrupts at first. So one that is killed before its first step is reported, too.
    def begin_thread(pause = nil)
      Thread.handle_interrupt(Object => :never) do
        @thread = Threads.start(@thread_name, report: method(:report)) { run(pause) }
      end
    end

    def run(pause)
      Thread.handle_interrupt(Object => :immediate) { work unless pause && @stop.wait(pause) }
      ended = true
    ensure
      killed unless ended
    end

    def work
      @began = Clock.now
      @block.call(@stop)
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever user code raises ends here
      report(e)
      retry if @restart && !@stop.wait(back_off)
    end

    # By Thread.exit or Thread#kill. Another thread continues, unless the end of the process kills all of them.
    def killed
      pause = back_off
      begin_thread(pause) if @restart && Thread.main.alive? && !@stop.stop?
    ensure
      report(WorkerKilled.new("background #{@name}"))
    end

    def back_off
      @failures = 0 if Clock.now - @began > CALM
      BACK_OFF.delay(@failures += 1)
    end

    def report(error) = @bus.publish("error.occurred", **@facts, error: error, source: "background #{@name}")
  end
end
