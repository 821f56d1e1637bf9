# frozen_string_literal: true

require_relative "../background"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/lock"
require_relative "../runtime/threads"

module Pelton
  # Begins a group anew whose listener failed for good, while the others go on: if config.group_restart says so, and no
  # other member has taken its place (the two would take it from each other in turn). A member that only another
  # client can bring back to its group begins anew in any case.
  class Restarts
    SHORTEST = 0.1
    # Seconds, where config.group_restart says nothing.
    REJOIN = 1
    private_constant :SHORTEST, :REJOIN

    # listeners: the server's; the failed one is replaced in it. The block opens another one for it, unstarted.
    #: (Config, Array[Consuming::Listener], bus: Notifications)
    #:   { (Consuming::Listener) -> Consuming::Listener } -> void
    def initialize(config, listeners, bus:, &open)
      @delay = config.group_restart
      @grace = config.revocation_timeout
      @listeners = listeners
      @bus = bus
      @open = open
      @stop = Background::Stop.new
      @lock = Consuming::Lock.new # what runs under it is whole
      # {failed listener => the thread that replaces it}; under @lock, as every replacement.
      @threads = {}.compare_by_identity
    end

    # false: not our business, the server has to stop. From the failed listener's thread, perhaps repeatedly.
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

    # Nothing is replaced any more.
    #: () -> void
    def stop
      @stop.ask
      @lock.synchronize { nil } # a replacement that runs is finished
    end

    # After the end of the listeners.
    #: (Numeric) -> void
    def join(seconds) = Threads.join(@lock.synchronize { @threads.values }, seconds)

    private

    # Under @lock. Its interrupts are deferred at first: one killed before its first step is replaced, too.
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
      # Unless it is the end of the process, somebody killed it.
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

        fresh = @open.call(listener)
        @listeners[@listeners.index(listener)] = fresh
        @threads.delete(listener)
        fresh.succeed(listener).start
      end
    end

    def report(error, group) = @bus.publish("error.occurred", error: error, source: "restart", group: group)
  end
end
