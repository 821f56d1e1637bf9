# frozen_string_literal: true

require_relative "../background/scope"
require_relative "clients"
require_relative "../runtime/clock"
require_relative "../errors"
require_relative "health"
require_relative "../liveness"
require_relative "missing_topics"
require_relative "../decoding/parallel/engines"
require_relative "../runtime/threads"
require_relative "../consuming/jobs_queue"
require_relative "../consuming/listener"
require_relative "../consuming/workers"
require_relative "restarts"
require_relative "shutdown"
require_relative "stranded_retries"
require_relative "../runtime/resource_monitor"

module Pelton
  # Runs the consumers of an app: one listener per group, the workers, and one thread, "pelton.server", that waits for
  # the orders stop, quiet and resume. App#start makes a new one for each start. Shutdown describes its end. In a forked
  # child, the parent's server counts as stopped.
  #   Pelton.server.status # => :running
  class Server
    # {server => true}: servers that run in this process, which stop at its exit. Guarded by LOCK.
    RUNNING = {}.compare_by_identity
    LOCK = Mutex.new
    private_constant :RUNNING, :LOCK

    # What a shutdown did not finish, one String each; empty before the end. Jobs of a forced end, and finished messages
    # that will be processed again: "orders/3: 12 finished messages behind offset 41 will be repeated".
    #: () -> Array[String]
    attr_reader :unfinished_work
    # The error that stopped the server; nil: there was none.
    #: () -> Exception?
    attr_reader :failure
    # The health endpoint; nil without config.liveness.port.
    #   Pelton.server.liveness.port # => 9292
    #: () -> Liveness?
    attr_reader :liveness

    # backgrounds: {"prices" => [restart, block]}, the app's. process: see App#start. generations: see Listener.
    #: (Config, Array[Routing::Group], bus: Notifications, ?backgrounds: Hash[String, [bool, Proc]],
    #:  ?producer: ^() -> Producer?, ?flush: ^(Float) -> Integer, ?native: Module?, ?process: Integer?,
    #:  ?generations: Hash[String, Integer]) -> void
    def initialize(config, groups, bus:, backgrounds: {}, producer: nil, flush: ->(_seconds) { 0 }, native: nil,
                   process: nil, generations: Hash.new(0))
      @config = config
      @groups = groups
      @process = process
      @bus = bus
      @generations = generations
      @producer = producer
      # Flushes the app's producers within the given seconds; returns the number of messages that are left.
      @flush = flush
      @native = native
      @jobs = Consuming::JobsQueue.new
      @engines = Parallel::Engines.new(config, bus)
      @monitor = ResourceMonitor.new(bus, config.stats_interval) { stats }
      @backgrounds = backgrounds
      @scope = Background::Scope.new(nil, {}, bus: bus, timeout: config.background_timeout)
      @listeners = []
      @restarts = Restarts.new(config, @listeners, bus: bus) { |failed| listener(failed.group, failed.looks) }
      @workers = Consuming::Workers.new(@jobs, bus, priority: config.worker_priority)
      # Orders to the server's thread: [:stop, reason, timeout], [:signal, "TERM"], [:quiet, reason], [:resume],
      # [:idle], [:drained, true or why not]. A trap only pushes to it.
      @inbox = Thread::Queue.new
      # `start` pushes true when all threads run, and false when it failed.
      @boot = Thread::Queue.new
      @thread = nil
      # The thread in `start`; nil after it.
      @starter = nil
      @status = :created
      @unfinished_work = []
      @failure = nil
      @pid = Process.pid
    end

    # :created, :starting, :running, :quieting (jobs still run), :quiet, :stopping, :stopped or :forced
    #   Pelton.server.status # => :running
    #: () -> Symbol
    def status = @pid == Process.pid ? @status : :stopped

    # Starts all threads and returns; App#start calls it. A stop that arrives during the start takes effect. Raises
    # ConfigError if a subscription cannot be opened, after which nothing keeps running; ShutdownError at a second call.
    #: () -> self
    def start
      raise ShutdownError, "a server starts once, this one is #{status}" unless status == :created

      facts = { groups: @groups.map(&:name), concurrency: @config.concurrency }
      boot(facts)
      @bus.publish("app.running", **facts)
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

      @inbox << [:stop, reason, timeout]
      return if own_thread? || Threads.trap?

      wait
    end

    # The number of worker threads. From any thread.
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
    #: (?reason: String) -> void
    def quiet(reason: "quiet") = @inbox << [:quiet, reason]

    # Ends quiet. Returns at once. From any thread or trap.
    #: () -> void
    def resume = @inbox << [:resume]

    # Does what a signal does, without waiting: TSTP quiet, CONT resume, any other one stops; a second one forces the
    # end. From any thread or trap.
    #   trap("USR1") { Pelton.server.signal("TERM") }
    #: (String) -> void
    def signal(name)
      case name
      when "TSTP" then quiet(reason: "SIGTSTP")
      when "CONT" then resume
      else @inbox << [:signal, name]
      end
    end

    # Waits until the server has stopped: true if everything was finished, false after a forced end, nil after the
    # timeout in seconds.
    #   Pelton.start.wait
    #: (?Numeric?) -> bool?
    def wait(timeout = nil)
      return unless @thread&.join(*Clock.check(timeout))

      status == :stopped
    end

    # true: it was started and no stop has begun; also while it is quiet. From any thread.
    #: () -> bool
    def running? = %i[running quieting quiet].include?(status)

    # Problems that only a restart of the process would solve, one String each; Health finds them, and the health
    # endpoint uses them. From any thread, at once.
    #   Pelton.server.health_problems # => []
    #: () -> Array[String]
    def health_problems
      return [] unless @pid == Process.pid
      return Health.new(@config.liveness, @listeners).health_problems if running?

      @failure && !@thread.alive? ? ["the server was ended by #{@failure.class}: #{@failure.message}"] : []
    end

    # true: there are no health_problems. Returns at once; from any thread.
    #   get("/health") { Pelton.server.healthy? ? 200 : 500 }
    #: () -> bool
    def healthy? = health_problems.empty?

    # The partitions that this process has now, of all groups or of one. From any thread.
    #   Pelton.server.assignments("billing") # => { "orders" => [0, 3] }
    #: (?String?) -> Hash[String, Array[Integer]]
    def assignments(group = nil)
      places = assigned(group).flat_map(&:assignment).uniq.sort
      places.group_by(&:first).transform_values { |list| list.map(&:last) }
    end

    # See App#generations.
    #: (?String?) -> Hash[String, Hash[Integer, Integer]]
    def generations(group = nil)
      all = assigned(group).map(&:generations).inject({}) { |one, other| one.merge(other) { |_, *both| both.max } }
      all.sort.each_with_object({}) do |((topic, partition), number), found|
        (found[topic] ||= {})[partition] = number
      end
    end

    # Numbers of the process and of this server: see App#stats. From any thread.
    #: () -> Hash[Symbol, untyped]
    def stats
      threads = ->(one) { one.executors.sum { |executor| executor.scope.size } }
      alive = ->(one) { one.executors.count(&:alive?) }
      { **ResourceMonitor.measure, consumers: per_partition(&alive), consumer_threads: per_partition(&threads),
                                   lags: @listeners.to_h { |one| [one.group.name, one.lags] }, jobs: @jobs.counts,
                                   stopped: @listeners.to_h { |one| [one.group.name, one.stopped] },
                                   leaked: @monitor.leaked }
    end

    # Starts a thread that ends after the consumers at a stop: see App#background.
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> Background
    def background(name, restart: false, &block) = @scope.start(name, restart: restart, &block)

    def inspect = "#<#{self.class} #{status} #{@groups.map(&:name).join(", ")}>"

    # Stops the server at process exit, within shutdown_timeout, if it still runs then. exit! skips it.
    #: (Server) -> void
    def self.stop_at_exit(server)
      LOCK.synchronize do
        RUNNING[server] = true
        @at_exit ||= at_exit { LOCK.synchronize { RUNNING.keys }.each { |one| one.stop(reason: "exit") } }
      end
    end

    # For Pelton: the end of the process needs not stop this server any more.
    #: (Server) -> void
    def self.ended(server) = LOCK.synchronize { RUNNING.delete(server) }

    private

    # The listeners of one group or of all; none after the end.
    def assigned(group)
      status == :stopped ? [] : @listeners.select { |one| group.nil? || one.group.name == group }
    end

    # {"billing" => {"orders" => {0 => 12}}}: the sum of the block's values for the partition's coordinators. There are
    # two while one waits for the other's end.
    def per_partition(&block)
      @listeners.to_h do |listener|
        topics = listener.coordinators.group_by(&:topic_name)
        topics.transform_values! { |list| list.group_by(&:partition).transform_values { |same| same.sum(&block) } }
        [listener.group.name, topics]
      end
    end

    def boot(facts)
      @status = :starting
      @starter = Thread.current
      # The new thread inherits the deferral: if it is killed before its first step, it still stops what was started.
      Thread.handle_interrupt(Object => :never) do
        @thread = Threads.start("pelton.server", report: ->(error) { crashed(error) }) { serve }
      end
      @bus.publish("app.starting", **facts)
      open_listeners
      @workers.scale(@config.concurrency)
      @backgrounds.each { |name, (restart, block)| background(name, restart: restart, &block) }
      @liveness = Liveness.new(@config.liveness, self, @bus, @process || 0) if @config.liveness.port
      @listeners.each(&:start)
      @status = :running
      @liveness&.start
      (@retries = StrandedRetries.new(@config, bus: @bus, native: @native)).look(@groups)
      Server.stop_at_exit(self)
      @boot << (booted = true)
    ensure
      cancel unless booted # also where the thread that starts it is killed
      @starter = nil
    end

    # Undoes a start that failed.
    def cancel
      @status = :stopped
      @boot << false
      @listeners.each { |listener| listener.thread ? listener.stop(Clock.now) : listener.discard }
      @jobs.close
      @scope.close(Shutdown::FORCE)
      @liveness&.close
      @retries&.close(Shutdown::FORCE)
      @engines.close(timeout: Shutdown::FORCE)
      threads = [@thread, *@listeners.map(&:thread), *@workers.map(&:thread)].compact
      Threads.join(threads, Shutdown::FORCE + Consuming::Listener::CLOSE_AT_LEAST)
      Server.ended(self)
    end

    def open_listeners
      @clients = Clients.new(@config, bus: @bus, native: @native, process: @process)
      missing = MissingTopics.new(@config, bus: @bus, native: @native)
      @groups.each do |group|
        missing.create(group)
        @listeners << listener(group, @listeners.empty?)
      end
    end

    def listener(group, looks)
      deserializers = @engines.deserializers(group)
      subscription = @clients.subscription(group, deserializers)
      Consuming::Listener.new(group, @config, subscription: subscription, jobs: @jobs, bus: @bus, monitor: @monitor,
                                              looks: looks, ahead: @engines.ahead(group, deserializers),
                                              producer: @producer, generations: @generations,
                                              open_producer: @clients.producers(group), on_failure: method(:failed))
    end

    # Called by a listener or a worker after an error that this listener, or the server, cannot survive.
    def failed(error, listener = nil)
      return if listener && @restarts.take(listener, error)

      @failure ||= error
      @inbox << [:stop, "#{error.class}: #{error.message}", nil]
    end

    # --- the server's thread ---------------------------------------------------------------------------------------

    # Defers a kill until the `ensure` is in place that stops the other threads.
    def serve
      return unless @boot.pop

      begin
        Thread.handle_interrupt(Object => :immediate) { obey }
      rescue Exception => e # rubocop:disable Lint/RescueException -- what a subscriber raises that is no StandardError
        @failure ||= e
        raise
      ensure
        Thread.handle_interrupt(Object => :immediate) { over }
      end
    end

    def obey
      loop do
        kind, reason, timeout = @inbox.pop
        case kind
        when :quiet then hold(reason)
        when :idle then idle
        when :resume then unhold
        when :stop then return shut_down(reason, timeout)
        when :signal then return shut_down("SIG#{reason}", nil, signalled: true)
        end
      end
    end

    def over
      @retries&.close(Shutdown::FORCE)
      abandoned unless ended? || !Thread.main.alive? # then Ruby ends all threads
    ensure
      @liveness&.close
      Server.ended(self)
    end

    def ended? = %i[stopped forced].include?(@status)

    # This thread was killed, or a subscriber's error ends it. Its last act is to stop the others.
    def abandoned
      @failure ||= WorkerKilled.new("the server's orders")
      shut_down(@failure.message, nil)
    end

    def hold(reason)
      return unless @status == :running

      @status = :quieting
      @bus.publish("app.quieting", reason: reason)
      @jobs.hold { @inbox << [:idle] }
    end

    def idle
      return unless @status == :quieting

      @status = :quiet
      @bus.publish("app.quiet")
    end

    def unhold
      return unless %i[quieting quiet].include?(@status)

      @jobs.unhold
      @status = :running
      @bus.publish("app.resumed")
    end

    # Continues the same shutdown if a subscriber ended this thread in its middle.
    def shut_down(reason, timeout, signalled: false)
      @status = :stopping
      @restarts.stop
      @shutdown ||= Shutdown.new(@config, timeout, signalled: signalled, listeners: @listeners, workers: @workers,
                                                   jobs: @jobs, bus: @bus, scope: @scope, monitor: @monitor,
                                                   flush: @flush, inbox: @inbox, engines: @engines)
      graceful = @shutdown.call(reason)
      @restarts.join(Shutdown::FORCE)
      @unfinished_work = @shutdown.unfinished_work
      @status = graceful ? :stopped : :forced
      @shutdown.tell
    end

    def crashed(error)
      @failure ||= error
      @status = :forced unless ended?
      @bus.publish("error.occurred", error: error, source: "server")
    end

    def own_thread?
      threads = [@thread, @starter, *@listeners.map(&:thread), *@workers.map(&:thread)]
      threads.include?(Thread.current) || Background.here?
    end
  end
end
