# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "stringio"
require "support/scenario"
require "pelton/reporters/log"

# SASL/OAUTHBEARER with config.oauth, on a listener of a real broker that takes unsecured JSON Web Tokens: producer and
# consumer get their tokens, and new ones before those expire, again and again; a callback that fails is told.

LISTENER = "OAUTH"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SETTINGS = {
  "listener.name.oauth.sasl.enabled.mechanisms" => "OAUTHBEARER",
  "listener.name.oauth.oauthbearer.sasl.jaas.config" => "#{MODULE} required unsecuredLoginStringClaim_sub=\"broker\";",
  # A connection ends when its token does, if the client brings no new one.
  "connections.max.reauth.ms" => "60000"
}.freeze
# Seconds. librdkafka renews a token after 80 % of its life (looking once a second) and logs in anew after 90 % of a
# session, which ends with its token; Kafka refuses to do so twice within a second.
LIFE = 20

Scenario.run do
  broker = TestBroker.start(listeners: { LISTENER => "SASL_PLAINTEXT" }, settings: SETTINGS)
  self.bootstrap = broker.bootstrap
  name = topic
  secure = { "bootstrap.servers" => broker.bootstrap(LISTENER), "security.protocol" => "sasl_plaintext",
             "sasl.mechanisms" => "OAUTHBEARER", "debug" => "security,broker", "log_level" => 7 }

  # How many tokens each client got: {"pelton.producer#1" => 2}
  asked = Hash.new(0)
  lock = Mutex.new
  token = lambda do |client, life = LIFE|
    lock.synchronize { asked[client] += 1 }
    now = Time.now
    claims = { sub: "hush-subject", iat: now.to_f, exp: now.to_f + life }
    jwt = [{ alg: "none" }, claims].map { |part| [JSON.generate(part)].pack("m0").tr("+/", "-_").delete("=") }
    { token: "#{jwt.join(".")}.", expires_at: now + life, principal: "pelton" }
  end

  # --- a callback that fails at first (librdkafka asks again 10 s later) -------------------------------------------
  tries = 0
  go_on = Thread::Queue.new # closed once the first failure was seen
  flaky = lambda do |client|
    raise IOError, "no route to the token server" if (tries += 1) == 1

    go_on.pop
    token.(client, 600)
  end
  late = app(kafka: secure, oauth: flaky, client_id: "late")
  late.producer.produce_async(topic: name, payload: "late")
  eventually(5, "a word on it") { events(late, "error.occurred").any? { |event| event[:source] == "oauth" } }
  error = raises(Pelton::WaitTimeout) { late.producer.produce_sync(topic: name, payload: "late", timeout: 1) }
  check(error.message.include?("no route to the token server"), "the wait's error tells why: #{error.message}")
  failures = events(late, "error.occurred").select { |event| event[:source] == "oauth" }
  equal([[late.producer.name, IOError]], failures.map { |event| [event[:client], event[:error].class] }, "failures")
  go_on.close

  # --- both directions, while tokens come and go -----------------------------------------------------------------
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.raw_payload } }
  both = app(group: unique("group"), kafka: secure, oauth: token) { topic(name, to: reader) }
  log = StringIO.new
  both.subscribe(Pelton::Reporters::Log.new(log))
  both.start
  sent = 0
  ours = -> { lock.synchronize { asked.reject { |client, _| client.start_with?("late") } } }
  eventually(60, "three tokens for each") do
    both.producer.produce_sync(topic: name, payload: (sent += 1).to_s)
    work(0.05)
    ours.().size == 2 && ours.().values.min >= 3
  end
  equal((1..sent).map(&:to_s), take(seen, sent + 2).grep_v("late"), "messages")
  equal([], events(both, "error.occurred").map { |event| event[:error] }, "errors")
  check(Thread.list.map(&:name).include?("pelton.oauth"), "pelton.oauth runs")
  eventually(20, "statistics of both") do
    events(both, "statistics.emitted").map { |event| event[:client] }.uniq.size == 2
  end
  told = events(both, "statistics.emitted").map { |event| event.payload.values_at(:client, :statistics) }
  equal(ours.().keys.sort, told.map(&:first).uniq.sort, "clients with statistics, since somebody listens")
  check(told.all? { |_, statistics| statistics["brokers"].is_a?(Hash) && statistics["time"].positive? }, "parsed")
  equal(true, both.stop, "stop")
  equal(0, both.close, "undelivered")
  check(log.string.match?(/oauth/i), "there is a log")
  encoded = ["hush-subject"].pack("m0").delete("=")[0, 10]
  texts = [log.string, both.inspect, both.config.inspect, *events(both, "kafka.log").map(&:inspect)]
  equal([], texts.grep(/hush|#{encoded}/), "secrets")

  check(late.producer.flush, "the message went out with the second token")
  equal(2, tries, "tries")
  equal(0, late.close, "undelivered")

  # --- a token that the broker refuses ---------------------------------------------------------------------------
  refused = app(kafka: secure, oauth: ->(_) { { token: "hush.hush.", expires_in: 600 } })
  refused.producer.produce_async(topic: name, payload: "no")
  eventually(20, "a word on it") do
    events(refused, "error.occurred").any? { |event| event[:error].message.include?("_AUTHENTICATION") }
  end
  error = raises(Pelton::WaitTimeout) { refused.producer.produce_sync(topic: name, payload: "no", timeout: 1) }
  check(error.message.match?(/_AUTHENTICATION/), "the wait's error tells why: #{error.message}")
  refute_secret = [error.message, *events(refused, "kafka.log").map(&:inspect),
                   *events(refused, "error.occurred").map(&:inspect)].grep(/hush/)
  equal([], refute_secret, "secrets")
  refused.close(timeout: 0)

  # --- one that hangs ends with its client -----------------------------------------------------------------------
  hung = app(kafka: secure, oauth: ->(_) { Thread::Queue.new.pop })
  raises(Pelton::WaitTimeout) { hung.producer.produce_sync(topic: name, payload: "no", timeout: 1) }
  check(seconds { hung.close(timeout: 0) } < 5 * Guard::PATIENCE, "the close does not wait for the callback")
ensure
  broker&.stop
end
