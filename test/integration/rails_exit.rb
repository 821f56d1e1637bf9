# frozen_string_literal: true

require "support/scenario"
require "support/rails_app"
require "support/unix_http"
require "support/postgres"

# No message of a Rails process is lost when the process ends: `rails runner`, console, a rake task, an Active Job, and
# requests to Unicorn, which forks workers without a word of configuration. A linger of a minute means that only the end
# of the process can have sent them. The database is PostgreSQL.

Scenario.needs(RailsApp.missing("pg"), PostgresServer.missing)

Scenario.run do
  name = topic(partitions: 1)
  unicorn = RailsApp.missing("unicorn").nil?
  app = RailsApp.new("shop", gems: ["pg", *("unicorn" if unicorn)], KAFKA: bootstrap, RAILS_ENV: "production",
                             DATABASE_URL: PostgresServer.new.url, SECRET_KEY_BASE: "x" * 64)
  app.rails("generate", "pelton:install", "--quiet")
  app.rails("generate", "model", "order", "note", "--quiet", "--no-test-framework")
  app.write("config/pelton.yml", app.read("config/pelton.yml").sub("kafka:", "kafka:\n    linger.ms: 60000\n    #"))
  app.write("app/models/order.rb", <<~RUBY)
    class Order < ApplicationRecord
      after_commit(on: :create) do
        Pelton.producer.produce_async(topic: #{name.inspect}, key: id.to_s, payload: note)
      end
    end
  RUBY
  app.write("app/jobs/order_job.rb",
            "class OrderJob < ApplicationJob; def perform(note) = Order.create!(note: note); end")
  app.write("lib/tasks/shop.rake", "task(order: :environment) { Order.create!(note: \"rake\") }")
  app.rails("db:migrate")
  doctor = app.rails("pelton:doctor")
  check(doctor.match?(/connections that the server allows\W+100\b/), "the doctor asks PostgreSQL\n#{doctor}")

  order = ->(note) { "Order.create!(note: #{note.inspect})" }
  app.runner(order.("runner"))
  app.rails("console", stdin: "#{order.("console")}\n")
  app.rails("order")
  app.runner("ActiveJob::Base.queue_adapter = :inline; OrderJob.perform_later('job')")
  payloads = read(name, 1, 4).map { |_, message| message.raw_payload }
  equal(%w[runner console rake job], payloads, "messages of processes that ended")

  # --- Unicorn: the application is loaded, and produces, before the fork ---

  # Debian's raindrops for Ruby 3.3 needs a newer libc than that of Debian 12, and its source package cannot be
  # downloaded.
  next puts("without Unicorn: no gem unicorn for Ruby #{RUBY_VERSION}") unless unicorn

  app.write("config/initializers/boot.rb", <<~RUBY)
    Rails.application.config.after_initialize do
      Pelton.producer.produce_async(topic: #{name.inspect}, payload: "boot") if ENV["SERVER"]
    end
  RUBY
  app.write("app/controllers/orders_controller.rb", <<~RUBY)
    class OrdersController < ActionController::Base
      skip_forgery_protection

      def create
        Order.create!(note: params[:note])
        render plain: Process.pid
      end
    end
  RUBY
  app.write("config/routes.rb", "Rails.application.routes.draw { post \"orders\", to: \"orders#create\" }")
  socket = "#{app.root}/tmp/unicorn.sock"
  app.write("config/unicorn.rb", "worker_processes 2\npreload_app true\nlisten #{socket.inspect}\n")
  environment, command = app.program("unicorn", "-c", "config/unicorn.rb")
  server = child({ **environment, "SERVER" => "1", "RACK_ENV" => "production" }, command)
  http = UnixHttp.new(socket)
  post = lambda do |note|
    response = http.post("/orders", "note" => note)
    equal("200", response.code, "answer\n#{server.output}")
    response.body
  end
  eventually(60, -> { "two workers\n#{server.output}" }) do
    server.output.scan(/worker=\d ready/).size == 2 || server.output.include?("Error")
  end
  notes = Array.new(20) { |index| "request #{index}" }
  workers = notes.map { |note| post.(note) }.uniq
  check(workers.none?(server.pid.to_s), "the parent answers nothing")
  server.kill(:QUIT)
  equal(0, exit_code(server, 60), "exit code\n#{server.output}")
  payloads = read(name, 1, 25).map { |_, message| message.raw_payload }.drop(4)
  equal(["boot", *notes].sort, payloads.sort, "messages of the parent and of its workers, each once")
end
