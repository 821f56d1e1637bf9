# frozen_string_literal: true

require_relative "backoff"
require_relative "clock"
require_relative "errors"
require_relative "threads"

module Pelton
  # A thread of the user's that its owner, a consumer or an app, looks after: it is asked to stop and joined with its
  # owner, told of when it dies (error.occurred), started again if that was asked for, and named when it does not end
  # (thread.leaked). See Consumer#background and App#background.
  class Background
    # What the thread is given: the word to end.
    #   background("flush") { |stop| flush until stop.wait(10) }
    class Stop
      def initialize
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @asked = false
      end

      # Should it end?
      #: () -> bool
      def stop? = @asked

      # Waits so many seconds (nil: as long as it takes), but not longer than until the stop. true: it should end.
      #: (?Numeric?) -> bool
      def wait(seconds = nil)
        deadline = Clock.deadline(seconds)
        @lock.synchronize do
          @changed.wait(@lock, Clock.left(deadline)) until @asked || (deadline && Clock.now >= deadline)
          @asked
        end
      end

      #: () -> void
      def ask
        @lock.synchronize do
          @asked = true
          @changed.broadcast
        end
      end
    end

    # Before it is started again.
    BACK_OFF = Backoff.new(1, 30)
    # Seconds after which a failure counts as the first.
    CALM = 60
    # Its thread's name begins so.
    THREAD = "pelton.background["
    private_constant :BACK_OFF, :CALM, :THREAD

    # Raises ConfigError for what cannot be started.
    #: (untyped, Proc?) -> void
    def self.check(name, block)
      raise ConfigError.new("background", name, "expected a String, its name") unless name.is_a?(String) && !name.empty?
      raise ConfigError.new("background", name, "a block is missing") unless block
    end

    # Does a background thread ask?
    #: () -> bool
    def self.here? = Thread.current.name.to_s.start_with?(THREAD)

    #: (thread: Thread)
    attr_reader :name, :thread
    # Where its block is: "app.rb:12"; nil where Ruby does not know.
    attr_reader :started_at

    # label: its owner's name; facts: of its owner, for events.
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
      # How often it died soon after it began, and when that was.
      @failures = 0
      @began = Clock.now
      begin_thread
    end

    # Asks it to end and waits for that, so many seconds (nil: as long as it takes; 0: not at all). Has it ended?
    #: (?Numeric?) -> bool
    def stop(timeout = nil)
      Clock.check(timeout)
      @stop.ask
      Threads.join([@thread], timeout).empty?
    end

    #: () -> bool
    def alive? = @thread.alive?

    def inspect = "#<#{self.class} #{@name} #{@started_at}#{" ended" unless alive?}>"

    private

    # The new thread begins with what we defer: one killed before its first step is told of, too.
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

    # By Thread.exit or Thread#kill: another thread goes on, unless all threads are killed, at the end of the process.
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
