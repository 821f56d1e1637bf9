# frozen_string_literal: true

# time limit: 1800

require "support/scenario"
require "support/rails_app"

# A real Rails app, as its developers would write it: generators, settings in config/pelton.yml, a model that publishes
# when it is committed, a consumer that stores, and code that changes while `pelton server` runs. The routes name other
# classes of the app, too: one in a block, and one outside.

Scenario.needs(RailsApp.missing)

CONSUMER = <<~RUBY
  class OrdersConsumer < ApplicationConsumer
    def assigned = Rails.logger.info("VERSION assigned")

    def consume
      kept = ActiveRecord::Base.connection_pool.stat[:busy]
      cached = Receipt.connection.query_cache_enabled
      messages.each do |message|
        Receipt.create!(order_id: message.payload["id"],
                        note: ["VERSION", Current.user, Time.zone.name, I18n.locale, kept, cached].inspect)
      end
      Rails.logger.info "VERSION stored, decoded by \#{messages.first.payload["decoder"]}"
      Current.user = "left over"
      Time.zone = "Tokyo"
      I18n.locale = :de
    end
  end
RUBY

DECODER = "class OrderDecoder; def call(message) = message.decoded.merge('decoder' => 'VERSION'); end"
FILTER = "class OrderFilter; def call(_) = Rails.logger.info('VERSION filter'); end" # true

