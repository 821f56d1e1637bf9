# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "stringio"
require "pelton/cli/cli"
require "pelton/web"

# Users with exactly the rights that docs/guides/access-rights.md and docs/guides/redriving-dead-letters.md name may do
# their work: one applies the topics, a server uses all that it can, one reads without a group, one opens the dashboard,
# one works with dead letters, and others with groups. An error says which right is missing, as the pages do.

# What `pelton groups` needs on these groups and on the topic orders.
GROUPS = {
  "copy billing refunds --overwrite --apply" => { "billing" => :describe, "refunds" => :read, "orders" => :read },
  "copy billing refunds --overwrite" => { "billing" => :describe, "refunds" => :describe, "orders" => :describe },
  "reset billing --to beginning --all-topics --apply" => { "billing" => :read, "orders" => :read },
  "reset billing --to beginning --all-topics" => { "billing" => :describe, "orders" => :describe },
  "delete billing --topic orders --yes" => { "billing" => :delete, "orders" => :read },
  "delete billing --yes" => { "billing" => :delete }
}.freeze
# The smaller right; Describe has none.
SMALLER = { read: :describe, delete: :describe }.freeze
# Each user has these rights, but a smaller one on one name (nil: on none): [user, command, rights, name]
CLERKS = GROUPS.flat_map { |command, rights| [*rights.keys, nil].map { |name| [command, rights, name] } }
               .map.with_index { |row, index| ["clerk#{index}", *row] }.freeze
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = [*%w[alice deployer keeper server script reader], *CLERKS.map(&:first)]
        .map { |user| "user_#{user}=\"hush\"" }.join(" ")
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
  ["server", %i[read create], { topic: "fresh" }],
  ["server", %i[read], { group: "fresh" }],
  ["script", %i[read], { topic: "orders" }],
  ["script", %i[read], { topic: "reports" }],
  ["script", %i[write], { transactional_id: "script" }],
  ["script", %i[describe], { group: "half" }],
  ["keeper", %i[describe create alter_configs], { topic: "kept" }],
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

  # Exit code and output of `pelton`.
  def run(app, *arguments)
    output = StringIO.new
    [Pelton::CLI.new(arguments, app: app, out: output, err: output).run, output.string]
  end

  # The same of `pelton topics apply`.
  def apply(partitions, retention)
    deployer = billing("deployer")
    deployer.topics do
      topic "orders", partitions: partitions, config: { "retention.ms" => retention }
      %w[payments receipts orders.dead].each { |name| topic name }
    end
    run(deployer, "topics", "apply", "--yes")
  end

  # The same for one topic, by another user.
  def keep(user, name, retention, what = "apply")
    app = as(user)
    app.topics { topic name, config: { "retention.ms" => retention } }
    run(app, "topics", what, *("--yes" if what == "apply"))
  end

  # The error events of a server of the user "script" with this route, once there is one.
  def refusals(topic, group, kafka = {})
    nothing = consumer { nil }
    app = as("script") { group(group, kafka: kafka) { topic(topic, to: nothing) } }
    app.start
    eventually(30, "a refusal") { errors(app).grep(/AUTHORIZATION/).any? }
    errors(app)
  ensure
    app&.stop
  end

  # What a transaction raises that produces to this topic.
  def transaction_error(topic)
    app = as("script")
    app.configure { |config| config.kafka = { **config.kafka, "transactional.id" => "script" } }
    raises(Pelton::KafkaError) do
      app.producer.transaction { |tx| tx.produce_async(topic: topic, payload: "x") }
    end
  end

  def errors(app) = events(app, "error.occurred").map { |event| event[:error].message }

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
  CLERKS.each do |user, _, rights, less|
    rights.each do |name, operation|
      operation = SMALLER[operation] if name == less
      resource = { (name == "orders" ? :topic : :group) => name }
      admin.create_acl(principal: "User:#{user}", operation: operation, **resource) if operation
    end
  end
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

  reader = billing("reader")
  web = Pelton::Web.new(reader, allow_remote: true)
  PAGES.each do |address|
    status, text = page(web, address)
    equal([200, nil], [status, text[/.{50}(?:AUTHORIZATION|Not known:).{50}/]], address)
  end
  eventually(30, "the report") { page(web, "/processes").last.include?("Live 1 of 1 process") }
  web.close
  equal([], errors(reader), "of the dashboard")
  code, said = run(reader, "top", "--once", "--topic", "reports")
  equal([0, nil, true], [code, said[/.*AUTHORIZATION.*/], said.match?(/^billing +1 /)], said)

  # --- readers without a group ---

  script = as("script")
  equal(%w[bad good late], script.each("orders").map(&:raw_payload).sort, "read by a script")
  code, said = run(script, "consume", "orders", "--from", "beginning", "--until", "end")
  equal([0, true], [code, said.include?("good")], said)
  # It has no right on the group.
  code, said = run(script, "top", "--once", "--topic", "reports")
  note = /^billing: lag as reported; this account may not describe the group: .*GROUP_AUTHORIZATION_FAILED, 30/
  equal([0, true, true], [code, said.match?(note), said.match?(/^billing +1 /)], said)
  equal([], errors(script), "of readers without a group")

  check(server.stop, "the stop")
  equal([], errors(server).grep(/AUTHORIZATION/), "what the server may not do")

  # --- a server that creates its topics ---

  nothing = consumer { nil }
  creating = as("server", group_id: "fresh", create_topics: true) { topic "fresh", to: nothing }
  creating.start
  eventually(30, "the topic") { admin.topics.key?("fresh") }
  check(creating.stop, "the stop")
  equal([], errors(creating).grep(/AUTHORIZATION/), "of the server that creates topics")

  # --- what a missing right causes ---

  3.times do |round| # it creates the topic, finds nothing to do, and changes the topic
    code, said = keep("keeper", "kept", round < 2 ? "1000" : "2000")
    equal(0, code, said)
  end
  topic_refused = /TOPIC_AUTHORIZATION_FAILED, 29/
  says = lambda do |pattern, (exit_code, text)|
    check(exit_code == 1 && text.match?(pattern) && text.match?(topic_refused), "#{exit_code}, #{text.inspect}")
  end
  says.(/^pelton: cluster 127.0.0.1:\d+: Topic auth/, keep("script", "orders", "1000", "plan")) # Describe Configs
  says.(/^pelton: other: Authorization failed/, keep("script", "other", "1000")) # Create
  { "none" => "FindCoordinator response error: ", "half" => "JoinGroup failed: " }.each do |group, text|
    said = refusals("orders", group)
    check(said.all? { |line| line.match?(/\A#{text}.*GROUP_AUTHORIZATION_FAILED, 30/) }, said.inspect)
  end
  said = refusals("orders", "half", { "group.protocol" => "consumer" })
  fatal = /\AConsumerGroupHeartbeat fatal error: .*GROUP_AUTHORIZATION_FAILED, 30.*fatal/
  check(said.first.match?(fatal), said.inspect)
  said = transaction_error("orders").message # it may read there
  check(said.match?(/\AFailed to add partition\(s\) to transaction .*TOPIC_AUTHORIZATION_FAILED, 29/), said)
  said = transaction_error("receipts").message
  check(said.match?(/\A.*TOPIC_AUTHORIZATION_FAILED, 29\) for receipts\z/), said)

  # --- groups ---

  CLERKS.each do |user, command, rights, less|
    code, said = run(as(user), "groups", *command.split)
    about = "#{command} with less on #{less.inspect}: #{said}"
    puts about
    # Kafka leaves out topics without Describe, such as payments.
    unseen = less == "orders" && rights[less] == :describe
    equal(less.nil? || unseen ? 0 : 1, code, about)
    refused = less == "orders" ? topic_refused : /GROUP_AUTHORIZATION_FAILED, 30/
    equal([!code.zero?, false], [said.match?(refused), said.include?("payments")], about)
    check(unseen ^ said.match?(/orders/), about) if code.zero? && rights.key?("orders")
  end
  equal(["orders"], admin.group_offsets("refunds").compact.keys.map(&:first).uniq, "copied")
  check(!admin.groups.key?("billing"), "deleted")

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
