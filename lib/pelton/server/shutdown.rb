# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/threads"
require_relative "../consuming/listener"
require_relative "../consuming/worker"

module Pelton
  # The shutdown of a server, on the server's thread. Its phases, in this order:
  # 1. No new job starts, and running jobs finish. Each consumer gets its `shutdown`.
  # 2. Marked messages are committed, and the consumers leave their groups.
  # 3. The app's background threads end.
  # 4. The producer is flushed.
  # At the deadline, or at a second signal, the shutdown is forced: workers are killed, marked messages are still
  # committed, and consumers still get their `shutdown`. A later signal leaves FORCE seconds for the current wait.
  #
  # A part of the time is reserved for the flush: flush_timeout, but at most half of the time. The flush always happens,
  # whatever failed before.
  class Shutdown
    # Seconds that threads have to end when they are killed; also the seconds that are left after a late signal.
    FORCE = 1.0

    # Unfinished work, one String each.
    attr_reader :unfinished_work

    # signalled: true if a signal started the shutdown, so the next signal is the second one. inbox: the server's queue,
    # with signals and with stops that have less time.
    #: (Config, Numeric?, signalled: bool, listeners: Listeners, workers: Array[Consuming::Worker],
    #:  jobs: Consuming::JobsQueue, engines: Parallel::Engines, scope: Background::Scope, monitor: ResourceMonitor,
    #:  bus: Notifications, flush: ^(Float) -> Integer, inbox: Thread::Queue) -> void
    def initialize(config, timeout, signalled:, listeners:, workers:, jobs:, engines:, scope:, monitor:, bus:, flush:,
                   inbox:)
      @timeout = timeout || config.shutdown_timeout
      @signalled = signalled
      @flush_timeout = config.flush_timeout
      @listeners = listeners
      @workers = workers
      @jobs = jobs
      @engines = engines
      @bus = bus
      @scope = scope
      @monitor = monitor
      @background_timeout = config.background_timeout
      @flush = flush
      @inbox = inbox
      @started = Clock.now
      # The deadline of all phases, and the seconds of it that are reserved for the flush.
      @ends = @flush_share = nil
      limit(@timeout)
      # Seconds of each phase, in order, without those of the groups: {workers: 0.0, background: 0.1, flush: 0.3}.
      @phases = {}
      @unfinished_work = []
      # The jobs that ran when the force began: {job => "orders/0: consume runs for 9.1 s, …"}, by identity.
      @broken_off = {}.compare_by_identity
      # The reason for the force; nil while it is not forced.
      @forced = nil
      @undelivered = 0
      @announced = false
    end

    # Returns true if everything was finished, false if it was forced. It is called again if a subscriber killed the
    # thread that called it.
    #: (String) -> bool
    def call(reason)
      announce(reason)
      @forced ||= drain
      contain(:force) { force } if @forced
      @unfinished_work |= @listeners.flat_map { |listener| listener.repeats(@broken_off) }
      contain(:parallel) { @engines.close(timeout: FORCE) } unless @engines.none?
      contain(:background) { end_backgrounds }
      contain(:flush) { flush }
      @forced.nil?
    end

    # Publishes how it ended. Called after the server's status has changed.
    #: () -> void
    def publish
      facts = { seconds: Clock.now - @started, phases: phases }
      unless @forced
        return @bus.publish("app.stopped", **facts, undelivered: @undelivered,
                                                    unfinished_work: @unfinished_work)
      end

      @bus.publish("app.forced", **facts, reason: @forced, unfinished_work: @unfinished_work)
    end

    private

    def phases
      groups = @listeners.to_h { |listener| [listener.group.name, listener.phases.dup] }
      { groups: groups, **@phases }
    end

    def unfinished
      @listeners.each_with_object({}.compare_by_identity) { |listener, jobs| jobs.update(listener.unfinished_jobs) }
    end

    # Sets the deadline, if it is earlier than the current one; otherwise returns false. A part of the time is reserved
    # for the flush.
    def limit(timeout)
      slice = [@flush_timeout, timeout / 2.0].min
      ends = Clock.now + timeout
      return false if @ends && @ends <= ends && @flush_share <= slice

      @flush_share = [slice, *@flush_share].min
      @ends = [ends, *@ends].min
    end

    # Publishes app.stopping, only once.
    def announce(reason)
      return if @announced

      @announced = true
      @bus.publish("app.stopping", reason: reason, timeout: @timeout, flush: @flush_share, waits_for: unfinished.values)
    end

    # Runs a phase. Its errors do not prevent the next phases.
    def contain(phase, &block)
      timed(phase, &block)
    rescue Exception => e # rubocop:disable Lint/RescueException -- the producer must be flushed after any error
      @forced ||= "#{phase}: #{e.message}"
      @unfinished_work += ["#{phase} failed with #{e.class}: #{e.message}"]
      @bus.publish("error.occurred", error: e, source: "server")
    end

    # Stops the listeners and workers. Returns nil, or the reason why that failed.
    def drain
      hearing(rest: nil) { @forced || ended_by(@ends - @flush_share) }
    rescue StandardError => e
      e.message
    end

    # Runs the block on another thread, and returns or raises its result. A stop with less time kills that thread, and
    # the block starts again with the new deadline. A second signal does the same and leaves `rest` seconds (nil: the
    # time that was left).
    def hearing(rest: FORCE, &phase)
      running = start(&phase)
      loop do
        from, fact, more = @inbox.pop
        raise more if more && from.equal?(running)
        return fact if from.equal?(running)
        next unless sooner?(rest, from, fact, more)

        running.kill
        running = start(&phase)
      end
    ensure
      running&.kill
    end

    # Does this order shorten the time?
    def sooner?(rest, order, fact, timeout)
      case order
      when :signal then second?(fact) && (rest.nil? || limit(rest))
      when :stop then timeout && limit(timeout)
      end
    end

    # Is this the second signal? The first signal after a stop without a signal does not force it.
    def second?(name)
      second = @signalled
      @signalled = true
      @forced ||= "second signal (SIG#{name})" if second
      second
    end

    # Starts a phase's thread. Its result comes to the inbox, also if the thread is killed before its first step.
    def start(&phase)
      Thread.handle_interrupt(Object => :never) do
        Threads.start("pelton.shutdown") do
          ended = [Thread.current, Thread.handle_interrupt(Object => :immediate, &phase)]
        rescue Exception => e # rubocop:disable Lint/RescueException -- `hearing` raises it
          ended = [Thread.current, nil, e]
        ensure
          @inbox << (ended || [Thread.current, nil, WorkerKilled.new("the shutdown")])
        end
      end
    end

    def ended_by(deadline)
      @listeners.each { |listener| listener.stop(deadline) }
      left = Threads.join(listening, Clock.left(deadline) + Consuming::Listener::CLOSE_AT_LEAST + FORCE)
      return "not finished in time" if left.any?
      return "not committed" if @listeners.any?(&:unconfirmed)
      return "not finished in time" unless @listeners.all?(&:graceful?)

      timed(:workers) do
        @jobs.close
        left = Threads.join(working, Clock.left(deadline) + FORCE)
      end
      "not finished in time" if left.any?
    end

    # Kills the workers, which settle their jobs. Other workers then run the consumers' `shutdown`.
    def force
      @broken_off = unfinished
      @unfinished_work = @broken_off.values + standing
      @jobs.stop_consuming
      @workers.each(&:kill)
      last = @workers.map { |worker| Consuming::Worker.new("#{worker.name}.end", @jobs, @bus).start }
      @listeners.each { |listener| listener.stop(Clock.now) }
      Threads.join(listening + working, Consuming::Listener::CLOSE_AT_LEAST)
      @jobs.close
      Threads.join(last.map(&:thread), FORCE)
      last.each(&:kill)
      Threads.join(last.map(&:thread), FORCE)
      @unfinished_work += @listeners.flat_map(&:unended) + @listeners.filter_map(&:unconfirmed).map(&:message)
    end

    # Waits for background threads until the time for the flush begins. Reports those that take longer.
    def end_backgrounds
      hearing { @scope.close([@background_timeout, [Clock.left(@ends - @flush_share), FORCE].max].min) }
      [*@listeners, @scope].each { |owner| @monitor.report_leaked(owner.leaked_threads) }
      @monitor.close
    end

    # A forced flush has the reserved time; otherwise it has all the time that is left.
    def flush
      @undelivered = hearing { @flush.call(@forced ? @flush_share : [Clock.left(@ends), @flush_share].max) }
      return unless @undelivered.positive?

      @forced ||= "producer not flushed in time"
      @unfinished_work += ["#{@undelivered} produced messages not delivered"]
    end

    # The lines at which workers are in a job: "pelton.worker#1 is at app.rb:12:in `pop'".
    def standing
      @workers.filter_map do |worker|
        line = Threads.at(worker.thread)
        "#{worker.name} is at #{line}" if line && !line.include?("/pelton/consuming/jobs_queue.rb:")
      end
    end

    def listening = @listeners.map(&:thread)
    def working = @workers.map(&:thread)

    def timed(phase)
      started = Clock.now
      yield
    ensure
      @phases[phase] = Clock.now - started
    end
  end
end
