# frozen_string_literal: true

require "support/scenario"

# What programs that end without a flush or close leave in a real Kafka, and what they say: one-message scripts, a
# preforking master and its workers, SIGTERM, a topic that does not exist, a broker that is away, no bootstrap.servers.
SETUP = <<~RUBY
  require "pelton"
  Pelton.configure { |config| config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") } }
  TOPIC = ENV["TOPIC"]
  def produce(payload) = Pelton.producer.produce_async(topic: TOPIC, payload: payload)
RUBY

Scenario.run do
  name = topic(partitions: 2)
  run = lambda do |code, code_expected, env = {}|
    child = ruby("-e", SETUP + code, env: { "TOPIC" => name, **env })
    equal(code_expected, exit_code(child, 40), "exit code of #{code.inspect}: #{child.output}")
    child.output
  end

  # --- what ends well is delivered, without a word ---
  6.times { |number| equal("", run.("produce('script-#{number}')", 0), "output") }
  equal("", run.("produce('exit 3'); exit 3", 3), "output")
  run.("produce('raised'); raise 'on purpose'", 1)
  run.("produce('terminated'); Process.kill(:TERM, Process.pid); Thread.stop", 143)
  equal("", run.("at_exit { produce('at_exit') }", 0), "output")
  equal("", run.(<<~RUBY, 0), "output of a preforking server")
    produce("master")
    2.times { |number| fork { produce("worker \#{number}") } }
    Process.waitall
    produce("master again")
  RUBY
  sent = Array.new(6) { |number| "script-#{number}" } +
         ["exit 3", "raised", "terminated", "at_exit", "master", "worker 0", "worker 1", "master again"]
  found = read(name, 2, sent.size).map { |_, message| message.raw_payload }
  equal(sent.sort, found.sort, "what arrived")

  # --- what cannot be delivered is said ---
  said = run.("Pelton.config.flush_timeout = 2; 3.times { produce('x') }", 0, "TOPIC" => unique("missing"))
  check(said.match?(/^pelton: pelton\.producer#1: 3 messages to missing-\S+ not delivered at process exit/), said)
  check(said.include?("UNKNOWN_TOPIC_OR_PART"), said)
  said = run.("Pelton.config.flush_timeout = 1; produce('x')", 0, "PELTON_BOOTSTRAP" => "127.0.0.1:1")
  check(said.match?(/1 message to #{name} not delivered .* within flush_timeout \(1\.0 s\): .*refused/), said)
  said = run.("Pelton.config.kafka = {}; Pelton.producer", 0)
  equal("", said, "a producer that is not used")
  said = run.("Pelton.config.kafka = {}; produce('x')", 1)
  check(said.include?('config.kafka = { "bootstrap.servers" => "localhost:9092" }'), said)

  # --- a broker that is away is one line, and one at the end with the count ---
  said = run.(<<~RUBY, 0, "PELTON_BOOTSTRAP" => "127.0.0.1:1")
    Pelton.config.flush_timeout = 0.5
    Pelton.config.kafka = { **Pelton.config.kafka, "reconnect.backoff.ms" => 20, "reconnect.backoff.max.ms" => 50 }
    20.times { produce('x') }
    IO.select(nil, nil, nil, 5)
  RUBY
  refused = said.lines.grep(/ERROR .*refused/)
  check(refused.size.between?(1, 2), "#{refused.size} lines: #{said}")

  # --- in the log of `pelton server`, too ---
  said = run.(<<~RUBY, 0, "PELTON_BOOTSTRAP" => "127.0.0.1:1")
    require "pelton/reporters/log"
    Pelton.subscribe(Pelton::Reporters::Log.new($stderr))
    away = Thread::Queue.new
    Pelton.subscribe("error.occurred") { |event| away << 1 if event[:error].name == :_ALL_BROKERS_DOWN }
    class Idle < Pelton::Consumer
      def consume = nil
    end
    Pelton.config.group_id = "idle"
    Pelton.routes { topic TOPIC, to: Idle }
    server = Pelton.start
    200.times { away.size > 9 ? break : IO.select(nil, nil, nil, 0.1) }
    abort "librdkafka reports that all brokers are down \#{away.size} times" if away.size < 10
    server.stop
  RUBY
  failed = said.lines.grep(/ (WARN|ERROR) /)
  check(failed.size.between?(1, 3), "#{failed.size} lines: #{said}")
  check(failed.none? { |line| line.include?("FAIL:") }, said)

  # --- flush says that messages failed, and the log which ---
  quiet = app(kafka: { "topic.metadata.propagation.max.ms" => 500 })
  missing = unique("missing")
  2.times { quiet.producer.produce_async(topic: missing, payload: "x") }
  quiet.producer.produce_async(topic: name, payload: "there")
  equal(false, quiet.producer.flush, "flush")
  equal({ missing => 2 }, quiet.producer.failures.transform_values { |counts| counts.values.sum }, "failures")
  failed = events(quiet, "producer.flush_failed").first
  equal([missing], failed[:failures].keys, "the event's topics")
  equal(true, quiet.producer.flush, "the next flush")
  equal(0, quiet.close, "undelivered")
end
