# frozen_string_literal: true

require "support/kdc"
require "support/scenario"

# SASL/GSSAPI (Kerberos) with a real KDC, on a listener of a real broker. A build with GSSAPI logs in with a keytab, and
# says so when its key is another one's. Any other build refuses the mechanism, and names how to build it.

LISTENER = "KERBEROS"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"

def logs_in
  kdc = Kdc.new
  ENV["PELTON_BROKER_JVM"] = [*BrokerKit::HEAP, "-Djava.security.krb5.conf=#{kdc.config}"].join(" ")
  service = "kafka/127.0.0.1"
  jaas = "#{MODULE} required useKeyTab=true storeKey=true keyTab=\"#{kdc.keytab(service)}\" " \
         "principal=\"#{service}@#{Kdc::REALM}\";"
  broker = TestBroker.start(listeners: { LISTENER => "SASL_PLAINTEXT" }, settings: {
                              "listener.name.kerberos.sasl.enabled.mechanisms" => "GSSAPI",
                              "listener.name.kerberos.gssapi.sasl.jaas.config" => jaas,
                              "listener.name.kerberos.sasl.kerberos.service.name" => "kafka"
                            })
  self.bootstrap = broker.bootstrap
  name = topic
  secure = { "bootstrap.servers" => broker.bootstrap(LISTENER), "security.protocol" => "sasl_plaintext",
             "sasl.mechanisms" => "GSSAPI", "sasl.kerberos.service.name" => "kafka",
             "sasl.kerberos.principal" => "pelton@#{Kdc::REALM}", "sasl.kerberos.keytab" => kdc.keytab("pelton") }

  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.raw_payload } }
  both = app(group: unique("group"), kafka: secure) { topic(name, to: reader) }
  both.start
  both.producer.produce_sync(topic: name, payload: "with a ticket")
  equal(["with a ticket"], take(seen, 1), "messages")
  equal([], events(both, "error.occurred").map { |event| event[:error] }, "errors")
  equal(true, both.stop, "stop")
  equal(0, both.close, "undelivered")

  # --- no such service: the broker has no key for what the client asks ---------------------------------------------
  wrong = app(kafka: { **secure, "sasl.kerberos.service.name" => "elsewhere" })
  wrong.producer.produce_async(topic: name, payload: "no")
  eventually(30, "a word on it") do
    events(wrong, "error.occurred").any? { |event| event[:error].message.match?(/GSSAPI.*elsewhere/m) }
  end
  wrong.close(timeout: 0)
ensure
  broker&.stop
  kdc&.stop
end

def refused
  kafka = { "bootstrap.servers" => "127.0.0.1:1", "security.protocol" => "sasl_plaintext",
            "sasl.mechanisms" => "GSSAPI" }
  error = raises(Pelton::ConfigError) { app(kafka: kafka).producer.produce_async(topic: "orders", payload: "x") }
  check(error.message.match?(/GSSAPI.*build Pelton with PELTON_FEATURES=gssapi\z/), error.message)
end

Scenario.run do
  Pelton.librdkafka_features.include?("sasl_gssapi") ? logs_in : refused
end
