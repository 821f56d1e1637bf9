# frozen_string_literal: true

require_relative "../errors"
require_relative "../logging/repeat_limit"
require_relative "../runtime/threads"
require_relative "shutdown"

module Pelton
  # The status of a server, and its thread, "pelton.server", which carries out the commands stop, quiet and resume one
  # after the other. Any thread or trap may send a command. After the start, only this thread changes the status.
  class Lifecycle
    # See Server#status.
    #: () -> Symbol
    attr_reader :status
    # nil before the start.
    #: () -> Thread?
    attr_reader :thread
    # The first error that stopped the server, or nil.
    #: () -> Exception?
    attr_reader :failure
    # See Server#unfinished_work.
    #: () -> Array[String]
    attr_reader :unfinished_work
    # Commands to the thread: [:stop, reason, timeout], [:signal, "TERM"], [:quiet, reason], [:resume], [:idle],
    # [:drained, true or why not]. A trap only pushes to it.
    #: () -> Thread::Queue
    attr_reader :inbox

    # on_end: called at the end of the thread, whatever ended it. The block returns a new Shutdown for a timeout
    # (seconds or nil) and whether a signal began it.
    #: (jobs: Consuming::JobsQueue, restarts: Restarts, bus: Notifications, on_end: ^() -> void)
    #:   { (Numeric?, bool) -> Shutdown } -> void
    def initialize(jobs:, restarts:, bus:, on_end:, &new_shutdown)
      @jobs = jobs
      @restarts = restarts
      @bus = bus
      @on_end = on_end
      @new_shutdown = new_shutdown
      @inbox = Thread::Queue.new
      # Gets true when the server has started, and false when the start failed.
      @started = Thread::Queue.new
      @status = :created
      @unfinished_work = []
      @failure = nil
      @thread = nil
      @shutdown = nil
    end

    # Starts the thread, which waits for `started` or `cancel`.
    #: () -> void
    def start
      @status = :starting
      # The new thread inherits the deferral: if it is killed before its first step, it still stops what was started.
      Thread.handle_interrupt(Object => :never) do
        @thread = Threads.start("pelton.server", report: ->(error) { crashed(error) }) { serve }
      end
    end

    # All threads of the server run.
    #: () -> void
    def running = @status = :running

    # The start is complete: the thread may carry out commands.
    #: () -> void
    def started = @started << true

    # The start failed: the thread ends.
    #: () -> void
    def cancel
      @status = :stopped
      @started << false
    end

    # Stops the server because of this error.
    #: (Exception) -> void
    def stop_for(error)
      @failure ||= error
      @inbox << [:stop, "#{error.class}: #{error.message}", nil]
    end

    private

    # Defers a kill until the `ensure` is in place that stops the other threads.
    def serve
      return unless @started.pop

      begin
        Thread.handle_interrupt(Object => :immediate) { carry_out_commands }
      rescue Exception => e # rubocop:disable Lint/RescueException -- a subscriber may raise any exception
        @failure ||= e
        raise
      ensure
        Thread.handle_interrupt(Object => :immediate) { close }
      end
    end

    def carry_out_commands
      loop do
        kind, reason, timeout = @inbox.pop
        case kind
        when :quiet then quiet(reason)
        when :idle then idle
        when :resume then resume
        when :stop then return shut_down(reason, timeout)
        when :signal then return shut_down("SIG#{reason}", nil, signalled: true)
        end
      end
    end

    def quiet(reason)
      return unless @status == :running

      @status = :quieting
      @bus.publish("app.quieting", reason: reason)
      @jobs.quiet { @inbox << [:idle] }
    end

    def idle
      return unless @status == :quieting

      @status = :quiet
      @bus.publish("app.quiet")
    end

    def resume
      return unless %i[quieting quiet].include?(@status)

      @jobs.resume
      @status = :running
      @bus.publish("app.resumed")
    end

    # Continues the same shutdown if a subscriber's error ended the thread in the middle of it.
    def shut_down(reason, timeout, signalled: false)
      @status = :stopping
      @restarts.stop
      @shutdown ||= @new_shutdown.call(timeout, signalled)
      graceful = @shutdown.call(reason)
      @restarts.join(Shutdown::FORCE)
      @unfinished_work = @shutdown.unfinished_work
      @status = graceful ? :stopped : :forced
      RepeatLimit.report(last: true) # before the last line
      @shutdown.publish
    end

    # If the thread was killed, or a subscriber's error ended it, it stops the other threads before it ends. Not at the
    # end of the process: then Ruby ends all threads.
    def close
      return if ended? || !Thread.main.alive?

      @failure ||= WorkerKilled.new("the server's commands")
      shut_down(@failure.message, nil)
    ensure
      @on_end.call
    end

    def ended? = %i[stopped forced].include?(@status)

    def crashed(error)
      @failure ||= error
      @status = :forced unless ended?
      @bus.publish("error.occurred", error: error, source: "server")
    end
  end
end
