# frozen_string_literal: true

# first: it takes minutes
# once: the symptoms and their texts are the same on every Ruby

require "support/scenario"

# docs/guides/troubleshooting.md quotes messages of Pelton's. Each is triggered here, and is what Pelton says today.

PAGE = File.read(File.join(Scenario::ROOT, "docs/guides/troubleshooting.md"))
# Cells that quote one message: "group_id: is not set: set config.group_id, or declare the topic…"
QUOTED = PAGE.scan(/^\| `([^`]+)` \|/).flatten.freeze
NOWHERE = "localhost:1"

# What an app logs and what calls raise, as text.
class Said
  def initialize
    @texts = Thread::Queue.new
    @all = []
  end

  %i[debug info warn error].each { |severity| define_method(severity) { |text| @texts << text } }

  # The block's error is kept.
  def raised
    yield
  rescue Pelton::Error => e
    @texts << e.message
  end

  def all
    @all << @texts.pop until @texts.empty?
    @all
  end

  def line?(pattern) = all.any? { |text| text.match?(pattern) }
end

# /Failed\ to\ resolve\ .*/m for "Failed to resolve …"
def pattern_of(quoted)
  Regexp.new(quoted.split("…", -1).map { |part| Regexp.escape(part) }.join(".*"), Regexp::MULTILINE)
end

Scenario.run do
  said = Said.new
  fails = consumer { raise IOError, "the ledger is busy" }
  works = consumer { messages }
  wait_for = ->(words) { eventually(30, "the log of #{words}") { said.line?(pattern_of(words)) } }
  produce = lambda do |kafka: {}, settings: {}, **message|
    client = app(kafka: kafka, logger: said, **settings)
    said.raised { client.producer.produce_sync(topic: "nowhere", payload: "x", **message) }
  end
  # Runs a consumer beside one message until the words are logged.
  consume = lambda do |type, words, payload: "{}", settings: {}, kafka: {}, stop: nil, &route|
    name = topic
    server = app(group: unique("group"), logger: said, kafka: kafka, **settings) do
      topic(name, to: type) { instance_exec(name, &route) if route }
    end
    server.start
    server.producer.produce_sync(topic: name, payload: payload)
    stop&.call(server)
    wait_for.(words)
    server.stop(timeout: 10)
    server
  end

  # --- it does not start
  said.raised { Pelton::App.new.producer.produce_sync(topic: "x", payload: "y") }
  said.raised { Pelton::App.new.routes { topic("x") } }
  said.raised { app { topic("x", to: works) }.start }
  said.raised { app(group: "x").start }
  produce.(kafka: { "lingr.ms" => "1" })
  said.raised { Pelton::App.new.config.concurency = 3 }
  said.raised { Pelton::App.new.routes { topic("x", to: works) { retires 3 } } }
  said.raised { app(group: "x") { topic("x", to: "Missing") }.start }
  said.raised { app(group: "x") { topic("x", to: Class.new(Pelton::Consumer)) }.start }
  twice = app(group: unique("group")) { topic("x", to: works) }
  twice.start
  said.raised { twice.config.group_id = "y" }
  said.raised { twice.start }

  # --- it does not reach Kafka; a message is not delivered
  soon = { "message.timeout.ms" => "1500" }
  produce.(kafka: { "bootstrap.servers" => NOWHERE, **soon })
  produce.(kafka: { "bootstrap.servers" => "kafka.invalid:9092", **soon })
  produce.(kafka: { "security.protocol" => "ssl", **soon })
  produce.(kafka: { "security.protocol" => "sasl_plaintext", "sasl.mechanisms" => "PLAIN", "sasl.username" => "a",
                    "sasl.password" => "b", **soon })
  login = "org.apache.kafka.common.security.plain.PlainLoginModule required user_pelton=\"right\";"
  guarded = TestBroker.start(listeners: { "LOGIN" => "SASL_PLAINTEXT" },
                             settings: { "listener.name.login.sasl.enabled.mechanisms" => "PLAIN",
                                         "listener.name.login.plain.sasl.jaas.config" => login })
  produce.(kafka: { "bootstrap.servers" => guarded.bootstrap("LOGIN"), "security.protocol" => "sasl_plaintext",
                    "sasl.mechanisms" => "PLAIN", "sasl.username" => "pelton", "sasl.password" => "wrong", **soon })
  wait_for.("SASL authentication error: …")
  guarded.stop
  produce.()
  orders = topic
  produce.(topic: orders, partition: 77)
  produce.(topic: orders, payload: "x" * 2_000_000)
  produce.(topic: orders, payload: { id: 1 })
  produce.(kafka: { "bootstrap.servers" => NOWHERE }, settings: { delivery_timeout: 0.2 })
  full = app(kafka: { "bootstrap.servers" => NOWHERE, "queue.buffering.max.messages" => 1 }, queue_timeout: 0.1)
  said.raised { 3.times { full.producer.produce_async(topic: "x", payload: "y") } }
  full.close(timeout: 0)
  id = unique("id")
  first, second = Array.new(2) { app(kafka: { "transactional.id" => id }).producer }
  [first, second, first].each do |producer|
    said.raised { producer.transaction { |tx| tx.produce_async(topic: orders, payload: "x") } }
  end
  parent = app(after_fork: :error)
  parent.producer.produce_sync(topic: orders, payload: "x")
  reader, writer = IO.pipe
  forked do
    parent.producer.produce_sync(topic: orders, payload: "x")
  rescue Pelton::ForkError => e
    writer.write(e.message)
  end.call
  writer.close
  said.error(reader.read)
  exits = ruby("-rpelton", "-e", <<~RUBY)
    Pelton.configure { |config| config.kafka = { "bootstrap.servers" => "#{NOWHERE}" } }
    Pelton.config.flush_timeout = 0.2
    2.times { Pelton.producer.produce_async(topic: "orders", payload: "x") }
  RUBY
  exit_code(exits)
  said.error(exits.output)

  # --- messages are not consumed
  missing = app(group: unique("group"), logger: said) { topic("missing-topic", to: works) }
  missing.start
  wait_for.("Subscribed topic not available: …")
  missing.stop
  invalid = app(group: unique("group"), logger: said, # the test's broker allows 1 s, others 6 s
                kafka: { "session.timeout.ms" => 900, "heartbeat.interval.ms" => 200 }) { topic(orders, to: works) }
  invalid.start
  wait_for.("JoinGroup failed: Broker: Invalid session timeout (INVALID_SESSION_TIMEOUT, 26)")
  invalid.stop
  consume.(consumer { messages.each(&:payload) }, "payload cannot be decoded: invalid JSON", payload: "{oops") do
    decode :json
  end
  consume.(fails, "… stopped at offset … after … attempts") { retries 1, backoff: 0..0 }
  consume.(fails, "forward (…): Pelton::DeliveryError: …") do
    dead_letters "missing-letters", retries: 0
  end
  consume.(works, "no previously committed offset available") { from :error }
  around = Class.new(works) { def around(_action) = nil }
  consume.(around, "#around must call its block")
  consume.(Class.new(works) { def on_revoked; end }, "…#on_revoked is never called: rename it to revoked")
  name = topic
  topic(name: "#{name}.retry.1000")
  topic(name: "#{name}.retry.1")
  renamed = unique("group")
  before = app(group: renamed, logger: said) { topic(name, to: fails) { retry_in 1000 } }
  before.start
  before.producer.produce_sync(topic: name, payload: "x")
  eventually(30, "a message in the retry topic") { committed(renamed, name, 1) == [1] }
  before.stop
  after = app(group: renamed, logger: said) { topic(name, to: fails) { retry_in 1 } }
  after.start
  wait_for.("1 message waits there for the group …")
  after.stop
  group = unique("group")
  members = Array.new(2) do
    app(group: group, kafka: { "group.instance.id" => "one" }, logger: said) { topic(orders, to: works) }
  end
  members.first.start
  eventually(30, "the first member's partition") { members.first.assignments.any? }
  said.raised { members.first.admin.alter_group_offsets(group, { [orders, 0] => 0 }) }
  members.last.start
  wait_for.("Static consumer fenced by other consumer with same group.instance.id")
  group = unique("group")
  members = Array.new(2) do
    app(group: group, kafka: { "group.protocol" => "consumer", "group.instance.id" => "one" }, logger: said) do
      topic(orders, to: works)
    end
  end
  members.first.start
  eventually(30, "the first member's partition") { members.first.assignments.any? }
  members.last.start
  wait_for.("still used by another member in the consumer group (UNRELEASED_INSTANCE_ID, 111)")
  members.each(&:stop)

  started = Thread::Queue.new
  calls = 0
  asks = consumer { (calls += 1) == 1 && (started << true) && (IO.select(nil, nil, nil, 0.02) until revoked?) }
  name = topic
  group = unique("group")
  members = Array.new(2) { app(group: group, logger: said) { topic(name, to: asks) } }
  members.first.producer.produce_sync(topic: name, payload: "x")
  members.first.start
  take(started, 1)
  members.last.start
  wait_for.("a call returned after revoked? was true, so … will be repeated")
  members.each(&:stop)

  # --- it does not stop, or something is left
  sleeps = Class.new(Pelton::Consumer) { define_method(:process) { |_| (started << true) && Thread.stop } }
  consume.(sleeps, "ended by force: …", stop: ->(server) { take(started, 1) && server.stop(timeout: 0.5) })
  over = Thread::Queue.new
  leaves = consumer { (started << true) && Thread.new { over.pop } }
  consume.(leaves, "thread … started at …", stop: ->(server) { take(started, 1) && server.stop })
  over << true

  check(QUOTED.size > 30, "#{QUOTED.size} messages are quoted")
  unknown = QUOTED.reject { |quoted| said.line?(pattern_of(quoted)) }
  check(unknown.empty?, "the page quotes what is not said: #{unknown.join("\n  ")}\nsaid:\n  #{said.all.join("\n  ")}")
end
