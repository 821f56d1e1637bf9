# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "stringio"
require "pelton/cli/cli"
require "pelton/web"

# Users with exactly the rights that docs/guides/access-rights.md and docs/guides/redriving-dead-letters.md name may do
# their work: one applies the topics, a server uses all that it can, one opens the dashboard, and one works with dead
# letters. For dead letters, the error says which right is missing.

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = %w[alice deployer server reader].map { |user| "user_#{user}=\"hush\"" }.join(" ")
SETTINGS = { "authorizer.class.name" => "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
             "super.users" => "User:ANONYMOUS", "listener.name.users.sasl.enabled.mechanisms" => "PLAIN",
             "listener.name.users.plain.sasl.jaas.config" => "#{MODULE} required #{USERS};" }.freeze
# The deployer's come last: once they count, all do.
RIGHTS = [
  ["server", %i[read write], { topic: "orders" }], # it produces there, too
  ["server", %i[read write], { topic: "orders.retry.0.3" }],
  ["server", %i[write], { topic: "orders.dead" }],
  ["server", %i[write], { topic: "receipts" }],
  ["server", %i[read], { topic: "payments" }],
  ["server", %i[write], { topic: "reports" }],
  ["server", %i[read], { topic: "commands" }],
  ["server", %i[read write], { topic: "later" }],
  ["server", %i[read], { group: "billing" }],
  ["server", %i[read], { group: "later" }],
  ["server", %i[write], { transactional_id: "shop/", pattern: :prefixed }],
  ["server", %i[write], { transactional_id: "later/schedule/", pattern: :prefixed }],
  ["reader", %i[read describe_configs], { topic: "*" }],
  ["reader", %i[describe], { group: "*" }],
  ["deployer", %i[create alter alter_configs], { topic: "*" }]
].freeze
BILLING = { group_id: "billing", report_topic: "reports", report_interval: 0.3, command_topic: "commands",
            schedule_topic: "later" }.freeze
PAGES = %w[/ /groups /group?id=billing /topics /topic?name=orders /processes /jobs /errors /messages?topic=orders
           /dead-letters?topic=orders.dead].freeze

# The app of the server, by different users.
module Users
  def as(user, **settings, &routes)
    app(kafka: { "bootstrap.servers" => @broker.bootstrap("USERS"), "security.protocol" => "sasl_plaintext",
                 "sasl.mechanisms" => "PLAIN", "sasl.username" => user, "sasl.password" => "hush" },
        **settings, &routes)
  end

  def billing(user)
    failing = consumer do
      raise KeyError, "poison" if messages.first.raw_payload == "bad"

      messages.each { |message| producer.produce_sync(topic: "receipts", payload: message.raw_payload) }
    end
    paying = consumer do
      transaction { |tx| messages.each { |message| tx.produce_async(topic: "receipts", payload: message.raw_payload) } }
    end
    as(user, **BILLING) do
      topic("orders", to: failing) { retry_in(0.3) && max_messages(1) && dead_letters("orders.dead") }
      topic("payments", to: paying) { transactional "shop" }
    end
  end

  # Exit code and output of `pelton topics apply`.
  def apply(partitions, retention)
    deployer = billing("deployer")
    deployer.topics do
      topic "orders", partitions: partitions, config: { "retention.ms" => retention }
      %w[payments receipts orders.dead].each { |name| topic name }
    end
    output = StringIO.new
    [Pelton::CLI.new(%w[topics apply --yes], app: deployer, out: output, err: output).run, output.string]
  end

  def page(web, address)
    path, query = address.split("?")
    status, _, body = web.call("REQUEST_METHOD" => "GET", "PATH_INFO" => path, "QUERY_STRING" => query.to_s)
    [status, body.join.force_encoding(Encoding::UTF_8).gsub(/<[^>]*>/, " ").gsub(/\s+/, " ")]
  end
end

