# frozen_string_literal: true

require "tempfile"
require "support/scenario"
require "support/token_endpoint"

# SASL/OAUTHBEARER with sasl.oauthbearer.method=oidc, on a listener of a real broker that takes unsecured JSON Web
# Tokens. A build with OIDC fetches tokens from an HTTPS endpoint, again before they expire, and says why it gets none.
# Any other build refuses the option, and names the two ways out.

LISTENER = "OAUTH"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SETTINGS = {
  "listener.name.oauth.sasl.enabled.mechanisms" => "OAUTHBEARER",
  "listener.name.oauth.oauthbearer.sasl.jaas.config" => "#{MODULE} required unsecuredLoginStringClaim_sub=\"broker\";"
}.freeze
OIDC = { "security.protocol" => "sasl_plaintext", "sasl.mechanisms" => "OAUTHBEARER",
         "sasl.oauthbearer.method" => "oidc", "sasl.oauthbearer.client.id" => "orders",
         "sasl.oauthbearer.client.secret" => "hush-secret" }.freeze

def fetches_tokens
  endpoint = TokenEndpoint.new(client: "orders", secret: "hush-secret", life: 20)
  authority = Tempfile.create("authority").tap { |file| file.write(endpoint.authority) && file.close }
  broker = TestBroker.start(listeners: { LISTENER => "SASL_PLAINTEXT" }, settings: SETTINGS)
  self.bootstrap = broker.bootstrap
  name = topic
  secure = { **OIDC, "bootstrap.servers" => broker.bootstrap(LISTENER), "https.ca.location" => authority.path,
                     "sasl.oauthbearer.token.endpoint.url" => endpoint.url }

  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.raw_payload } }
  both = app(group: unique("group"), kafka: secure) { topic(name, to: reader) }
  both.start
  both.producer.produce_sync(topic: name, payload: "with a fetched token")
  equal(["with a fetched token"], take(seen, 1), "messages")
  eventually(60, "a new token for each client") { endpoint.answers.size >= 4 }
  equal([200], endpoint.answers.uniq, "answers")
  equal([], events(both, "error.occurred").map { |event| event[:error] }, "errors")
  equal(true, both.stop, "stop")
  equal(0, both.close, "undelivered")

  # --- what does not work is told --------------------------------------------------------------------------------
  {
    { "sasl.oauthbearer.client.secret" => "hush-wrong" } => /invalid_client|401/,
    { "https.ca.location" => nil } => /certificate|SSL peer/i
  }.each do |options, pattern|
    refused = app(kafka: { **secure, **options }.compact)
    refused.producer.produce_async(topic: name, payload: "no")
    eventually(20, "a word on #{options.keys}") do
      events(refused, "error.occurred").any? { |event| event[:error].message.match?(pattern) }
    end
    equal([], events(refused, "error.occurred").map(&:inspect).grep(/hush/), "secrets")
    refused.close(timeout: 0)
  end
  # librdkafka goes on for a while. A process that exits meanwhile may crash: the guide says so.
  eventually(60, "the end of all requests for tokens") do
    Dir.glob("/proc/self/task/*/comm").none? { |file| File.read(file) == "rdk:bg\n" }
  end
ensure
  broker&.stop
  endpoint&.close
  File.delete(authority.path) if authority
end

def refused
  error = raises(Pelton::ConfigError) { app(kafka: OIDC).producer.produce_async(topic: "orders", payload: "x") }
  check(error.message.match?(/\Asasl\.oauthbearer\.method = "oidc": .* set config\.oauth .* PELTON_FEATURES=oidc\z/),
        "the error names both ways: #{error.message}")
end

Scenario.run do
  Pelton.librdkafka_features.include?("oidc") ? fetches_tokens : refused
end
