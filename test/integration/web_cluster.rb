# frozen_string_literal: true

# first: it takes minutes
# time limit: 1800
# once: three brokers and a browser

require "support/browser"
require "support/cluster"
require "support/scenario"
require "pelton/web/http_server"

# Pages of the dashboard in Chromium while one of three brokers is killed, and after the cluster has noticed it: each
# one answers, says how old it is, and what is not known. A page that stays open shows the same by itself. It also says
# that the dashboard itself is gone, and goes on when it is back.

exit 77 if Browser.missing && puts("skipped: #{Browser.missing}").nil?

Scenario.run do
  # So long that a look at the cluster surely meets the dead broker.
  cluster = TestCluster.start(3, settings: { BrokerKit::SESSION => "25000" })
  self.bootstrap = cluster.bootstrap
  all = app(report_topic: "reports")
  { "orders" => 3, "reports" => 3, "single" => 1 }.each do |name, copies|
    all.admin.create_topic(name, partitions: 6, replication_factor: copies)
  end
  eventually(60, "the topics") { all.admin.topics.values_at("orders", "single").compact.size == 2 }
  dead = cluster.brokers.last
  # Any of the brokers answers, and each hears of the others and of topics at another time.
  without = eventually(60, "a partition of the broker that will be killed") do
    number = all.admin.cluster.brokers.find { |broker| broker.port == dead.port }&.id
    leads = all.admin.topics("single").fetch("single").partitions.find { |partition| partition.leader == number }
    leads&.number if number
  rescue Pelton::KafkaError # it does not know the topic yet
    nil
  end
  rows = %w[orders single].flat_map do |name|
    Array.new(6) { |partition| { topic: name, partition: partition, payload: "x" } }
  end
  all.producer.produce_many_sync(rows * 3)
  eventually(60, "a commit") do
    all.admin.alter_group_offsets("billing", (0..5).to_h { |partition| [["orders", partition], 1] }) || true
  rescue Pelton::KafkaError # the coordinator is loading
    false
  end

  web = Pelton::Web.new(all)
  server = Pelton::Web::HttpServer.new(web, bind: "127.0.0.1", port: 0, bus: all.notifications)
  address = "http://127.0.0.1:#{server.port}"
  get = lambda do |path|
    answer = Net::HTTP.get_response(URI("#{address}#{path}"))
    check(%w[200 400 404].include?(answer.code), "#{path}: #{answer.code}")
    answer.body.force_encoding(Encoding::UTF_8).gsub(/<[^>]*>/, " ").gsub(/\s+/, " ")
  end
  eventually(60, "the group") { get.call("/").include?("billing") }

  Browser.open do |browser|
    expect = ->(what, pattern) { eventually(90, -> { "#{what}: #{browser.text}" }) { browser.text.match?(pattern) } }
    told = /Kafka (takes long to answer|did not answer)/
    browser.visit("#{address}/")
    expect.call("a page without the notice", /\A(?!.*#{told}).*billing/m)

    dead.kill(:KILL)
    expect.call("an open page says that its numbers are old", /#{told}.*The page shows \S+ \S+ UTC/)
    # What is known: pages have the last state, or say what they could not ask.
    { "/" => /#{told}.*billing/, "/groups" => /#{told}.*billing empty/, "/group?id=billing" => %r{#{told}.*orders/5 },
      "/topics" => /#{told}.*single/, "/processes" => /#{told}/, "/errors" => /#{told}/, "/jobs" => /#{told}/,
      "/settings" => /concurrency/, "/search?text=bill" => /#{told}.*billing/,
      # These ask Kafka and take long. Meanwhile the cluster may notice it.
      "/topic?name=single" => /#{told}.*Not known while Kafka does not answer/,
      "/messages?topic=single&partition=#{without}" => /_T(RANSPORT|IMED_OUT)/ }.each do |path, pattern|
      text = get.call(path)
      check(text.match?(pattern), "#{path}: #{text}")
    end

    expect.call("the cluster has noticed it", %r{orders/\d has 2 of 3 replicas in sync})
    expect.call("partitions without a leader", %r{single/#{without} has no leader})
    expect.call("the notice is gone", /\A(?!.*#{told}).*billing/m)
    eventually(60, -> { get.call("/messages?topic=orders") }) do
      get.call("/messages?topic=orders").include?("18 messages, newest first.")
    end
    check(get.call("/messages?topic=single").match?(/1?\d messages, newest first/), get.call("/messages?topic=single"))
    check(get.call("/topic?name=single").match?(/Settings .*retention\.ms/), get.call("/topic?name=single"))

    # --- the dashboard itself is gone, and comes back ---
    port = server.port
    server.close
    expect.call("an open page says that nothing renews it", /The dashboard does not answer\. This page shows an older/)
    server = Pelton::Web::HttpServer.new(web, bind: "127.0.0.1", port: port, bus: all.notifications)
    expect.call("it is renewed", /\A(?!.*The dashboard does not answer).*billing/m)

    dead.restart
    expect.call("all is well", /\A(?!.*(no leader|in sync)).*billing/m)
  end
  failed = events(all, "error.occurred").select { |event| event[:source] == "web" }
  equal([], failed.map { |event| event[:error].full_message }, "errors of the dashboard")
  server.close
  web.close
  all.close(timeout: 10)
  cluster.stop
end
