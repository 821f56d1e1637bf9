# frozen_string_literal: true

require "support/scenario"
require "support/rails_app"
require "support/postgres"

# Changed code while the relay of the outbox runs in the same server, in development and on PostgreSQL. To reload, Rails
# takes the connections of its pools from all threads that are outside of its executor. So the relay has none there: the
# next message runs the changed code, and the same relay goes on.

Scenario.needs(RailsApp.missing("pg"), PostgresServer.missing)

Scenario.run do
  name = topic(partitions: 1)
  app = RailsApp.new("shop", gems: ["pg"], KAFKA: bootstrap, DATABASE_URL: PostgresServer.new.url)
  app.rails("generate", "pelton:install", "--quiet")
  app.rails("generate", "pelton:outbox", "--quiet")
  app.rails("generate", "model", "receipt", "note", "--quiet", "--no-test-framework")
  app.rails("db:migrate")
  app.write("config/pelton.rb", <<~RUBY)
    Pelton.routes { topic #{name.inspect}, to: "OrdersConsumer" }
    Pelton::Outbox.relay_with_server poll: 0.05
    %w[outbox.relaying error.occurred].each { |name| Pelton.subscribe(name) { |event| puts "\#{name} \#{event.payload}" } }
    Pelton.subscribe("outbox.published") { puts "published" }
  RUBY
  change = lambda do |version|
    app.write("app/consumers/orders_consumer.rb", <<~RUBY)
      class OrdersConsumer < ApplicationConsumer
        def process(message)
          Receipt.create!(note: "\#{message.payload} #{version}")
          puts "consumed \#{message.payload} with #{version}"
        end
      end
    RUBY
  end
  change.("version 0")
  server = child(*app.pelton("server"))
  4.times do |number|
    change.("version #{number}")
    app.runner(<<~RUBY)
      3.times { |i| Receipt.transaction { Pelton::Outbox.produce(topic: #{name.inspect}, payload: "#{number}.\#{i}") } }
    RUBY
    eventually(60, -> { "the changed code, version #{number}\n#{server.output}" }) do
      server.output.include?("consumed #{number}.2 with version #{number}")
    end
  end
  equal(1, server.output.scan("outbox.relaying").size, "times that a relay began\n#{server.output}")
  check(!server.output.include?("error.occurred"), "no error\n#{server.output}")
  check(server.output.include?("published"), "the relay of this server\n#{server.output}")
  server.kill(:TERM)
  equal(0, exit_code(server, 60), "exit code\n#{server.output}")
end
