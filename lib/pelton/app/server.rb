# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/memory_budget"
require_relative "../settings/settings"

module Pelton
  # What an app offers about its server, which consumes: start and stop, partitions, background threads and numbers.
  class App
    PROCESS = Settings::Setting.new(:process, :number, nil, "")
    private_constant :PROCESS

    # The running server, or the last one; nil before the first start.
    #   app.server.status # => :running
    #: () -> Server?
    attr_reader :server

    # Starts to consume, and returns the server. Freezes configuration and routes. groups, topics: only these.
    #   app.start
    # It may be called again after a stop or a close, and in a forked child of a process that runs a server. After a
    # close the app has a new `producer` and `admin`. If you never stop it, it stops at process exit (not with exit!).
    # process: number of this process, from 0, if several processes run the same app. It is appended to
    # group.instance.id ("shop-0") and added to config.liveness.port.
    # Raises ConfigError, and ShutdownError if a server runs already.
    #: (?groups: Array[String]?, ?topics: Array[String]?, ?process: Integer?) -> Server
    def start(groups: nil, topics: nil, process: nil)
      PROCESS.check(process)
      Thread.handle_interrupt(Object => :never) { Server } # loaded whole or not at all
      declared = self.topics if @config.create_topics?
      @lock.synchronize do
        if @server && !%i[stopped forced].include?(@server.status)
          raise ShutdownError, "the server is #{@server.status}: an app runs one at a time"
        end

        @server&.liveness&.close # in a forked child: the parent's
        chosen = @routing.groups(@config, groups: groups, topics: topics)
        [@routing, @topics].each(&:freeze)
        missing = declared && MissingTopics.new(declared, chosen, routed: groups || topics, bus: @notifications)
        frozen_config
        forget_closed
        @server = Server.new(@config, chosen, bus: @notifications, native: @native, process: process,
                                              backgrounds: @backgrounds.dup, producer: method(:producer),
                                              flush: method(:flush), generations: @generations,
                                              missing_topics: missing, recurring: @routing.recurring,
                                              middleware: @middleware,
                                              sent: -> { [*@producer, *@pools.to_a].sum(&:sent) })
      end
      @server.start
    end

    # Stops consuming and waits for the end. Returns true if everything was finished, false if it ended by force.
    # timeout: seconds; default: config.shutdown_timeout. See Server#stop.
    #   app.stop # => true
    #: (?timeout: Numeric?) -> bool?
    def stop(timeout: nil) = @server ? @server.stop(timeout: timeout) : true

    # Starts no new job until `resume` or `stop`; running jobs finish, and the partitions stay. Returns at once;
    # `app.server.status` is :quieting, then :quiet. From any thread or trap.
    #   app.quiet
    #: () -> void
    def quiet = @server&.quiet

    # Ends quiet. Returns at once. From any thread or trap.
    #   app.resume
    #: () -> void
    def resume = @server&.resume

    # The partitions that this process has now, of all groups or of one.
    #   app.assignments # => { "orders" => [0, 3] }
    #: (?String?) -> Hash[String, Array[Integer]]
    def assignments(group = nil) = @server ? @server.assignments(group) : {}

    # The generation of each partition: a number that a partition gets each time that it comes to this process. It grows
    # within a group. So a partition that left and came back has a higher one, also after a stop and a start, and you
    # recognize state from before. Name the group if several groups read a topic.
    #   app.generations # => { "orders" => { 0 => 1, 3 => 7 } }
    #: (?String?) -> Hash[String, Hash[Integer, Integer]]
    def generations(group = nil) = @server ? @server.generations(group) : {}

    # Declares a thread of the app. It runs while the server runs, and again after the next start. At a stop it is asked
    # to end after the consumers ended and before the producers are flushed. See Consumer#background for the block.
    #   Pelton.background("prices", restart: true) { |stop| PRICES.refresh until stop.wait(60) }
    # May be called while the server runs. Raises ConfigError if a thread with this name is declared already.
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> void
    def background(name, restart: false, &block)
      Background.check(name, block)
      @lock.synchronize do
        raise ConfigError.new("background", name, "is already declared: use another name") if @backgrounds.key?(name)

        @backgrounds[name] = [restart, block]
        unless [nil, :stopping, :stopped, :forced].include?(@server&.status)
          @server.background(name, restart: restart, &block)
        end
      end
    rescue ClosedError
      nil # the server is stopping: it runs after the next start
    end

    # For Pelton: the names that `background` was called with.
    #: () -> Array[String]
    def background_names = @lock.synchronize { @backgrounds.keys }

    # Numbers of this process and of this app's server. Reads /proc, so call it every few seconds, not per message.
    #   threads           Ruby threads by kind; "other" are those of other code
    #   native_threads    native threads by name; nil without /proc
    #   descriptors       open descriptors; nil without /proc
    #   memory            bytes: `budget` (config.memory), `resident` (the whole process), and the parts: `fetched`
    #                     (waits in librdkafka's queues, estimated), `batches` (given to consumers), `retained` (held
    #                     by message objects until Ruby collects them), `decoded`, `producers` (waits to be sent)
    #   consumers         consumer objects per partition
    #   consumer_threads  threads that consumers started, per partition
    #   lags              messages per partition that are not done, up to the end that the last fetch reported
    #                     (also of open transactions)
    #   stopped           offsets of partitions that stopped (`then: :stop`)
    #   calls             seconds of each partition's longest present call, or 0; long_calls: those that are long
    #   jobs              calls of consumers' methods; aside: those that wait for Kafka without a worker
    #   leaked            threads that still run after their consumer ended
    #   process           the number of the process with --processes, or nil
    #   { threads: { "pelton.worker" => 5, "other" => 1 }, native_threads: { "rdk:broker" => 3 }, descriptors: 40,
    #     consumers: { "billing" => { "orders" => { 0 => 1 } } }, leaked: 0, jobs: { running: 2, waiting: 7, aside: 0 },
    #     consumer_threads: { "billing" => { "orders" => { 0 => 2 } } },
    #     lags: { "billing" => { "orders" => { 0 => 12 } } }, stopped: { "billing" => { "orders" => { 1 => 41 } } } }
    #: () -> Hash[Symbol, untyped]
    def stats
      none = { consumers: {}, consumer_threads: {}, lags: {}, stopped: {}, calls: {}, long_calls: {}, leaked: 0,
               jobs: { running: 0, waiting: 0, aside: 0 }, process: nil }
      return @server.stats unless [nil, :stopped].include?(@server&.status)

      { **MemoryBudget.stats(@config, Native.for(@native)), **none }
    end

    private

    # Closed clients of the time before are of no use to the new server's consumers.
    def forget_closed
      @producer = nil if @producer&.closed?
      @admin = nil if @admin&.closed?
    end
  end
end