Scenario.run do
  name = topic(partitions: 1)
  group = unique("shop")
  app = RailsApp.new("shop", KAFKA: bootstrap)
  app.rails("generate", "pelton:install", "--quiet")
  app.rails("generate", "pelton:consumer", "orders", "--topic=#{name}", "--quiet")
  app.rails("generate", "model", "order", "total:integer", "--quiet", "--no-test-framework")
  app.rails("generate", "model", "receipt", "order_id:integer", "note", "--quiet", "--no-test-framework")
  app.rails("db:migrate")
  app.write("config/pelton.yml", app.read("config/pelton.yml").sub("group_id: shop", "group_id: #{group}"))
  app.write("config/application.rb",
            app.read("config/application.rb").sub(/^  end\nend/, "    config.i18n.available_locales = %i[en de]\n\\0"))
  app.write("app/models/current.rb", "class Current < ActiveSupport::CurrentAttributes; attribute :user; end")
  app.write("app/models/order.rb", <<~RUBY)
    class Order < ApplicationRecord
      after_commit(on: :create) do
        Pelton.producer.produce_async(topic: #{name.inspect}, key: id.to_s, payload: { id: id }.to_json)
      end
    end
  RUBY
  app.write("config/initializers/events.rb", <<~RUBY)
    ActiveSupport::Notifications.subscribe("consumer.consumed.pelton") do |event|
      Rails.logger.info "consumed \#{event.payload[:messages]} of \#{event.payload[:topic]}"
    end
    Pelton.configure do |config| # in Rails' reloader, which it does not replace
      config.around_job = lambda do |job, &call|
        Rails.logger.info "around \#{job[:kind]}"
        call.call
      end
    end
    class Reports
      def report(error, handled:, context:, source: nil, **)
        Rails.logger.info "reported \#{error.class} \#{handled} \#{source} \#{context.values_at(:group, :topic)}"
      end
    end
    Rails.error.subscribe(Reports.new) if Rails.respond_to?(:error)
  RUBY
  version = lambda do |word|
    { "consumers/orders_consumer" => CONSUMER, "lib/order_decoder" => DECODER, "lib/order_filter" => FILTER }
      .each { |file, code| app.write("app/#{file}.rb", code.gsub("VERSION", word)) }
  end
  app.write("config/pelton.rb", app.read("config/pelton.rb").sub("decode :json", <<~RUBY))
    decode :json
    deserializer OrderDecoder.new
    filter { |message| OrderFilter.new.call(message) }
  RUBY
  version.("first")

  order = -> { app.runner("Order.create!(total: 1)") }
  stored = lambda do |count|
    rows = nil
    eventually(60, -> { "#{count} receipts, not #{rows}" }) do
      (rows = app.rows("SELECT order_id, note FROM receipts ORDER BY id")).size >= count
    end
    rows
  end

  # --- the generated test passes, and runs the app's consumer ---

  app.rails("db:create", "db:schema:load", RAILS_ENV: "test")
  tests = app.rails("test", RAILS_ENV: "test")
  check(tests.include?("1 runs, 1 assertions, 0 failures, 0 errors"), "bin/rails test\n#{tests}")

  # --- tasks, and commands in the app's folder, know its routes ---

  check(app.rails("zeitwerk:check").include?("All is good"), "app/consumers is loaded eagerly")
  check(app.rails("pelton:routes").include?(name), "bin/rails pelton:routes")
  routes = child(*app.pelton("routes", "--json"))
  equal(0, exit_code(routes, 60), "exit code of pelton routes\n#{routes.output}")
  check(routes.output.include?(name), "pelton routes:\n#{routes.output}")

  declared = unique("declared")
  routes = app.read("config/pelton.rb")
  app.write("config/pelton.rb", "#{routes}\nPelton.topics { topic #{declared.inspect}, partitions: 2 }\n")
  difference = begin
    app.rails("pelton:topics:plan")
  rescue RuntimeError => e # its exit code is not 0
    e.message
  end
  check(difference.match?(/pelton:topics:plan failed:.*#{declared}/m), "bin/rails pelton:topics:plan\n#{difference}")
  app.rails("pelton:topics:apply")
  check(self.app.admin.topic_names.include?(declared), "bin/rails pelton:topics:apply creates #{declared}")
  app.rails("pelton:topics:plan")

  later = topic(settings: { "cleanup.policy" => "compact" })
  app.write("config/pelton.yml", app.read("config/pelton.yml").sub("shared:", <<~YAML.chomp))
    shared:
      schedule_topic: <%= ENV["SCHEDULE"] %>
  YAML
  code = "puts Pelton.producer.produce_later(topic: #{name.inspect}, payload: 'x', in: 3600)"
  id = app.runner(code, SCHEDULE: later)[/^@\S+/]
  list = app.rails("pelton:schedule:list", SCHEDULE: later)
  check(list.match?(/#{Regexp.escape(id)} .*#{name}/), "bin/rails pelton:schedule:list shows #{id}\n#{list}")

  check(app.rails("pelton:doctor").include?("connections in the pool"), "bin/rails pelton:doctor looks at the database")

  # --- the app loads without the files that the settings name, as in the build of an image; a client needs them ---

  yaml = app.read("config/pelton.yml")
  tls = "    security.protocol: ssl\n    ssl.ca.location: /nowhere/ca.crt\n"
  app.write("config/pelton.yml", yaml.sub(/^  kafka:.*\n/) { |line| line + tls })
  code = <<~RUBY
    Rails.application.eager_load!
    Pelton.producer.produce_async(topic: "orders", payload: "x") rescue puts $!.class
  RUBY
  loaded = app.runner(code, RAILS_ENV: "production", SECRET_KEY_BASE: "x")
  check(loaded.include?("Pelton::ConfigError"), "a runner without the certificate\n#{loaded}")
  app.write("config/pelton.yml", yaml)

  # --- a message of a runner that ends at once arrives, and the server finds the app ---

  order.()
  server = child(*app.pelton("server"))
  note = ->(word) { [word, nil, "UTC", :en, 0, true].inspect }
  equal([[1, note.("first")]], stored.(1), "receipts")

  # --- nothing of a job is left to the next one ---

  order.()
  equal([[2, note.("first")]], stored.(2).drop(1), "receipts of the second job")
  log = -> { app.read("log/development.log") }
  check(log.().include?("[pelton] [#{name}/0] first stored"), "tagged lines in Rails' log:\n#{log.()[-2000..]}")
  check(log.().include?("[pelton] [#{name}/0] around consume"), "config.around_job:\n#{log.()[-2000..]}")
  check(log.().include?("consumed 1 of #{name}"), "a notification:\n#{log.()[-2000..]}")

  # --- changed code runs with the next batch, broken code is retried until it is mended ---

  version.("second")
  order.()
  equal([[3, note.("second")]], stored.(3).drop(2), "receipts after a change")
  check(log.().include?("second assigned"), "the new object knows of its partition")
  check(log.().include?("second filter"), "a block of the routes finds the new class:\n#{log.()[-2000..]}")
  eventually(60, -> { "an object of the routes stays:\n#{log.()[-2000..]}" }) do
    log.().include?("second stored, decoded by first")
  end
  app.write("app/consumers/orders_consumer.rb", "class OrdersConsumer < ApplicationConsumer\n  def consume(\nend\n")
  order.()
  eventually(60, -> { "an error in the server's output\n#{server.output}" }) { server.output.include?("SyntaxError") }
  app.write("app/consumers/orders_consumer.rb",
            "class OrdersConsumer < ApplicationConsumer\n  def consume = raise(KeyError, \"no total\")\nend\n")
  eventually(60, -> { "the next error\n#{server.output}" }) { server.output.include?("KeyError") }
  if Gem::Specification.find_by_name("rails").version >= Gem::Version.new("7.1") # 7.0 knows no source
    reported = "reported KeyError false pelton #{[group, name]}"
    eventually(30, -> { "Rails.error:\n#{log.()[-2000..]}" }) { log.().include?(reported) }
  end
  version.("third")
  equal([[4, note.("third")]], stored.(4).drop(3), "receipts after a repair")
  equal(1, server.output.scan(/assigned .*#{Regexp.escape(name)}/).size, "assignments\n#{server.output}")

  # --- and the end ---

  server.kill(:TERM)
  equal(0, exit_code(server, 60), "exit code\n#{server.output}")
  equal([4], committed(group, name, 1), "committed offset")
end
