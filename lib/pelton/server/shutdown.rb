# frozen_string_literal: true

require_relative "../runtime/clock"
require_relative "../errors"
require_relative "../runtime/threads"
require_relative "../consuming/listener"
require_relative "../consuming/worker"

module Pelton
  # The end of a server, on its thread. In this order: nothing new is begun → running jobs end → `shutdown` of each
  # consumer → what is marked is committed, the group is left → the app's background threads end → the producer is
  # flushed. At the deadline, or at a second signal, by force: workers are killed, what is marked is committed,
  # consumers get their `shutdown` all the same. A signal that comes later leaves what is still waited for a short rest.
  #
  # A part of the time is kept for the flush: flush_timeout, half of it all at most. It is flushed whatever went wrong.
  class Shutdown
    # How long threads may take to end once they are told to by force; what a late signal leaves of the time.
    FORCE = 1.0

    # What was left undone, a String each.
    attr_reader :unfinished_work

    # signalled: a signal began it, so the next one is the second. inbox: the server's, for signals, and stops that have
    # less time.
    #: (Config, Numeric?, signalled: bool, listeners: Listeners, workers: Array[Consuming::Worker],
    #:  jobs: Consuming::JobsQueue, engines: Parallel::Engines, scope: Background::Scope, monitor: ResourceMonitor, bus: Notifications,
    #:  flush: ^(Float) -> Integer, inbox: Thread::Queue) -> void
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
      # When it is over, the flush with it.
      @ends = @flush_share = nil
      limit(@timeout)
      # Seconds, in the order of happening, beside those of the groups: {workers: 0.0, background: 0.1, flush: 0.3}
      @phases = {}
      @unfinished_work = []
      # Why it is by force; nil: it is not.
      @forced = nil
      @undelivered = 0
      @announced = false
    end

    # true: everything was finished; false: by force. Called again where a subscriber ended the thread that called it.
    #: (String) -> bool
    def call(reason)
      announce(reason)
      @forced ||= drain
      contain(:force) { force } if @forced
      @unfinished_work |= @listeners.flat_map(&:repeats)
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
      groups = @listeners.to_h { |one| [one.group.name, one.phases.dup] }
      { groups: groups, **@phases }
    end

    def unfinished = @listeners.flat_map(&:unfinished_work)

    # The earliest end that anybody asked for counts: false if this is none. A part of the time is kept for the flush,
    # which may go on when the rest is over.
    def limit(timeout)
      slice = [@flush_timeout, timeout / 2.0].min
      ends = Clock.now + timeout
      return false if @ends && @ends <= ends && @flush_share <= slice

      @flush_share = [slice, *@flush_share].min
      @ends = [ends, *@ends].min
    end

    # Once, whatever a subscriber does.
    def announce(reason)
      return if @announced

      @announced = true
      @bus.publish("app.stopping", reason: reason, timeout: @timeout, flush: @flush_share, waits_for: unfinished)
    end

    # A phase that raises leaves out no other one.
    def contain(phase, &block)
      timed(phase, &block)
    rescue Exception => e # rubocop:disable Lint/RescueException -- whatever it is, what is produced is flushed
      @forced ||= "#{phase}: #{e.message}"
      @unfinished_work += ["#{phase} failed with #{e.class}: #{e.message}"]
      @bus.publish("error.occurred", error: e, source: "server")
    end

    # nil, or the reason why it was not to be.
    def drain
      hearing(rest: nil) { @forced || ended_by(@ends - @flush_share) }
    rescue StandardError => e
      e.message
    end

    # What the block returns or raises, which runs on a thread of its own: a stop that has less time ends it, and it
    # begins again with that. So does a second signal, which leaves `rest` seconds (nil: what there was).
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

    # Does this order leave less time?
    def sooner?(rest, order, fact, timeout)
      case order
      when :signal then second?(fact) && (rest.nil? || limit(rest))
      when :stop then timeout && limit(timeout)
      end
    end

    # The first one forces no stop that something else began.
    def second?(name)
      second = @signalled
      @signalled = true
      @forced ||= "second signal (SIG#{name})" if second
      second
    end

    # It tells how it ended, also if somebody killed it, be it before its first step.
    def start(&phase)
      Thread.handle_interrupt(Object => :never) do
        Threads.start("pelton.shutdown") do
          ended = [Thread.current, Thread.handle_interrupt(Object => :immediate, &phase)]
        rescue Exception => e # rubocop:disable Lint/RescueException -- it is raised where it is waited for
          ended = [Thread.current, nil, e]
        ensure
          @inbox << (ended || [Thread.current, nil, WorkerKilled.new("the stop")])
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

    # Those who were killed settle their jobs; then what the consumers' ends need is run by others.
    def force
      @unfinished_work = unfinished + standing
      @jobs.finish
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

    # Within the time that is left beside the flush; those that need longer are told of.
    def end_backgrounds
      hearing { @scope.close([@background_timeout, [Clock.left(@ends - @flush_share), FORCE].max].min) }
      [*@listeners, @scope].each { |one| @monitor.report_leaked(one.leaked_threads) }
      @monitor.close
    end

    # By force it has its slice, else all the time that is left.
    def flush
      @undelivered = hearing { @flush.call(@forced ? @flush_share : [Clock.left(@ends), @flush_share].max) }
      return unless @undelivered.positive?

      @forced ||= "producer not flushed in time"
      @unfinished_work += ["#{@undelivered} produced messages not delivered"]
    end

    # Where the workers that are in a job are: "pelton.worker#1 is at app.rb:12:in `pop'".
    def standing
      @workers.filter_map do |worker|
        place = Threads.at(worker.thread)
        "#{worker.name} is at #{place}" if place && !place.include?("/pelton/consuming/jobs_queue.rb:")
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
