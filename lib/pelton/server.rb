# frozen_string_literal: true

require_relative "clock"
require_relative "errors"
require_relative "subscription"
require_relative "threads"
require_relative "processing/jobs_queue"
require_relative "processing/listener"
require_relative "processing/worker"

module Pelton
  # Runs the consumers of an app: a listener per group, the workers, and one thread "pelton.server" that waits for the
  # word to stop. It starts once; an app makes a new one for the next start.
  #
  # Stop, in this order: nothing new is begun → running jobs end → `shutdown` of each consumer → what is marked is
  # committed, the group is left → the producer is flushed. At config.shutdown_timeout, or when asked a second time by a
  # signal, by force: it says what was left undone.
  class Server
    # How long threads may take to end once they are told to by force.
    FORCE = 1.0

    # :created, :running, :stopping, :stopped or :forced
    attr_reader :status
    # What was left undone by a forced stop: ["orders/0: consume runs for 61.2 s, …"]
    attr_reader :losses
    # The error that made the server stop by itself, or nil.
    attr_reader :failure

    #: (Config, Array[Routing::Group], bus: Notifications, ?producer: ^() -> Producer?, ?flush: ^(Float) -> Integer,
    #:  ?native: Module?) -> void
    def initialize(config, groups, bus:, producer: nil, flush: nil, native: nil)
      @config = config
      @groups = groups
      @bus = bus
      @producer = producer
      # Flushes what the app produced within so many seconds; returns what is left.
      @flush = flush || ->(_seconds) { 0 }
      @native = native
      @jobs = Processing::JobsQueue.new
      @listeners = []
      @workers = []
      # Orders to the server's thread: [:stop, reason, timeout], [:signal, "TERM"], [:drained]. A push is all that a
      # trap has to do.
      @inbox = Thread::Queue.new
      @thread = nil
      @status = :created
      @losses = []
      @failure = nil
    end

    # Starts all threads and returns. Raises what opening a subscription raises (ConfigError); then nothing is left
    # over.
    #: () -> self
    def start
      raise ShutdownError, "a server starts once, this one is #{@status}" unless @status == :created

      facts = { groups: @groups.map(&:name), concurrency: @config.concurrency }
      @bus.publish("app.starting", **facts)
      open_listeners
      @status = :running
      @workers = Array.new(@config.concurrency) do |index|
        Processing::Worker.new("pelton.worker##{index + 1}", @jobs, @bus).start
      end
      @listeners.each(&:start)
      @thread = Threads.start("pelton.server", report: ->(error) { crashed(error) }) { supervise }
      @bus.publish("app.running", **facts)
      self
    end

    # Stops and waits for the end. true: everything was finished; false: by force, see `losses`. From any thread, as
    # often as one likes; from a consumer, a listener of events or a trap it only asks to stop (nil), for the end waits
    # for them.
    #: (?timeout: Numeric?, ?reason: String) -> bool?
    def stop(timeout: nil, reason: "stop")
      Clock.check(timeout)
      return true if @status == :created || (@status == :stopped && !@thread) # it could not start

      @inbox << [:stop, reason, timeout]
      return if own_thread?

      wait
    end

    # The same for traps and threads that must not wait; a second signal stops by force.
    #: (String) -> void
    def signal(name) = @inbox << [:signal, name]

    # Waits until the server has stopped, whoever stops it. nil: not within `timeout` seconds.
    #: (?Numeric?) -> bool?
    def wait(timeout = nil)
      return unless @thread&.join(*Clock.check(timeout))

      @status == :stopped
    end

    #: () -> bool
    def running? = @status == :running

    def inspect = "#<#{self.class} #{@status} #{@groups.map(&:name).join(", ")}>"

    private

    def open_listeners
      subscriptions = []
      @groups.each do |group|
        subscriptions << Subscription.new(@config, group_id: group.name, batch: group.batch, decode: group.decode,
                                                   bus: @bus, native: @native)
        @listeners << Processing::Listener.new(group, @config, subscription: subscriptions.last, jobs: @jobs, bus: @bus,
                                                               producer: @producer, on_failure: method(:failed))
      end
    rescue StandardError
      @status = :stopped
      subscriptions.each { |subscription| subscription.close(FORCE) }
      raise
    end

    # From a listener or a worker: something after which we cannot go on.
    def failed(error)
      @failure ||= error
      @inbox << [:stop, "#{error.class}: #{error.message}", nil]
    end

    # --- the server's thread ---------------------------------------------------------------------------------------

    def supervise
      kind, reason, timeout = @inbox.pop
      reason = "SIG#{reason}" if kind == :signal
      timeout ||= @config.shutdown_timeout
      @status = :stopping
      started = Clock.now
      @bus.publish("app.stopping", reason: reason, timeout: timeout)
      flush_until = started + timeout
      drained = drain(flush_until - [@config.flush_timeout, timeout / 2.0].min)
      drained == true ? finish(started, flush_until) : force(drained, flush_until)
    end

    # true, or the reason why it was not to be.
    def drain(deadline)
      Threads.start("pelton.shutdown", report: ->(error) { @inbox << [:drained, error.message] }) do
        @listeners.each { |listener| listener.stop(deadline) }
        closing = Processing::Listener::CLOSE_AT_LEAST + FORCE
        left = Threads.join(@listeners.map(&:thread), Clock.left(deadline) + closing)
        @jobs.close
        left += Threads.join(@workers.map(&:thread), Clock.left(deadline)) if left.empty?
        graceful = left.empty? && @listeners.all?(&:graceful?)
        @inbox << [:drained, graceful || "not finished in time"]
      end
      loop do
        kind, fact = @inbox.pop
        return fact if kind == :drained
        return "second signal (SIG#{fact})" if kind == :signal
      end
    end

    def finish(started, flush_until)
      undelivered = @flush.call(Clock.left(flush_until))
      return force("producer not flushed in time", flush_until, undelivered) if undelivered.positive?

      @status = :stopped
      @bus.publish("app.stopped", seconds: Clock.now - started, undelivered: undelivered)
    end

    def force(reason, flush_until, undelivered = nil)
      @losses = @listeners.flat_map(&:losses)
      @jobs.clear
      @workers.each(&:kill)
      @listeners.each { |listener| listener.stop(Clock.now) }
      Threads.join(@listeners.map(&:thread) + @workers.map(&:thread), FORCE)
      undelivered ||= @flush.call([Clock.left(flush_until), FORCE].max)
      @losses += ["#{undelivered} produced messages not delivered"] if undelivered.positive?
      @status = :forced
      @bus.publish("app.forced", reason: reason, losses: @losses)
    end

    def crashed(error)
      @failure ||= error
      @status = :forced
      @bus.publish("error.occurred", error: error, source: "server")
    end

    def own_thread?
      threads = [@thread, *@listeners.map(&:thread), *@workers.map(&:thread)]
      threads.include?(Thread.current)
    end
  end
end