Scenario.run do
  extend Users
  @broker = TestBroker.start(listeners: { "USERS" => "SASL_PLAINTEXT" }, settings: SETTINGS)
  self.bootstrap = @broker.bootstrap
  admin = app.admin
  RIGHTS.each do |user, operations, resource|
    operations.each { |operation| admin.create_acl(principal: "User:#{user}", operation: operation, **resource) }
  end

  # --- topics as code ---

  code = said = nil
  # Rules count a moment after the controller has them. A topic that was made before is left as it is.
  eventually(20, -> { said }) { (code, said = apply(1, "1000000")) && code.zero? }
  code, said = apply(2, "2000000")
  equal([0, true], [code, said.include?("2 to change")], said)

  # --- a server ---

  server = billing("server")
  server.start
  server.producer.produce_many_sync(%w[good bad].map { |payload| { topic: "orders", payload: payload } })
  server.producer.produce_later(topic: "orders", payload: "late", in: 0.1)
  app.producer.produce_sync(topic: "payments", payload: "paid")
  receipts = -> { app.each("receipts", kafka: { "isolation.level" => "read_committed" }).map(&:raw_payload).uniq.sort }
  eventually(30, -> { "receipts: #{receipts.call}" }) { receipts.call == %w[good late paid] }
  eventually(30, "the dead letter") { app.each("orders.dead").map(&:raw_payload) == ["bad"] }
  eventually(30, "a report that takes commands") do
    app.each("reports").any? { |message| Pelton::Reports::Report.parse(message.raw_payload)&.commands }
  end

  # --- the dashboard ---

  web = Pelton::Web.new(billing("reader"), allow_remote: true)
  PAGES.each do |address|
    status, text = page(web, address)
    equal([200, nil], [status, text[/.{50}(?:AUTHORIZATION|Not known:).{50}/]], address)
  end
  eventually(30, "the report") { page(web, "/processes").last.include?("Live 1 of 1 process") }
  web.close
  check(server.stop, "the stop")
  refused = events(server, "error.occurred").map { |event| event[:error].message }.grep(/AUTHORIZATION/)
  equal([], refused, "what the server may not do")

  # --- dead letters ---

  input = topic
  dead = topic
  status = "#{dead}.status"
  alice = as("alice")
  origin = { "pelton.topic" => input, "pelton.partition" => "0", "pelton.attempts" => "1", "pelton.group" => "g" }
  app.producer.produce_many_sync(Array.new(3) do |number|
    { topic: dead, key: "k", payload: number.to_s, headers: { **origin, "pelton.offset" => number.to_s } }
  end)
  letters = alice.dead_letters(dead)

  # Rules count a moment after the controller has them. So the call is tried until it succeeds, or fails in another way.
  allow = lambda do |resource, *operations, until_error: nil, &call|
    operations.each { |operation| admin.create_acl(principal: "User:alice", operation: operation, **resource) }
    seen = nil
    eventually(20, -> { "#{operations} on #{resource}: #{seen.inspect}" }) do
      seen = begin
        [call.call]
      rescue Pelton::Error => e
        e
      end
      until_error ? seen.is_a?(Pelton::Error) && seen.message.match?(until_error) : seen.is_a?(Array)
    end
    puts "#{operations.join(", ")} on #{resource}: #{seen.is_a?(Array) ? "enough" : seen.message}"
    seen
  end
  refused = ->(name) { /\A#{name}: .*TOPIC_AUTHORIZATION_FAILED/ }

  raises(Pelton::KafkaError, refused.(status)) { letters.list }
  allow.({ topic: status }, :read, :describe, until_error: refused.(dead)) { letters.list }
  equal(3, allow.({ topic: dead }, :read, :describe) { letters.list }.first.size, "listed")

  delete = -> { letters.delete(limit: 1).handled }
  raises(Pelton::KafkaError, refused.(status)) { delete.call }
  id = "pelton.dead-letters.#{dead}"
  allow.({ topic: status }, :write, :create, until_error: /TRANSACTIONAL_ID_AUTHORIZATION_FAILED/, &delete)
  equal([1], allow.({ transactional_id: id }, :write, :describe, &delete), "deleted")

  redrive = -> { letters.redrive(limit: 1).handled }
  raises(Pelton::KafkaError, refused.(input)) { redrive.call }
  allow.({ topic: input }, :describe, until_error: /\A#{input}: Failed to add .*TOPIC_AUTHORIZATION_FAILED/, &redrive)
  equal([1], allow.({ topic: input }, :write, &redrive), "redriven")
  equal({ redriven: 1, deleted: 1, open: 1 }, letters.count_by(:status, status: :all), "status")
end
