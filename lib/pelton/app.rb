# frozen_string_literal: true

require_relative "app/events"
require_relative "app/reset"
require_relative "app/server"
require_relative "app/stored_messages"
require_relative "runtime/clock"
require_relative "runtime/library_code"
require_relative "config"
require_relative "logging/failure_log"
require_relative "runtime/notifications"
require_relative "producer"
require_relative "producer/open_pools"
require_relative "routing/routing"
require_relative "runtime/threads"

module Pelton
  # Half of Pelton, which a process that only produces never loads.
  autoload :Admin, File.expand_path("admin", __dir__)
  autoload :Background, File.expand_path("background", __dir__)
  autoload :Iterator, File.expand_path("iterator", __dir__)
  autoload :Liveness, File.expand_path("server/liveness", __dir__)
  autoload :MissingTopics, File.expand_path("server/missing_topics", __dir__)
  autoload :ProducerPool, File.expand_path("producer_pool", __dir__)
  autoload :Server, File.expand_path("server/server", __dir__)

  # One application of Pelton in this process: configuration, routes, producer and server. The module Pelton has the
  # same methods for a default app. Several apps in one process share nothing but the native event thread. Any thread
  # may call its methods, unless it says otherwise.
  #   app = Pelton::App.new
  #   app.configure { |config| config.kafka = { "bootstrap.servers" => "localhost:9092" } }
  class App
    #: (config: Config, notifications: Notifications)
    attr_reader :config, :notifications

    # The middleware of all producers of the app: its producer, the variants, the pools, and those of `transactional`
    # routes. Unlike `producer`, it may be called while the configuration is set.
    #   app.middleware.append(->(message) { message.merge(headers: { "tenant" => Tenant.id }) })
    #: () -> Producer::Middleware
    attr_reader :middleware

    #: (?native: Module?) -> void
    def initialize(native: nil)
      @native = native
      @config = Config.new
      @notifications = Notifications.new
      @failure_log = FailureLog.new(@config, @notifications)
      @middleware = Producer::Middleware.new
      @routing = Routing.new
      @lock = Mutex.new
      @topics = @admin = @producer = @server = nil # made at their first use, under @lock
      @pools = OpenPools.new
      # {"prices" => [restart, block]}: run with each server; under @lock.
      @backgrounds = {}
      # {"billing" => how many partitions the group got in this process so far}; its listener counts.
      @generations = Hash.new(0)
    end

    # Yields the configuration, to set it. Returns the app. After the first client opened, setting raises ConfigError.
    #   app.configure { |config| config.group_id = "billing" }
    #: () { (Config) -> void } -> self
    def configure
      yield @config
      self
    end

    # Adds the routes of the block, and returns all routes. Raises ConfigError, also after the server started.
    #   app.routes { topic "orders", to: OrdersConsumer }
    #: () ?{ () -> void } -> Routing
    def routes(&block)
      @routing.draw(&block) if block
      @routing
    end

    # Adds the topics of the block, and returns all; see Topics. Raises ConfigError, also after the server started.
    #   app.topics { topic "orders", partitions: 12, replication: 3 }
    #: () ?{ () -> void } -> Topics
    def topics(&block)
      require_relative "topics"
      topics = @lock.synchronize { @topics ||= Topics.new(@config, @routing, bus: @notifications, native: @native) }
      block ? topics.draw(&block) : topics
    end

    # The app's producer, always the same one until it is closed. It connects at its first use. Freezes the
    # configuration.
    #   app.producer.produce_sync(topic: "orders", payload: "…")
    #: () -> Producer
    def producer
      @producer || @lock.synchronize do
        @producer ||= Producer.new(frozen_config, bus: @notifications, native: @native, middleware: @middleware)
      end
    end

    # The app's admin client, for topics, groups and offsets. It connects at its first use. Freezes the configuration.
    #   app.admin.create_topic("orders", partitions: 4)
    #: () -> Admin
    def admin
      @admin || @lock.synchronize do
        @admin ||= Admin.new(frozen_config, bus: @notifications, native: @native)
      end
    end

    # Makes a pool of producers, for transactions that run at the same time; see ProducerPool. Freezes the
    # configuration. Keep it in a constant, below the settings; it is closed with the app. size: number of producers;
    # timeout: seconds that a caller waits for one. Raises ConfigError.
    #   POOL = Pelton.producer_pool(size: 5, kafka: { "transactional.id" => "billing" })
    #: (?size: Integer, ?timeout: Numeric, ?kafka: Hash[String, untyped])
    #:   ?{ (Integer) -> Hash[String, untyped] } -> ProducerPool
    def producer_pool(size: 5, timeout: 5, kafka: {}, &options)
      @pools.add(ProducerPool.new(frozen_config, size: size, timeout: timeout, kafka: kafka, bus: @notifications,
                                                 native: @native, middleware: @middleware, &options))
    end

    # Reads messages in a script, without a server. The block gets each message that is in the topics now, then `each`
    # returns. With `follow: true` it goes on with new messages until `break`, and looks for added partitions every
    # topic.metadata.refresh.interval.ms (at most 30 s). Without a block it returns an Enumerator.
    #   app.each("orders", from: -100) { |message| puts message.payload }        # the last 100 of each partition
    #   app.each("orders", from: Time.now - 3600, decode: :json).lazy.select { … }.first(5)
    #   app.each({ "orders" => { 0 => 42 }, "payments" => [0, 1] }, follow: true) { … }
    #   app.each("orders", group: "import") { … } # continues where the last run ended, and commits what is done
    #   app.each("orders", registry: "https://registry:8081") { |message| puts message.payload } # Avro
    # from: an offset, -n for the last n messages, a Time, :beginning (the default) or :end. up_to: each partition ends
    # before this offset or Time; :end: at the end that it has now. With `follow`, `each` waits for messages up to
    # there, at most until the Time. decode, deserializer, key_deserializer, headers_deserializer: as in routes, for all
    # topics. registry: a Registry or its URL; payloads are then Avro. stop_at: a partition ends before the first
    # message for which it returns true. reached_end: called with topic and partition each time a partition was read to
    # its end. timeout: seconds to wait for Kafka's answers.
    # It runs in the calling thread, ends at once on `break`, Interrupt and Thread#kill, and leaves nothing open. Raises
    # ConfigError for a topic or partition that does not exist, and KafkaError, which says why Kafka did not answer.
    #: (*(String | Hash[String, untyped]), ?from: (Integer | Time | Symbol), ?follow: bool, ?group: String?,
    #:  ?decode: (Symbol | Hash[Symbol, untyped] | Avro::Decoder)?, ?registry: (Registry | String)?,
    #:  ?deserializer: (^(Message) -> untyped | _Callable)?,
    #:  ?key_deserializer: untyped, ?headers_deserializer: (^(Message) -> untyped | _Callable)?,
    #:  ?kafka: Hash[String, untyped], ?timeout: Numeric?, ?up_to: (Integer | Time | Symbol)?, ?stop_at: ^(Message) -> boolish,
    #:  ?reached_end: ^(String, Integer) -> void) ?{ (Message) -> void }
    #:  -> (Iterator | Enumerator[Message, Iterator])
    def each(*topics, **options, &block)
      named, options = options.partition { |key, _| key.is_a?(String) }.map(&:to_h) # each("orders" => -100)
      Iterator.new(frozen_config, [*topics, named], **options, bus: @notifications, native: @native).each(&block)
    end

    # For tests (see Pelton::Testing.buffer): replaces the producer. nil: the app makes its own again.
    #: (Producer?) -> void
    def producer=(producer)
      @lock.synchronize { @producer = producer }
    end

    # Stops the server, closes producers and admin, and returns the number of messages that were not delivered. timeout:
    # seconds; default: the config's shutdown_timeout and flush_timeout. In a trap it waits at most 10 s, then returns
    # 0.
    #   app.close # => 0
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: nil)
      Clock.check(timeout)
      Threads.outside_trap("pelton.close", timeout: timeout) { shut(timeout) } || 0
    end

    def inspect
      facts = [@config.client_id, @config.kafka["bootstrap.servers"], *(@server ? "server #{@server.status}" : nil)]
      "#<#{self.class} #{facts.compact.join(", ")}>"
    end

    private

    # The settings, which nothing changes from now on.
    def frozen_config
      @config.frozen? ? @config : @config.freeze(LibraryCode.call_of_pelton(caller_locations(1)))
    end

    def shut(timeout)
      stop(timeout: timeout)
      deadline = Clock.deadline(timeout || @config.flush_timeout)
      @admin&.close(timeout: Clock.left(deadline))
      [*@pools.to_a, *@producer].sum { |client| client.close(timeout: Clock.left(deadline)) }
    end

    # Returns how many messages are left.
    def flush(seconds)
      deadline = Clock.deadline(seconds)
      [*@producer, *@pools.to_a].sum do |client|
        client.flush(timeout: Clock.left(deadline)) ? 0 : client.pending
      rescue ClosedError
        0 # its `close` returned what it could not deliver
      end
    end
  end
end
