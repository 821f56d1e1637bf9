# frozen_string_literal: true

require_relative "pelton/version"
require_relative "pelton/app"
require_relative "pelton/runtime/native"

# Kafka for Ruby at native speed. These are the methods of the default app; Pelton::App says more about each, and what
# they raise. Any thread may call them.
#   Pelton.configure { |config| config.kafka = { "bootstrap.servers" => "localhost:9092" } }
#   Pelton.producer.produce_sync(topic: "orders", payload: "…")
module Pelton
  # What few processes use comes with its first use.
  autoload :DeadLetters, File.expand_path("pelton/dead_letters", __dir__)
  autoload :EmbeddedCluster, File.expand_path("pelton/embedded_cluster", __dir__)
  autoload :MskIam, File.expand_path("pelton/msk_iam", __dir__)
  autoload :RactorPool, File.expand_path("pelton/ractor_pool", __dir__)
  autoload :Registry, File.expand_path("pelton/registry", __dir__)
  autoload :Subscription, File.expand_path("pelton/subscription", __dir__)
  # Loaded by those who use them; they need Active Record.
  autoload :Inbox, File.expand_path("pelton/inbox", __dir__)
  autoload :Outbox, File.expand_path("pelton/outbox", __dir__)
  # The dashboard, for `mount Pelton::Web`.
  autoload :Web, File.join(__dir__, "pelton/web")

  @app = App.new

  class << self
    # The default app. A test may set a new one.
    #   Pelton.app = Pelton::App.new
    #: () -> App
    attr_accessor :app

    # The version of librdkafka that does the work. The build chooses it with PELTON_LIBRDKAFKA.
    #   Pelton.librdkafka_version # => "2.12.1"
    #: () -> String
    def librdkafka_version = Native.librdkafka_version

    # What this librdkafka can do, in its own words ("builtin.features"). The build may add "sasl_gssapi" and "oidc".
    #   Pelton.librdkafka_features.include?("oidc") # => false
    #: () -> Array[String]
    def librdkafka_features = Native.librdkafka_features

    # Sets settings of the default app; see App#configure.
    #   Pelton.configure { |config| config.group_id = "billing" }
    #: () { (Config) -> void } -> App
    def configure(&block) = app.configure(&block)

    # The settings of the default app.
    #   Pelton.config.concurrency # => 5
    #: () -> Config
    def config = app.config

    # Adds routes, and returns all; see App#routes.
    #   Pelton.routes { topic "orders", to: OrdersConsumer }
    #: () ?{ () -> void } -> Routing
    def routes(&block) = app.routes(&block)

    # Declares topics, and returns all; see App#topics and Topics.
    #   Pelton.topics { topic "orders", partitions: 12, replication: 3 }
    #: () ?{ () -> void } -> Topics
    def topics(&block) = app.topics(&block)

    # The producer; see App#producer.
    #   Pelton.producer.produce_sync(topic: "orders", payload: "…")
    #: () -> Producer
    def producer = app.producer

    # The middleware of all producers; see App#middleware.
    #   Pelton.middleware.append(->(message) { message.merge(headers: { "tenant" => Tenant.id }) })
    #: () -> Producer::Middleware
    def middleware = app.middleware

    # The admin client; see App#admin.
    #   Pelton.admin.create_topic("orders", partitions: 4)
    #: () -> Admin
    def admin = app.admin

    # Subscribes to an event, to those that a Regexp matches, or to :all; see App#subscribe.
    #   Pelton.subscribe("error.occurred") { |event| warn event[:error].message }
    #: (String | Symbol | Regexp | Object) ?{ (Events::Event) -> void } -> Object
    def subscribe(subject, &block) = app.subscribe(subject, &block)

    # Removes a subscriber; see App#unsubscribe.
    #   Pelton.unsubscribe(metrics)
    #: (Object) -> void
    def unsubscribe(listener) = app.unsubscribe(listener)

    # Adds an event of your own; see App#define_event.
    #   Pelton.define_event("orders.paid", order: "the order's id")
    #: (String, **String) -> Events::Kind
    def define_event(name, **values) = app.define_event(name, **values)

    # Publishes an event of your own; see App#publish.
    #   Pelton.publish("orders.paid", order: 7)
    #: (String, **untyped) -> void
    def publish(name, **payload) = app.publish(name, **payload)

    # Starts to consume; see App#start. Raises ConfigError and ShutdownError.
    #   Pelton.start
    #: (?groups: Array[String]?, ?topics: Array[String]?, ?process: Integer?) -> Server
    def start(groups: nil, topics: nil, process: nil) = app.start(groups: groups, topics: topics, process: process)

    # The running server, or the last one; nil before the first start.
    #   Pelton.server.status # => :running
    #: () -> Server?
    def server = app.server

    # Stops consuming and waits; true if everything was finished. See App#stop.
    #   Pelton.stop(timeout: 20) # => true
    #: (?timeout: Numeric?) -> bool?
    def stop(timeout: nil) = app.stop(timeout: timeout)

    # Starts no new job until `resume`; see App#quiet. From any thread or trap.
    #   Pelton.quiet
    #: () -> void
    def quiet = app.quiet

    # Ends quiet. From any thread or trap.
    #   Pelton.resume
    #: () -> void
    def resume = app.resume

    # Declares a thread of the app; see App#background.
    #   Pelton.background("prices") { |stop| PRICES.refresh until stop.wait(60) }
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> void
    def background(name, restart: false, &block) = app.background(name, restart: restart, &block)

    # Numbers of the process: lags, jobs, threads and more; see App#stats.
    #   Pelton.stats[:lags] # => { "billing" => { "orders" => { 0 => 12 } } }
    #: () -> Hash[Symbol, untyped]
    def stats = app.stats

    # The partitions that this process has now; see App#assignments.
    #   Pelton.assignments # => { "orders" => [0, 3] }
    #: (?String?) -> Hash[String, Array[Integer]]
    def assignments(group = nil) = app.assignments(group)

    # The generations of these partitions; see App#generations.
    #   Pelton.generations # => { "orders" => { 0 => 1, 3 => 7 } }
    #: (?String?) -> Hash[String, Hash[Integer, Integer]]
    def generations(group = nil) = app.generations(group)

    # Stops, closes all clients, and returns the number of undelivered messages; see App#close.
    #   Pelton.close # => 0
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: nil) = app.close(timeout: timeout)

    # Closes all clients, and lets settings and routes be changed again; see App#reset!.
    #   Pelton.reset!
    #: (?routes: bool, ?timeout: Numeric?) -> App
    def reset!(routes: false, timeout: nil) = app.reset!(routes: routes, timeout: timeout)

    # Reads messages in a script, without a server; see App#each.
    #   Pelton.each("orders", from: -100) { |message| puts message.raw_payload }
    #: (*(String | Hash[String, untyped]), **untyped) ?{ (Message) -> void }
    #:  -> (Iterator | Enumerator[Message, Iterator])
    def each(...) = app.each(...)

    # The letters of a dead-letter topic; see App#dead_letters.
    #   Pelton.dead_letters("orders.dead").list(limit: 10)
    #: (String, **untyped) -> DeadLetters
    def dead_letters(topic, **options) = app.dead_letters(topic, **options)

    # The messages of produce_later that wait for their time; see Schedule.
    #   Pelton.schedule.cancel("reminder-7") # => true
    #: () -> Schedule
    def schedule = app.schedule

    # Makes a pool of producers; see App#producer_pool.
    #   POOL = Pelton.producer_pool(size: 5, kafka: { "transactional.id" => "billing" })
    #: (?size: Integer, ?timeout: Numeric, ?kafka: Hash[String, untyped])
    #:   ?{ (Integer) -> Hash[String, untyped] } -> ProducerPool
    def producer_pool(size: 5, timeout: 5, kafka: {}, &options)
      app.producer_pool(size: size, timeout: timeout, kafka: kafka, &options)
    end
  end
end

require_relative "pelton/railtie" if defined?(Rails::Railtie)
