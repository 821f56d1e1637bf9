# frozen_string_literal: true

require_relative "background/scope"
require_relative "clients"
require_relative "clock"
require_relative "errors"
require_relative "health"
require_relative "liveness"
require_relative "missing_topics"
require_relative "parallel/engines"
require_relative "threads"
require_relative "processing/jobs_queue"
require_relative "processing/listener"
require_relative "processing/workers"
require_relative "restarts"
require_relative "shutdown"
require_relative "stranded_retries"
require_relative "resource_monitor"

module Pelton
  # Runs the consumers of an app: a listener per group, the workers, and one thread "pelton.server" that waits for
  # orders: stop, quiet, resume. It starts once; an app makes a new one for the next start. How it ends: see Shutdown.
  # In a forked child the parent's server counts as stopped.
  class Server
    # Those that run in this process: {server => true}; they are stopped when it exits. Guarded by LOCK.
    RUNNING = {}.compare_by_identity
    LOCK = Mutex.new
    private_constant :RUNNING, :LOCK

    # What was left undone: why it ended by force, e.g. ["orders/0: consume runs for 61.2 s, …"], and finished messages
    # that come again: ["orders/3: 12 finished messages behind offset 41 will be repeated"]
    #: () -> Array[String]
    attr_reader :unfinished_work
    # The error that made the server stop by itself, or nil.
    #: () -> Exception?
    attr_reader :failure
    # The endpoint that config.liveness.port asks for, from the start on; or nil.
    #: () -> Liveness?
    attr_reader :liveness

    # backgrounds: the app's, by name: [restart, block]. process: see App#start.
    # generations: see Listener.
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
      # Flushes what the app produced within so many seconds; returns what is left.
      @flush = flush
      @native = native
      @jobs = Processing::JobsQueue.new
      @engines = Parallel::Engines.new(config, bus)
      @monitor = ResourceMonitor.new(bus, config.stats_interval) { stats }
      @backgrounds = backgrounds
      @scope = Background::Scope.new(nil, {}, bus: bus, timeout: config.background_timeout)
      @listeners = []
      @restarts = Restarts.new(config, @listeners, bus: bus) { |failed| listener(failed.group, failed.looks) }
      @workers = Processing::Workers.new(@jobs, bus, priority: config.worker_priority)
      # Orders to the server's thread: [:stop, reason, timeout], [:signal, "TERM"], [:quiet, reason], [:resume],
      # [:idle], [:drained, true or why not]. A push is all that a trap has to do.
      @inbox = Thread::Queue.new
      # Told by `start` whether there is something to wait for orders for.
      @boot = Thread::Queue.new
      @thread = nil
      # Who runs `start`, as long as it does.
      @starter = nil
      @status = :created
      @unfinished_work = []
      @failure = nil
      @pid = Process.pid
    end

    # :created, :starting, :running, :quieting (jobs still run), :quiet, :stopping, :stopped or :forced
    #: () -> Symbol
    def status = @pid == Process.pid ? @status : :stopped

    # Starts all threads and returns. Raises what opening a subscription raises (ConfigError); then nothing is left
    # over. A stop that comes meanwhile is obeyed.
    #: () -> self
    def start
      raise ShutdownError, "a server starts once, this one is #{status}" unless status == :created

      facts = { groups: @groups.map(&:name), concurrency: @config.concurrency }
      boot(facts)
      @bus.publish("app.running", **facts)
      self
    end

    # Stops and waits for the end. true: everything was finished; false: by force, see `unfinished_work`. From any
    # thread, as often as one likes; from a consumer, a background thread, a listener of events or a trap it
    # only asks to stop (nil), for the end waits for them. Of several `timeout`s the one that ends first counts.
    #: (?timeout: Numeric?, ?reason: String) -> bool?
    def stop(timeout: nil, reason: "stop")
      Clock.check(timeout)
      return true if %i[created stopped].include?(status)

      @inbox << [:stop, reason, timeout]
      return if own_thread? || Threads.trap?

      wait
    end

    # How many worker threads there are to be.
    #: () -> Integer
    def concurrency = @workers.size

    # Changes that number while the server runs: more begin at once, fewer end as soon as they have no job. From any
    # thread, also from a consumer; raises ConfigError, and ShutdownError when it does not run.
    #   Pelton.app.server.concurrency = 20
    #: (Integer) -> void
    def concurrency=(count)
      Settings::APP.fetch(:concurrency).check(count)
      raise ShutdownError, "the server is #{status}" unless running?

      @bus.publish("workers.scaled", from: @workers.scale(count), to: count)
    end

    # No new job is begun; those that run are finished, partitions stay ours and are polled, rebalances go on. Returns
    # at once: `status` is :quieting, then :quiet. From any thread or trap.
    #: (?reason: String) -> void
    def quiet(reason: "quiet") = @inbox << [:quiet, reason]

    # The end of quiet. From any thread or trap; returns at once.
    #: () -> void
    def resume = @inbox << [:resume]

    # For traps and threads that must not wait. TSTP: quiet, CONT: resume; any other stops, a second one by force.
    #: (String) -> void
    def signal(name)
      case name
      when "TSTP" then quiet(reason: "SIGTSTP")
      when "CONT" then resume
      else @inbox << [:signal, name]
      end
    end

    # Waits until the server has stopped, whoever stops it. nil: not within `timeout` seconds.
    #: (?Numeric?) -> bool?
    def wait(timeout = nil)
      return unless @thread&.join(*Clock.check(timeout))

      status == :stopped
    end

    # Also while it is quiet.
    #: () -> bool
    def running? = %i[running quieting quiet].include?(status)

    # What only a restart of the process would mend, a String each: a group whose listener hangs, a call of a consumer's
    # that takes longer than config.liveness.max_consume_time, a partition that gave up after a failure (`then: :stop`;
    # a seek lets it go on, too), a failure that ended the server. Rebalances, long jobs, quiet, a
    # stop that waits for jobs, topics that are not there and brokers that are away are no such thing. From any thread;
    # waits for nothing. Also at config.liveness.port.
    #: () -> Array[String]
    def health_problems
      return [] unless @pid == Process.pid
      return Health.new(@config.liveness, @listeners).health_problems if running?

      @failure && !@thread.alive? ? ["the server was ended by #{@failure.class}: #{@failure.message}"] : []
    end

    #   get("/health") { Pelton.server.healthy? ? 200 : 500 }
    #: () -> bool
    def healthy? = health_problems.empty?

    # The partitions of this process, by topic: {"orders" => [0, 3]}. group: of this group alone. From any thread.
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

    # What the process holds: see App#stats.
    #: () -> Hash[Symbol, untyped]
    def stats
      threads = ->(one) { one.slots.sum { |slot| slot.scope.size } }
      born = ->(one) { one.slots.count(&:alive?) }
      { **ResourceMonitor.measure, consumers: per_partition(&born), consumer_threads: per_partition(&threads),
                                   lags: @listeners.to_h { |one| [one.group.name, one.lags] }, jobs: @jobs.counts,
                                   stopped: @listeners.to_h { |one| [one.group.name, one.stopped] },
                                   leaked: @monitor.leaked }
    end

    # See App#background; ends when the consumers have.
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> Background
    def background(name, restart: false, &block) = @scope.start(name, restart: restart, &block)

    def inspect = "#<#{self.class} #{status} #{@groups.map(&:name).join(", ")}>"

    # Whoever forgets to stop a server still commits, leaves the groups and flushes at the end of the process, within
    # shutdown_timeout; exit! does nothing of it.
    #: (Server) -> void
    def self.stop_at_exit(server)
      LOCK.synchronize do
        RUNNING[server] = true
        @at_exit ||= at_exit { LOCK.synchronize { RUNNING.keys }.each { |one| one.stop(reason: "exit") } }
      end
    end

    #: (Server) -> void
    def self.ended(server) = LOCK.synchronize { RUNNING.delete(server) }

    private

    # The listeners with partitions, of one group or all.
    def assigned(group)
      status == :stopped ? [] : @listeners.select { |one| group.nil? || one.group.name == group }
    end

    # {group => {topic => {partition => the sum of what the block says of its coordinators}}}: there are two where one
    # waits for the other's end.
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
      # The new thread begins with what we defer: one killed before its first step still stops what was started.
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

    # It could not start.
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
      Threads.join(threads, Shutdown::FORCE + Processing::Listener::CLOSE_AT_LEAST)
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
      Processing::Listener.new(group, @config, subscription: subscription, jobs: @jobs, bus: @bus, monitor: @monitor,
                                               looks: looks, ahead: @engines.ahead(group, deserializers),
                                               producer: @producer, generations: @generations,
                                               open_producer: @clients.producers(group), on_failure: method(:failed))
    end

    # From a listener or a worker: something after which we, or this listener, cannot go on.
    def failed(error, listener = nil)
      return if listener && @restarts.take(listener, error)

      @failure ||= error
      @inbox << [:stop, "#{error.class}: #{error.message}", nil]
    end

    # --- the server's thread ---------------------------------------------------------------------------------------

    # A kill takes effect where all is ready for it: never before the `ensure` that stops the others is there.
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

    # Somebody killed this thread, or a subscriber's error ends it: nobody could stop the others any more. The last that
    # it does.
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

    # Goes on with the same one where a subscriber ended this thread in the midst of it.
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
