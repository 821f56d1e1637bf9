# frozen_string_literal: true

require_relative "admin"
require_relative "clock"
require_relative "config"
require_relative "failure_log"
require_relative "iterator"
require_relative "notifications"
require_relative "producer"
require_relative "producer_pool"
require_relative "routing"
require_relative "server"
require_relative "threads"

module Pelton
  # One application of Pelton in this process: its configuration, its routes, its producer, its server. The methods of
  # the module Pelton are those of a default app; a second app shares nothing with it.
  #   app = Pelton::App.new
  #   app.configure { |config| config.kafka = { "bootstrap.servers" => "localhost:9092" } }
  class App
    PROCESS = Settings::Setting.new(:process, :number, nil, "")
    private_constant :PROCESS

    #: (config: Config, notifications: Notifications)
    attr_reader :config, :notifications

    #: (?native: Module?) -> void
    def initialize(native: nil)
      @native = native
      @config = Config.new
      @notifications = Notifications.new
      FailureLog.new(@config, @notifications)
      @routing = Routing.new
      @lock = Mutex.new
      # All made on demand, under @lock.
      @admin = nil
      @producer = nil
      @server = nil
      # Those that may be open, and (as long as somebody else has them) those that were closed but may be opened again;
      # under @lock.
      @pools = []
      # {"prices" => [restart, block]}: run with each server; under @lock.
      @backgrounds = {}
      @closed_pools = ObjectSpace::WeakMap.new
      # {"billing" => how many partitions the group was given here so far}; its listener counts.
      @generations = Hash.new(0)
    end

    # Sets settings; possible until the first client opens.
    #: () { (Config) -> void } -> self
    def configure
      yield @config
      self
    end

    # With a block: adds routes. Returns the routes.
    #: () ?{ () -> void } -> Routing
    def routes(&block)
      @routing.draw(&block) if block
      @routing
    end

    # By name with a block, or an object with methods like on_error_occurred(event): see Notifications#subscribe.
    #: (String | Symbol | Object) ?{ (Events::Event) -> void } -> Object
    def subscribe(subject, &block) = @notifications.subscribe(subject, &block)

    # The app's producer; connects when it is used. Freezes the configuration.
    #: () -> Producer
    def producer
      @producer || @lock.synchronize do
        @producer ||= Producer.new(@config.freeze, bus: @notifications, native: @native)
      end
    end

    # Asks Kafka for changes of topics, groups and more; connects when it is used. Freezes the configuration.
    #: () -> Admin
    def admin
      @admin || @lock.synchronize do
        @admin ||= Admin.new(@config.freeze, bus: @notifications, native: @native)
      end
    end

    # A new pool of producers, for transactions side by side; see ProducerPool. Keep it: it is closed with the app.
    #   POOL = Pelton.producer_pool(size: 5, kafka: { "transactional.id" => "billing" })
    #: (?size: Integer, ?timeout: Numeric, ?kafka: Hash[String, untyped])
    #:   ?{ (Integer) -> Hash[String, untyped] } -> ProducerPool
    def producer_pool(size: 5, timeout: 5, kafka: {}, &options)
      @lock.synchronize do
        pool = ProducerPool.new(@config.freeze, size: size, timeout: timeout, kafka: kafka, bus: @notifications,
                                                native: @native, &options)
        closed, @pools = @pools.partition(&:closed?)
        closed.each { |one| @closed_pools[one] = true }
        @pools << pool
        pool
      end
    end

    # Reads messages in a script: the block gets each of what is there, then this returns; with `follow: true` it goes
    # on with new ones until `break`, also with partitions that are added (it looks for them every
    # topic.metadata.refresh.interval.ms, 30 s at most). Without a block: an Enumerator.
    #   app.each("orders", from: -100) { |message| puts message.payload }        # the last 100 of each partition
    #   app.each("orders", from: Time.now - 3600, decode: :json).lazy.select { … }.first(5)
    #   app.each({ "orders" => { 0 => 42 }, "payments" => [0, 1] }, follow: true) { … }
    #   app.each("orders", group: "import") { … } # goes on where the last run ended; marks what is done
    # from: an offset, -n for the last n, a Time, :beginning (the default) or :end. decode, deserializer,
    # key_deserializer, headers_deserializer: as the words in routes, for all its topics. stop_at: a partition ends
    # before the first message for which it returns something true. reached_end: called with topic and partition
    # whenever all that was to be read of one is read (with `follow`: all that there is). In the calling thread; ends at
    # once on `break`, Interrupt and Thread#kill, and leaves nothing open. Raises ConfigError for a topic or partition
    # that does not exist, KafkaError.
    #: (*(String | Hash[String, untyped]), ?from: (Integer | Time | Symbol), ?follow: bool, ?group: String?,
    #:  ?decode: (Symbol | Hash[Symbol, untyped])?, ?deserializer: (^(Message) -> untyped | _Callable)?,
    #:  ?key_deserializer: untyped, ?headers_deserializer: (^(Message) -> untyped | _Callable)?,
    #:  ?kafka: Hash[String, untyped], ?timeout: Numeric?, ?stop_at: ^(Message) -> boolish,
    #:  ?reached_end: ^(String, Integer) -> void) ?{ (Message) -> void }
    #:  -> (Iterator | Enumerator[Message, Iterator])
    def each(*topics, **options, &block)
      named, options = options.partition { |key, _| key.is_a?(String) }.map(&:to_h) # each("orders" => -100)
      Iterator.new(@config.freeze, [*topics, named], **options, bus: @notifications, native: @native).each(&block)
    end

    # Another one, for tests (see Pelton::Testing.buffer); nil: the app makes its own again.
    #: (Producer?) -> void
    def producer=(producer)
      @lock.synchronize { @producer = producer }
    end

    # The server that runs or ran last, or nil.
    #: () -> Server?
    attr_reader :server

    # Starts consuming and returns; freezes configuration and routes. Can be repeated after a stop or a close (with
    # another `producer` and `admin` then), and in a forked child of a process that runs it. Raises ConfigError. If
    # nobody stops it, the end of the process does (exit! does not).
    # process: where several processes run the same program, this one's number, from 0. Then a group.instance.id has it
    # at its end ("shop" is "shop-0", "shop-1" …), and it is added to config.liveness.port.
    #: (?groups: Array[String]?, ?topics: Array[String]?, ?process: Integer?) -> Server
    def start(groups: nil, topics: nil, process: nil)
      PROCESS.check(process)
      @lock.synchronize do
        if @server && !%i[stopped forced].include?(@server.status)
          raise ShutdownError, "the server is #{@server.status}: an app runs one at a time"
        end

        @server&.liveness&.close # where this is a forked child, its parent's
        chosen = @routing.groups(@config, groups: groups, topics: topics)
        @routing.freeze
        @config.freeze
        forget_closed
        @server = Server.new(@config, chosen, bus: @notifications, native: @native, process: process,
                                              backgrounds: @backgrounds.dup, producer: method(:producer),
                                              flush: method(:flush), generations: @generations)
      end
      @server.start
    end

    # Stops consuming and waits: true when all was finished, false when it ended by force. From any thread; see
    # Server#stop.
    #: (?timeout: Numeric?) -> bool?
    def stop(timeout: nil) = @server ? @server.stop(timeout: timeout) : true

    # Begins no new job, finishes what runs, keeps the partitions, until `resume` or `stop`. Returns at once; from any
    # thread or trap. Before a deploy, for instance: `app.server.status` says :quieting, then :quiet.
    #: () -> void
    def quiet = @server&.quiet

    #: () -> void
    def resume = @server&.resume

    # The partitions that this process consumes now: {"orders" => [0, 3]}. group: for one group alone. From any thread.
    #: (?String?) -> Hash[String, Array[Integer]]
    def assignments(group = nil) = @server ? @server.assignments(group) : {}

    # The generation of each of them: {"orders" => {0 => 1, 3 => 7}}. The partitions that a group is given here
    # are numbered, so one that left and came back has a higher number than before, and whoever keeps something for it
    # sees whether that is of this time; also after a stop and start. Name the group where several read a topic. From
    # any thread.
    #: (?String?) -> Hash[String, Hash[Integer, Integer]]
    def generations(group = nil) = @server ? @server.generations(group) : {}

    # A thread that there is once, beside all consumers: it runs as long as the app's server does, and again with the
    # next start. At a stop it is asked to end when the consumers have ended, before the producer is flushed. See
    # Consumer#background for the rest.
    #   Pelton.background("prices", restart: true) { |stop| PRICES.refresh until stop.wait(60) }
    # Also while the server runs. Raises ConfigError where there is one of this name.
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> void
    def background(name, restart: false, &block)
      Background.check(name, block)
      @lock.synchronize do
        raise ConfigError.new("background", name, "there is one of this name") if @backgrounds.key?(name)

        @backgrounds[name] = [restart, block]
        unless [nil, :stopping, :stopped, :forced].include?(@server&.status)
          @server.background(name, restart: restart, &block)
        end
      end
    rescue ClosedError
      nil # the server stops just now: with the next start
    end

    # What this process holds, as plain values: Ruby threads by kind (others' are "other"), native threads by name and
    # open descriptors (nil where there is no /proc); of this app the living consumers (instances, so as many as a
    # topic's `concurrency`) and their threads, the messages that are not done (as far as the last fetch told, and as
    # Kafka counts: with markers of transactions), the offsets at which partitions gave up (`then: :stop`), the jobs
    # (calls of consume and of hooks; `aside` those that wait for Kafka to take a dead letter, say), and the threads
    # that live longer than their consumer. Costs a look into /proc. From any thread.
    #   { threads: { "pelton.worker" => 5, "other" => 1 }, native_threads: { "rdk:broker" => 3 }, descriptors: 40,
    #     consumers: { "billing" => { "orders" => { 0 => 1 } } }, leaked: 0,
    #     jobs: { running: 2, waiting: 7, aside: 0 },
    #     consumer_threads: { "billing" => { "orders" => { 0 => 2 } } },
    #     lags: { "billing" => { "orders" => { 0 => 12 } } }, stopped: { "billing" => { "orders" => { 1 => 41 } } } }
    #: () -> Hash[Symbol, untyped]
    def stats
      none = { consumers: {}, consumer_threads: {}, lags: {}, stopped: {}, leaked: 0,
               jobs: { running: 0, waiting: 0, aside: 0 } }
      [nil, :stopped].include?(@server&.status) ? { **ResourceMonitor.measure, **none } : @server.stats
    end

    # Stops, and closes the producers. Returns how many messages could not be delivered. In a trap it waits for 10 s at
    # most, then it goes on without it (0).
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: nil)
      Clock.check(timeout)
      Threads.outside_trap("pelton.close", timeout: timeout) { shut(timeout) } || 0
    end

    def inspect = "#<#{self.class} #{@config.client_id}#{" server #{@server.status}" if @server}>"

    private

    def shut(timeout)
      stop(timeout: timeout)
      deadline = Clock.deadline(timeout || @config.flush_timeout)
      @admin&.close(timeout: Clock.left(deadline))
      [*pools, *@producer].sum { |one| one.close(timeout: Clock.left(deadline)) }
    end

    # The new server's consumers, and their dead letters, could do nothing with those of the time before.
    def forget_closed
      @producer = nil if @producer&.closed?
      @admin = nil if @admin&.closed?
    end

    # Those that may have producers.
    def pools = @lock.synchronize { @pools + @closed_pools.keys.reject(&:closed?) }

    # Returns how many messages are left.
    def flush(seconds)
      deadline = Clock.deadline(seconds)
      [*@producer, *pools].sum do |one|
        one.flush(timeout: Clock.left(deadline)) ? 0 : one.pending
      rescue ClosedError
        0 # by somebody who was told then what it could not deliver
      end
    end
  end
end
