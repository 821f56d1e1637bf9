# frozen_string_literal: true

require_relative "pelton/version"
require_relative "pelton/app"
require_relative "pelton/embedded_cluster"
require_relative "pelton/native"
require_relative "pelton/ractor_pool"

# Kafka for Ruby at native speed. These methods are the default app's; see Pelton::App.
#   Pelton.configure { |config| config.kafka = { "bootstrap.servers" => "localhost:9092" } }
#   Pelton.producer.produce_sync(topic: "orders", payload: "…")
module Pelton
  @app = App.new

  class << self
    # The default app. Tests may put a new one here.
    #: () -> App
    attr_accessor :app

    #: () { (Config) -> void } -> App
    def configure(&block) = app.configure(&block)
    #: () -> Config
    def config = app.config
    #: () ?{ () -> void } -> Routing
    def routes(&block) = app.routes(&block)
    #: () -> Producer
    def producer = app.producer
    #: () -> Admin
    def admin = app.admin
    #: (String | Symbol | Object) ?{ (Events::Event) -> void } -> Object
    def subscribe(subject, &block) = app.subscribe(subject, &block)
    #: (?groups: Array[String]?, ?topics: Array[String]?, ?process: Integer?) -> Server
    def start(groups: nil, topics: nil, process: nil) = app.start(groups: groups, topics: topics, process: process)
    #: () -> Server?
    def server = app.server
    #: (?timeout: Numeric?) -> bool?
    def stop(timeout: nil) = app.stop(timeout: timeout)
    #: () -> void
    def quiet = app.quiet
    #: () -> void
    def resume = app.resume
    #: (String, ?restart: bool) { (Background::Stop) -> void } -> void
    def background(name, restart: false, &block) = app.background(name, restart: restart, &block)
    #: () -> Hash[Symbol, untyped]
    def stats = app.stats
    #: (?String?) -> Hash[String, Array[Integer]]
    def assignments(group = nil) = app.assignments(group)
    #: (?String?) -> Hash[String, Hash[Integer, Integer]]
    def generations(group = nil) = app.generations(group)
    #: (?timeout: Numeric?) -> Integer
    def close(timeout: nil) = app.close(timeout: timeout)

    #: (*(String | Hash[String, untyped]), **untyped) ?{ (Message) -> void }
    #:  -> (Iterator | Enumerator[Message, Iterator])
    def each(...) = app.each(...)

    #: (?size: Integer, ?timeout: Numeric, ?kafka: Hash[String, untyped])
    #:   ?{ (Integer) -> Hash[String, untyped] } -> ProducerPool
    def producer_pool(size: 5, timeout: 5, kafka: {}, &options)
      app.producer_pool(size: size, timeout: timeout, kafka: kafka, &options)
    end
  end
end
