# frozen_string_literal: true

require "support/scenario"
require "support/rails_app"
require "support/unix_http"

# The dashboard and the metrics inside of other programs: mounted in a Rails app that Puma serves, and in a rackup file
# behind Rack::Lint, which raises where an answer breaks Rack's rules. Links, assets and actions keep the path of the
# mount, and the Rails app's own protection against forged requests stays out of their way. Settings, routes and
# subscribers in config/pelton.rb count.

Scenario.needs(RailsApp.missing)

INITIALIZER = <<~RUBY
  require "pelton/metrics"

  Pelton.configure { |config| config.kafka = { "bootstrap.servers" => ENV.fetch("KAFKA") } }
  METRICS = Pelton::Metrics.new
RUBY

ROUTES = <<~RUBY
  Rails.application.routes.draw do
    mount Pelton::Web, at: "/kafka"
    mount Pelton::Web.new(user: "ops", password: "secret", actions: true), at: "/ops/kafka"
    mount METRICS, at: "/metrics"
  end
RUBY

APP = <<~RUBY
  class OrdersConsumer < Pelton::Consumer
    def consume = nil
  end
  Pelton.configure { |config| config.group_id = "billing" }
  Pelton.routes { topic("TOPIC", to: OrdersConsumer) { dead_letters "LETTERS" } }
  Pelton.subscribe("message.acknowledged") { |event| $stderr.puts "stored in \#{event[:topic]}" }
RUBY

RACKUP = <<~RUBY.freeze
  require "rack"
  require "rack/lint"
  #{INITIALIZER}
  use Rack::Lint
  map("/kafka") { run Pelton::Web }
  map("/ops/kafka") { run Pelton::Web.new(user: "ops", password: "secret", actions: true) }
  map("/metrics") { run METRICS }
  require_relative "config/pelton"
RUBY

Scenario.run do
  name = topic(partitions: 1)
  app.producer.produce_sync(topic: name, payload: "{\"total\":7}", key: "k")
  rails = RailsApp.new("shop", KAFKA: bootstrap, RAILS_ENV: "production", SECRET_KEY_BASE: "x" * 64)
  rails.write("config/initializers/pelton.rb", INITIALIZER)
  rails.write("config/routes.rb", ROUTES)
  letters = topic(partitions: 1)
  rails.write("config/pelton.rb", APP.sub("TOPIC", name).sub("LETTERS", letters))
  rails.write("mounted.ru", "require \"bundler/setup\"\nrequire \"pelton\"\n#{RACKUP}")

  { "Rails" => "config.ru", "Rack::Lint" => "mounted.ru" }.each do |where, file|
    socket = "#{rails.root}/tmp/#{file}.sock"
    server = child(*rails.program("puma", "-C", "-", "-b", "unix://#{socket}", file))
    http = UnixHttp.new(socket)
    eventually(60, -> { "Puma with #{where}\n#{server.output}" }) { http.listens? }
    ask = lambda do |request, **headers|
      headers.each { |key, value| request[key.to_s.tr("_", "-")] = value }
      http.call(request)
    end
    # With the status that is expected.
    get = lambda do |path, status = 200, **headers|
      response = ask.call(Net::HTTP::Get.new(path), **headers)
      equal(status.to_s, response.code, "#{path} in #{where}\n#{response.body}\n#{server.output}")
      response
    end

    page = get.call("/kafka/topic?name=#{name}") # a page of the list may not have it, on a shared broker
    check(page.body.include?("Topic #{name}"), "the page of a topic in #{where}: #{page.body}")
    equal([], page.body.scan(/(?:href|src|action)="([^"]*)"/).flatten.grep_v(%r{\A/kafka/|\A#}),
          "links that leave the mount in #{where}")
    style = get.call("/kafka/assets/style.css")
    check(style["Content-Type"].start_with?("text/css"), style.to_hash.inspect)
    check(page["Content-Security-Policy"].include?("default-src 'none'"), page.to_hash.inspect)
    head = ask.call(Net::HTTP::Head.new("/kafka/groups"))
    equal(["200", nil], [head.code, head.body], "HEAD in #{where}")
    check(get.call("/kafka/dead-letters").body.include?(letters), "the routes' dead letters in #{where}")
    get.call("/kafka/nothing", 404)
    get.call("/kafka/", 403, X_Forwarded_For: "10.0.0.1")

    # --- with a password, an action ---
    get.call("/ops/kafka/", 401)
    login = "Basic #{["ops:secret"].pack("m0")}"
    path = "/ops/kafka/message?topic=#{name}&partition=0&offset=0"
    page = get.call(path, Authorization: login)
    token = page.body[/name="token" value="(\h+)"/, 1]
    cookie = page["Set-Cookie"]
    check(cookie.include?("pelton_token=#{token}; Path=/ops/kafka; HttpOnly"), cookie)
    publish = lambda do |**fields|
      request = Net::HTTP::Post.new("/ops/kafka/actions/republish")
      request.set_form_data(topic: name, partition: 0, offset: 0, back: "/message", **fields)
      ask.call(request, Authorization: login, Cookie: cookie[/[^;]+/], Sec_Fetch_Site: "same-origin")
    end
    equal("403", publish.call.code, "without the token in #{where}")
    answer = publish.call(token: token)
    equal(["303", "/ops/kafka/message#outcome"], [answer.code, answer["Location"]], "an action in #{where}")
    eventually(60, -> { "the outcome in #{where}\n#{server.output}" }) do
      get.call(path, Authorization: login).body.include?("stored at #{name}/0 offset")
    end

    eventually(60, -> { "the app's subscriber in #{where}\n#{server.output}" }) do
      server.output.include?("stored in #{name}")
    end

    # --- the metrics ---
    check(get.call("/metrics").body.include?("# TYPE pelton_open_descriptors gauge"), "the text format in #{where}")
    open = get.call("/metrics", Accept: "application/openmetrics-text")
    equal([true, true], [open["Content-Type"].start_with?("application/openmetrics-text"),
                         open.body.end_with?("# EOF\n")], "OpenMetrics in #{where}")
    equal("405", ask.call(Net::HTTP::Post.new("/metrics"), Content_Length: "0").code, "POST in #{where}")
    server.kill(:TERM)
    exit_code(server, 60)
    check(!server.output.include?("LintError"), server.output)
  end
  equal(["{\"total\":7}"] * 3, read(name, 1, 3).map { |_, message| message.raw_payload }, "the messages")
end
