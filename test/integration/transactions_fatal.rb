# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/exactly_once"

# Fatal errors right after the first message of a transaction. The process goes on, and loses no other message.

Scenario.run do
  name = topic
  app = app(kafka: { "transactional.id" => unique("id") }, reload_backoff: 0, reload_attempts: 1000)
  native = -> { app.producer.instance_variable_get(:@native).instance_variable_get(:@replacement).client }
  sent = Array.new(40) do |number|
    app.producer.produce_sync(topic: name, payload: number.to_s)
    begin
      app.producer.transaction do |tx|
        tx.produce_async(topic: name, payload: "fails")
        native.call.fail_for_good(46, "for a test")
      end
    rescue Pelton::KafkaError
      nil # the error itself, or the message that it cost
    end
    number.to_s
  end
  seen = -> { ExactlyOnce.read(bootstrap, name, 1, "read_committed").values.flatten - ["fails"] }
  eventually(20, -> { "committed: expected #{sent}, got #{seen.call}" }) { seen.call == sent }
  check(events(app, "producer.reloaded").any?, "the client was replaced")
end
