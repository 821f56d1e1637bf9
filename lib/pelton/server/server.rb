# frozen_string_literal: true

require_relative "../background/scope"
require_relative "clients"
require_relative "exit_stop"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "health"
require_relative "lifecycle"
require_relative "listeners"
require_relative "../decoding/parallel/engines"
require_relative "../runtime/threads"
require_relative "../consuming/jobs_queue"
require_relative "../consuming/listener"
require_relative "../consuming/workers"
require_relative "restarts"
require_relative "shutdown"
require_relative "side_services"
require_relative "state_report"
require_relative "../runtime/memory_watch"
require_relative "../runtime/resource_monitor"

module Pelton
  # Runs the consumers of an app: one listener per group (see Listeners), the workers, and one thread, "pelton.server",
  # that carries out stop, quiet and resume (see Lifecycle). App#start makes a new server for each start. Shutdown
  # describes its end. In a forked child, the parent's server counts as stopped.
  #   Pelton.server.status # => :running
  class Server
    # The health endpoint; nil without config.liveness.port.
    #   Pelton.server.liveness.port # => 9292
    #: () -> Liveness?
    def liveness = @services.liveness

    # backgrounds: {"prices" => [restart, block]}, the app's. producer: returns the app's producer. flush: flushes the
    # app's producers within the given seconds, and returns the number of messages that are left. process: see
    # App#start. generations: see Listener. missing_topics: creates topics; nil: the start creates none. recurring:
    # messages of the routes. sent: counts the messages that the app's producers accepted. middleware: of the consumers'
    # own producers.
    #: (Config, Array[Routing::Group], bus: Notifications, ?backgrounds: Hash[String, [bool, Proc]],
    #:  ?producer: ^() -> Producer?, ?flush: ^(Float) -> Integer, ?native: Module?, ?process: Integer?,
    #:  ?generations: Hash[String, Integer], ?missing_topics: MissingTopics?, ?recurring: Array[untyped],
    #:  ?sent: ^() -> Integer, ?middleware: Producer::Middleware) -> void
    def initialize(config, groups, bus:, backgrounds: {}, producer: nil, flush: ->(_seconds) { 0 }, native: nil,
                   process: nil, generations: Hash.new(0), missing_topics: nil, recurring: [], sent: -> { 0 },
                   middleware: Producer::Middleware.new)
      @config = config
      @process = process
      @groups = groups
      @bus = bus
      @native = native
      @flush = flush
      @backgrounds = backgrounds
      @missing_topics = missing_topics
      @jobs = Consuming::JobsQueue.new
      @engines = Parallel::Engines.new(config, bus)
      @monitor = ResourceMonitor.new(bus, config.stats_interval, memory: MemoryWatch.new(config, bus, native)) { stats }
      @scope = Background::Scope.new(nil, {}, bus: bus, timeout: config.background_timeout)
      @workers = Consuming::Workers.new(@jobs, bus, priority: config.worker_priority)
      clients = Clients.new(config, bus: bus, native: native, process: process, middleware: middleware)
      @listeners = Listeners.new(config, clients: clients, engines: @engines, bus: bus, jobs: @jobs, monitor: @monitor,
                                         producer: producer, generations: generations, on_failure: method(:failed))
      @restarts = Restarts.new(config, @listeners, bus: bus)
      @lifecycle = Lifecycle.new(jobs: @jobs, restarts: @restarts, bus: bus, on_end: method(:ended),
                                 &method(:new_shutdown))
      @services = SideServices.new(config, self, scope: @scope, bus: bus, native: native, process: process,
                                                 recurring: recurring) do
        Reports::ProcessState.new(config, self, @listeners, @jobs, bus: bus, sent: sent, process: process)
      end
      # The thread in `start`; nil after it.
      @starter = nil
      @pid = Process.pid
    end

    # :created, :starting, :running, :quieting (jobs still run), :quiet, :stopping, :stopped or :forced
    #   Pelton.server.status # => :running
    #: () -> Symbol
    def status = @pid == Process.pid ? @lifecycle.status : :stopped

    # What a shutdown did not finish, one String each; empty before the end. Jobs of a forced end, and finished messages
    # that will be processed again: "orders/3: 12 finished messages behind offset 41 will be repeated".
    #   Pelton.server.unfinished_work # => []
    #: () -> Array[String]
    def unfinished_work = @lifecycle.unfinished_work

    # For Pelton: the error that stopped the server; nil: there was none.
    #: () -> Exception?
    def failure = @lifecycle.failure

    # For Pelton: starts all threads and returns; App#start calls it. A stop that arrives during the start takes effect.
    # Raises ConfigError if a subscription cannot be opened, after which nothing keeps running; ShutdownError at a
    # second call.
    #: () -> self
    def start
      raise ShutdownError, "a server starts once, this one is #{status}" unless status == :created

      event = { groups: @groups.map(&:name), concurrency: @config.concurrency }
      boot(event)
      @bus.publish("app.running", **event)
      self
    end

    # Stops and waits for the end. Returns true if everything was finished, false if it ended by force (see
    # `unfinished_work`). timeout: seconds; default: config.shutdown_timeout. Of several stops, the earliest deadline
    # counts. From any thread, any number of times. In a consumer, a background thread, an event subscriber or a trap it
    # only asks the server to stop and returns nil, because the end waits for them.
    #   Pelton.server.stop(timeout: 20) # => true
    #: (?timeout: Numeric?, ?reason: String) -> bool?
    def stop(timeout: nil, reason: "stop")
      Clock.check(timeout)
      return true if %i[created stopped].include?(status)

      @lifecycle.inbox << [:stop, reason, timeout]
      return if own_thread? || Threads.trap?

      wait
    end

    # The number of worker threads. From any thread.
    #   Pelton.server.concurrency # => 5
    #: () -> Integer
    def concurrency = @workers.size

    # Changes it while the server runs: new workers start at once, surplus ones end when their job is done. From any
    # thread. Raises ConfigError, and ShutdownError if the server does not run.
    #   Pelton.server.concurrency = 20
    #: (Integer) -> void
    def concurrency=(count)
      Settings::APP.fetch(:concurrency).check(count)
      raise ShutdownError, "the server is #{status}" unless running?

      @bus.publish("workers.scaled", from: @workers.scale(count), to: count)
    end

    # Starts no new job; running jobs finish, the partitions stay, and rebalances go on. Returns at once; `status` is
    # :quieting, then :quiet. From any thread or trap.
    #   Pelton.server.quiet
    #: (?reason: String) -> void
    def quiet(reason: "quiet") = @lifecycle.inbox << [:quiet, reason]

    # See App#resume.
    #: () -> void
    def resume = @lifecycle.inbox << [:resume]

    # Does what a signal does, without waiting: TSTP quiet, CONT resume, any other one stops; a second one forces the
    # end. From any thread or trap.
    #   trap("USR1") { Pelton.server.signal("TERM") }
    #: (String) -> void
    def signal(name)
      case name
      when "TSTP" then quiet(reason: "SIGTSTP")
      when "CONT" then resume
      else @lifecycle.inbox << [:signal, name]
      end
    end

    # Waits until the server has stopped: true if everything was finished, false after a forced end, nil after the
    # timeout in seconds.
    #   Pelton.start.wait
    #: (?Numeric?) -> bool?
    def wait(timeout = nil)
      return unless @lifecycle.thread&.join(*Clock.check(timeout))

      status == :stopped
    end

    # true: it was started and no stop has begun; also while it is quiet. From any thread.
    #   Pelton.server.running? # => true
    #: () -> bool
    def running? = %i[running quieting quiet].include?(status)

    # Problems that only a restart of the process would solve, one String each; Health finds them, and the health
    # endpoint uses them. From any thread, at once.
    #   Pelton.server.health_problems # => []
    #: () -> Array[String]
    def health_problems
      return [] unless @pid == Process.pid
      return Health.new(@config.liveness, @listeners).health_problems if running?

      failure && !@lifecycle.thread.alive? ? ["#{failure.class} stopped the server: #{failure.message}"] : []
    end

    # true: there are no health_problems. Returns at once; from any thread.
    #   get("/health") { Pelton.server.healthy? ? 200 : 500 }
    #: () -> bool
    def healthy? = health_problems.empty?

    # The partitions that this process has now, of all groups or of one. From any thread.
    #   Pelton.server.assignments("billing") # => { "orders" => [0, 3] }
    #: (?String?) -> Hash[String, Array[Integer]]
    def assignments(group = nil) = status == :stopped ? {} : @listeners.assignments(group)

    # See App#generations.
    #: (?String?) -> Hash[String, Hash[Integer, Integer]]
    def generations(group = nil) = status == :stopped ? {} : @listeners.generations(group)

    # For Pelton: the route of a topic that this group reads; nil: this server does not run the group.
    #: (String, String) -> Routing::Topic?
    def route(group, topic) = @listeners.route(group, topic)

    # See App#stats. From any thread.
    #: () -> Hash[Symbol, untyped]
    def stats
      memory = MemoryBudget.stats(@config, Native.for(@native))
      { **memory, **@listeners.stats, jobs: @jobs.counts, leaked: @monitor.leaked, process: @process }
    end

    # What each partition does or waits for, and where every thread is, as text. `pelton server` prints it at TTIN.
    #   puts Pelton.server.report
    # Looks at all threads, so it is for people, not for monitoring. From any thread.
    #: () -> String
    def report = StateReport.text(self, @listeners, @jobs.counts)

    # For Pelton: starts a thread that ends after the consumers at a stop: see App#background.
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> Background
    def background(name, restart: false, &block) = @scope.start(name, restart: restart, &block)

    def inspect = "#<#{self.class} #{status}, groups #{@groups.map(&:name).join(", ")}, #{concurrency} workers>"

    private

    # Starts everything. If it raises, or the thread that runs it is killed, nothing keeps running.
    def boot(event)
      @starter = Thread.current
      @lifecycle.start
      @bus.publish("app.starting", **event)
      report_unused_methods
      @missing_topics&.create
      @listeners.open(@groups)
      @workers.scale(@config.concurrency)
      @services.open(@backgrounds)
      @listeners.each(&:start)
      @lifecycle.running
      @services.start(@groups)
      ExitStop.add(self)
      booted = true
      @lifecycle.started
    ensure
      cancel unless booted
      @starter = nil
    end

    def report_unused_methods
      @groups.flat_map { |group| group.topics.each_value.map(&:consumer_class) }.uniq.each do |consumer|
        Routing::ConsumerMethods.unused(consumer).each do |method, reason|
          @bus.publish("consumer.method_unused", consumer: consumer, method: method, reason: reason)
        end
      end
    end

    # Undoes a start that failed.
    def cancel
      @lifecycle.cancel
      @listeners.cancel
      @jobs.close
      @scope.close(Shutdown::FORCE)
      @services.close(Shutdown::FORCE)
      @engines.close(timeout: Shutdown::FORCE)
      Threads.join(threads, Shutdown::FORCE + Consuming::Listener::CLOSE_AT_LEAST)
      ExitStop.remove(self)
    end

    # Called by a listener or a worker after an error that this listener, or the server, cannot survive.
    def failed(error, listener = nil)
      @lifecycle.stop_for(error) unless listener && @restarts.take(listener, error)
    end

    def new_shutdown(timeout, signalled)
      Shutdown.new(@config, timeout, signalled: signalled, listeners: @listeners, workers: @workers, jobs: @jobs,
                                     bus: @bus, scope: @scope, monitor: @monitor, flush: @flush,
                                     inbox: @lifecycle.inbox, engines: @engines)
    end

    # On the server's thread, after the shutdown.
    def ended
      @services.close(Shutdown::FORCE)
    ensure
      ExitStop.remove(self)
    end

    def threads = [*@lifecycle.thread, *@listeners.threads, *@workers.filter_map(&:thread)]

    def own_thread? = [*threads, @starter].include?(Thread.current) || Background.here?
  end
end
