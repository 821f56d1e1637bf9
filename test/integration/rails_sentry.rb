# frozen_string_literal: true

require "support/scenario"
require "support/rails_app"
require "support/sentry_server"

# A Rails app with Debian's Sentry gem, set up in initializers, as its developers would. `pelton server` reports each
# failed attempt of a consumer once, also the last ones of a stop: Rails' own reports do not come in between. With Rails
# 7.2, Sentry has its part for Rails, which sets itself up.

GEM = Gem::Specification.find_all_by_name("sentry-rails").any? ? "sentry-rails" : "sentry-ruby-core"

Scenario.needs(RailsApp.missing(GEM))

SENTRY = <<~RUBY.freeze
  require #{GEM.sub("-core", "").inspect}

  Sentry.init do |config|
    config.dsn = ENV.fetch("DSN")
    config.logger = Logger.new(File::NULL)
    config.transport.open_timeout = config.transport.timeout = 60 # not its 1 and 2 s: the machine may be busy
  end
  Sentry.background_worker.shutdown_timeout = 60 # nor its 1 s

  require "pelton/reporters/errors"

  Pelton.configure { |config| config.on_error = Pelton::Reporters::Errors.new(:sentry) }
RUBY

CONSUMER = <<~RUBY
  class OrdersConsumer < ApplicationConsumer
    def process(message) = message.payload.fetch("sum")
    def shutdown = raise(IOError, "no disk")
  end
RUBY

Scenario.run do
  sentry = SentryServer.new
  name = topic(partitions: 1)
  group = unique("shop")
  rails = RailsApp.new("shop", gems: [GEM], KAFKA: bootstrap, RAILS_ENV: "production", DSN: sentry.dsn,
                               SECRET_KEY_BASE: "x" * 64)
  rails.rails("generate", "pelton:install", "--quiet")
  rails.write("config/pelton.yml", rails.read("config/pelton.yml").sub("group_id: shop", "group_id: #{group}"))
  rails.write("config/initializers/sentry.rb", SENTRY)
  rails.write("app/consumers/orders_consumer.rb", CONSUMER)
  rails.write("config/pelton.rb", <<~RUBY)
    Pelton.routes do
      topic(#{name.inspect}, to: "OrdersConsumer") do
        retries 1, then: :skip
        backoff 0..0
      end
    end
  RUBY
  server = child(*rails.pelton("server"))
  app(kafka: {}).producer.produce_sync(topic: name, payload: %({"total":"secret words"}), key: "the key")
  eventually(90, -> { "a skipped message\n#{server.output}" }) { server.output.include?(" skipped offset 0") }
  server.kill(:TERM)
  equal(0, exit_code(server, 60), "exit code\n#{server.output}")
  found = sentry.take
  sentry.close

  equal(["event"], found.map { |header, _| JSON.parse(header)["type"] }.uniq, "kinds of reports")
  # Sentry sends them on several threads, so they may come in any order.
  all = found.map { |_, item| JSON.parse(item) }.sort_by do |report|
    report["contexts"]["pelton"].values_at("source", "attempt").map(&:to_s)
  end
  places = all.map { |report| report["contexts"]["pelton"].values_at("source", "offset", "attempt") }
  equal([["consumer.consume", 0, 1], ["consumer.consume", 0, 2], ["consumer.shutdown", nil, nil]], places,
        "each failure once")
  equal([["consumer.consume", group, name, "KeyError"], ["consumer.shutdown", group, name, "IOError"]],
        all.map { |report| report["fingerprint"] }.uniq, "the groups")
  ids = all.map { |report| report["contexts"]["pelton"]["failure_id"] }.first(2)
  equal(2, ids.compact.uniq.size, "ids of attempts")
  routes = all.map { |report| report["contexts"]["pelton"].values_at("group", "topic", "partition") }
  equal([[group, name, 0]], routes.uniq, "the place")
  check(found.none? { |_, item| item.match?(/secret words|the key/) }, "no payload and no key")
end
