# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# A user with exactly the rights that docs/guides/redriving-dead-letters.md names may list, redrive and delete letters.
# Without one of them, the error says which.

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = { "authorizer.class.name" => "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
             "super.users" => "User:ANONYMOUS", "listener.name.users.sasl.enabled.mechanisms" => "PLAIN",
             "listener.name.users.plain.sasl.jaas.config" => "#{MODULE} required user_alice=\"hush\";" }.freeze

Scenario.run do
  broker = TestBroker.start(listeners: { "USERS" => "SASL_PLAINTEXT" }, settings: SETTINGS)
  self.bootstrap = broker.bootstrap
  input = topic
  dead = topic
  status = "#{dead}.status"
  admin = app.admin
  alice = app(kafka: { "bootstrap.servers" => broker.bootstrap("USERS"), "security.protocol" => "sasl_plaintext",
                       "sasl.mechanisms" => "PLAIN", "sasl.username" => "alice", "sasl.password" => "hush" })
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
