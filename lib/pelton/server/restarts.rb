# frozen_string_literal: true

require_relative "../background"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/lock"
require_relative "../runtime/threads"

module Pelton
  # Restarts a group whose listener failed for good, while the other groups go on. It does so if config.group_restart is
  # set, and no other member took over (the two would fence each other in turn). It always restarts a member that can
  # return to its group only with another client.
  class Restarts
    SHORTEST = 0.1
    # Seconds, if config.group_restart is not set.
    REJOIN = 1
    private_constant :SHORTEST, :REJOIN

    # listeners: the server's, in which the failed one is replaced.
    #: (Config, Listeners, bus: Notifications) -> void
    def initialize(config, listeners, bus:)
      @delay = config.group_restart
      @grace = config.revocation_timeout
      @listeners = listeners
      @bus = bus
      @stop = Background::Stop.new
      @lock = Consuming::Lock.new # a thread that holds it is not interrupted
      # {failed listener => the thread that replaces it}; guarded by @lock, like every replacement.
      @threads = {}.compare_by_identity
    end

    # Begins to restart the listener's group. Returns false if the server must stop instead. Called by the failed
    # listener's thread, possibly more than once.
    #: (Consuming::Listener, Exception) -> bool
    def take(listener, error)
      kafka = error if error.is_a?(KafkaError)
      delay = @delay || (REJOIN if kafka&.name == :_ASSIGNMENT_LOST)
      return false if delay.nil? || @stop.stop? || kafka&.taken_over?

      name = listener.group.name
      first = @lock.synchronize do
        next if @threads.key?(listener)

        begin_thread(listener)
      end
      @bus.publish("group.restarting", group: name, error: error, seconds: delay) if first
      true
    end

    # No listener is replaced after this call.
    #: () -> void
    def stop
      @stop.ask
      @lock.synchronize { nil } # waits for a running replacement
    end

    # Waits for the threads that replace listeners, after the end of the listeners.
    #: (Numeric) -> void
    def join(seconds) = Threads.join(@lock.synchronize { @threads.values }, seconds)

    private

    # Call it under @lock. The thread begins with deferred interrupts, so it is replaced even if it is killed before its
    # first step.
    def begin_thread(listener)
      name = listener.group.name
      Thread.handle_interrupt(Object => :never) do
        @threads[listener] = Threads.start("pelton.restart[#{name}]", report: ->(e) { report(e, name) }) do
          run(listener)
        end
      end
    end

    def run(listener)
      Thread.handle_interrupt(Object => :immediate) { restart(listener) }
      ended = true
    ensure
      # It was killed, unless the process ends.
      @lock.synchronize { begin_thread(listener) } unless ended || @stop.stop? || !Thread.main.alive?
    end

    def restart(listener)
      listener.stop(Clock.now + @grace)
      Threads.join([listener.thread])
      until @stop.wait([@delay || REJOIN, SHORTEST].max)
        begin
          return replace(listener)
        rescue StandardError => e
          report(e, listener.group.name)
        end
      end
    end

    def replace(listener)
      @lock.synchronize do
        next if @stop.stop?

        successor = @listeners.replace(listener)
        @threads.delete(listener)
        successor.succeed(listener).start
      end
    end

    def report(error, group) = @bus.publish("error.occurred", error: error, source: "restart", group: group)
  end
end
