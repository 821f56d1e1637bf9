# frozen_string_literal: true

require "support/scenario"
require "support/probe"
require "support/rails_app"

# The outbox of a real Rails app, as its developers would write it: the generator, one line in config/pelton.rb, a model
# that writes its event in its own transaction, and `pelton server`, which relays. On SQLite.

Scenario.needs(RailsApp.missing)

Scenario.run do
  name = topic(partitions: 1)
  late = unique("late")
  app = RailsApp.new("shop", KAFKA: bootstrap)
  app.rails("generate", "pelton:install", "--quiet")
  app.rails("generate", "pelton:consumer", "orders", "--topic=#{name}", "--quiet")
  app.rails("generate", "pelton:outbox", "--quiet")
  app.rails("generate", "model", "order", "total:integer", "--quiet", "--no-test-framework")
  app.rails("db:migrate")
  app.write("config/pelton.rb", <<~RUBY)
    #{app.read("config/pelton.rb")}
    Pelton::Outbox.relay_with_server
    %w[outbox.relaying outbox.released].each { |name| Pelton.subscribe(name) { warn name } }
  RUBY
  app.write("config/pelton.yml", "#{app.read("config/pelton.yml")}\ndevelopment:\n  create_topics: false\n")
  app.write("config/initializers/health.rb", <<~RUBY)
    require "pelton/metrics"
    Pelton.configure do |config|
      config.liveness.port = ENV["HEALTH_PORT"].to_i if ENV["HEALTH_PORT"]
      config.liveness.metrics = Pelton::Metrics.new
    end
  RUBY
  app.write("app/consumers/orders_consumer.rb", <<~RUBY)
    class OrdersConsumer < ApplicationConsumer
      def process(message) = Rails.logger.info("consumed order \#{message.payload["id"]}")
    end
  RUBY
  app.write("app/models/order.rb", <<~RUBY)
    class Order < ApplicationRecord
      after_create do
        Pelton::Outbox.produce(topic: #{name.inspect}, key: "k", payload: { id: id }.to_json)
      end
    end
  RUBY
  rows = -> { app.rows("SELECT topic, attempts FROM pelton_outbox ORDER BY id") }
  reader = self.app
  payloads = ->(topic) { reader.each(topic).map(&:raw_payload) }

  # --- written with the order, and rolled back with it ---

  output = app.runner(<<~RUBY)
    Order.create!(total: 1)
    Order.transaction { Order.create!(total: 2); raise ActiveRecord::Rollback }
    begin
      Pelton::Outbox.produce(topic: "orders", payload: "x")
    rescue Pelton::OutboxTransactionError => e
      puts e.message
    end
    p Pelton::Outbox.stats.slice(:rows, :refused)
  RUBY
  check(output.include?("outside of a database transaction"), "the error says why\n#{output}")
  check(output.include?({ rows: 1, refused: 0 }.inspect), "one row waits\n#{output}")

  doctor = app.rails("pelton:doctor")
  check(doctor.match?(/the pool has 5 connections for 5 workers and the thread "outbox"/), "the doctor\n#{doctor}")

  # --- the server relays it, and two more processes stand by ---

  servers = Array.new(2) { child(*app.pelton("server")) }
  environment, command = app.pelton("outbox")
  port = TestBroker.free_port
  relay = child({ **environment, "HEALTH_PORT" => port.to_s }, command)
  all = -> { [*servers, relay].map(&:output).join("\n---\n") }
  eventually(60, -> { "an empty outbox: #{rows.()}\n#{all.()}" }) { rows.().empty? }
  app.runner("3.times { Order.create!(total: 3) }")
  eventually(60, -> { "an empty outbox: #{rows.()}\n#{all.()}" }) { rows.().empty? }
  # A transaction ends for readers after it ended for the relay.
  arrived = lambda do |topic, count|
    found = nil
    eventually(60, -> { "#{count} messages, not #{found}\n#{all.()}" }) { (found = payloads.(topic)).size >= count }
    equal(count, found.size, "messages: #{found}")
    found
  end
  found = arrived.(name, 4)
  check(found.map { |payload| payload[/\d+/].to_i }.each_cons(2).all? { |earlier, later| earlier < later },
        "in order: #{found}")
  log = -> { app.read("log/development.log") }
  eventually(30, "the consumer got them") { log.().scan(/consumed order \d+/).uniq.size == 4 }
  check(all.().include?("the outbox is relayed by this process"), "the log says so\n#{all.()}")
  # One that waits too long for Kafka or the processor loses its lease to another one.
  working = -> { %w[relaying released].map { |word| all.().scan("outbox.#{word}").size }.reduce(:-) }
  eventually(60, -> { "one relay works, not #{working.()}\n#{all.()}" }) { working.() == 1 }
  ready = lambda do
    Probe.probe(port, "/ready")
  rescue Errno::ECONNREFUSED
    nil # it loads the app
  end
  answer = nil
  eventually(60, -> { "an endpoint\n#{all.()}" }) { answer = ready.() }
  equal([200, { healthy: true, status: "running", reasons: [] }], [answer.status, answer.json],
        "ready, whether it stands by or not")

  # --- a topic that does not exist holds its messages back, and nothing else ---

  app.runner("Order.transaction { %w[1 2].each { |n| Pelton::Outbox.produce(topic: #{late.inspect}, key: 'k', " \
             "payload: n) }; Order.create!(total: 4) }")
  eventually(90, -> { "the row is refused: #{rows.()}\n#{all.()}" }) { rows.().first&.last.to_i.positive? }
  arrived.(name, 5) # the others go on
  eventually(30, -> { "the log names it\n#{all.()}" }) { all.().include?("of the outbox was refused by #{late}") }
  topic(partitions: 1, name: late)
  eventually(90, -> { "an empty outbox: #{rows.()}\n#{all.()}" }) { rows.().empty? }
  equal(%w[1 2], arrived.(late, 2), "messages of the topic that came late")

  # --- the end: the lease is given back, so the next relay begins at once ---

  finish = lambda do |processes|
    processes.each { |process| process.kill(:TERM) }.each do |process|
      equal(0, exit_code(process, 60), "exit code\n#{process.output}")
    end
  end
  finish.(servers)
  app.runner("Order.create!(total: 5)")
  metrics = -> { Probe.probe(port, "/metrics").body }
  eventually(60, -> { "a message sent by it\n#{metrics.()}\n#{all.()}" }) do
    metrics.().match?(/^pelton_outbox_sent_messages_total [1-9]/)
  end
  check(metrics.().match?(/^pelton_outbox_rows \d/), "the rows that wait\n#{metrics.()}")
  finish.([relay])
  check(Probe.refused?(port), "its endpoint ended with it")
  equal([[nil]], app.rows("SELECT holder FROM pelton_outbox_relays"), "nobody has the lease")
end
