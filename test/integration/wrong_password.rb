# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "json"
require "support/scenario"

# A password that Kafka refuses: Pelton.each and `pelton doctor` say so, and not only that Kafka did not answer in time.

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
  "listener.name.login.sasl.enabled.mechanisms" => "PLAIN",
  "listener.name.login.plain.sasl.jaas.config" => "#{MODULE} required user_pelton=\"right\";"
}.freeze

Scenario.run do
  broker = TestBroker.start(listeners: { "LOGIN" => "SASL_PLAINTEXT" }, settings: SETTINGS)
  self.bootstrap = broker.bootstrap
  name = topic
  options = { "bootstrap.servers" => broker.bootstrap("LOGIN"), "security.protocol" => "sasl_plaintext",
              "sasl.mechanisms" => "PLAIN", "sasl.username" => "pelton" }
  right = app(kafka: { **options, "sasl.password" => "right" })
  right.producer.produce_sync(topic: name, payload: "1")
  equal(["1"], right.each(name).map(&:raw_payload), "with the right password")

  wrong = app(kafka: { **options, "sasl.password" => "geheim" })
  error = raises(Pelton::KafkaError, /Authentication failed/) { wrong.each(name, timeout: 3).first }
  equal(false, error.message.include?("geheim"), "the password in the error")

  file = Tempfile.new(["app", ".rb"])
  file.write(<<~RUBY)
    Pelton.configure { |config| config.kafka = #{{ **options, "sasl.password" => "geheim" }.inspect} }
  RUBY
  file.close
  child = pelton("doctor", "-r", file.path, "--json", "--timeout", "5")
  equal(1, exit_code(child, 60), "exit code of the doctor")
  finding = JSON.parse(child.output)["findings"].find { |candidate| candidate["level"] == "error" }
  check(finding["text"].include?("Authentication failed"), "the doctor says why: #{finding}")
  equal(false, child.output.include?("geheim"), "the password in the report")
  broker.stop
end
