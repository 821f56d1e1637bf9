# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/ledger"

# A broker that is not there, goes away in mid-stream, and comes back.

# Short waits of librdkafka's between its attempts.
QUICK = { "reconnect.backoff.ms" => 50, "reconnect.backoff.max.ms" => 250 }.freeze

Scenario.run do
  # --- nobody there ----------------------------------------------------------------------------------------------
  self.bootstrap = "127.0.0.1:1"
  lonely = app(kafka: QUICK)
  lonely.producer.produce_async(topic: "nowhere", payload: "2")
  eventually(5, "the reason as an event") do
    events(lonely, "error.occurred").any? { |event| event[:error].message.match?(/refused|brokers are down/i) }
  end
  took = seconds do
    raises(Pelton::WaitTimeout, /delivery to nowhere not finished after 1.*last error: .*(refused|down)/i) do
      lonely.producer.produce_sync(topic: "nowhere", payload: "1", timeout: 1)
    end
  end
  check(took.between?(0.9, 2.5 * Guard::PATIENCE), "produce_sync with a timeout of 1 s took #{took} s")
  lost = nil
  took = seconds { lost = lonely.producer.close(timeout: 1) }
  equal(2, lost, "messages that could not be delivered")
  check(took < 4 * Guard::PATIENCE, "close took #{took} s")
  failed = lambda do
    events(lonely, "message.delivery_failed").map { |event| [event[:topic], event[:error].code] }
  end
  eventually(5, "two events") { failed.call.size >= 2 } # a close waits for them, but not for long
  equal([["nowhere", -152]] * 2, failed.call, "events for the messages that nobody waits for (any more)")

  given_up = app(kafka: { **QUICK, "message.timeout.ms" => 1500 })
  took = seconds do
    error = raises(Pelton::DeliveryError, /timed out.*_MSG_TIMED_OUT.*nowhere/i) do
      given_up.producer.produce_sync(topic: "nowhere", payload: "1")
    end
    equal(["nowhere", :_MSG_TIMED_OUT, false], [error.topic, error.name, error.fatal?], "what the error tells")
  end
  check(took < 5 * Guard::PATIENCE, "giving up after 1.5 s took #{took} s")
  equal(0, given_up.close(timeout: 2), "what is left when it was given up already")

  group = unique("group")
  waiting = app(group: group, kafka: QUICK, shutdown_timeout: 5, flush_timeout: 1) do
    topic("nowhere", to: Class.new(Pelton::Consumer) { def consume; end })
  end
  waiting.start
  eventually(5, "the reason as an event") do
    events(waiting, "error.occurred").any? { |event| event[:error].message.match?(/refused|brokers are down/i) }
  end
  took = seconds { waiting.stop }
  check(took < 6.5 * Guard::PATIENCE, "stop beside a dead broker took #{took} s with a deadline of 5 s")

  # --- killed and back in mid-stream -----------------------------------------------------------------------------
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  broker.create_topics("stream" => 2)
  topic(partitions: 2, name: "stream")

  file = Tempfile.new("ledger")
  ledger = Ledger.new(file.path)
  reader = consumer do
    messages.each { |message| ledger.processed(object_id, partition, message.raw_payload.to_i / 2) }
  end
  # Without idempotence, librdkafka may send what waits for the broker in another order.
  options = { **QUICK, "session.timeout.ms" => 6000, "linger.ms" => 5, "enable.idempotence" => true }
  server = app(group: group, kafka: options,
               shutdown_timeout: 5, flush_timeout: 1) { topic("stream", to: reader) }
  server.start
  sent = 0
  deliveries = []
  send_some = lambda do
    rows = Array.new(50) { |index| { topic: "stream", partition: (sent + index) % 2, payload: (sent + index).to_s } }
    sent += 50
    deliveries << server.producer.produce_many_async(rows)
  end
  20.times { send_some.call }
  # Each partition has every other number.
  report = -> { ledger.report({ 0 => sent / 2, 1 => sent / 2 }) }
  eventually(30, -> { "500 messages: #{report.call}" }) { report.call.processed >= 500 }
  20.times do |round|
    send_some.call
    broker.kill(:KILL) if round == 10
  end
  check(!broker.alive?, "the broker is dead")
  check(deliveries.any? { |delivery| !delivery.done? }, "some deliveries are open while the broker is dead")
  broker.restart
  10.times { send_some.call }
  deliveries.each { |delivery| delivery.wait(timeout: 40 * Guard::PATIENCE) }
  eventually(40, -> { "all messages: #{report.call}" }) do
    found = report.call
    found.processed - found.duplicates == sent
  end
  puts report.call
  equal([], report.call.problems.first(5), "lost, or out of order")

  # --- stopping beside a dead broker -----------------------------------------------------------------------------
  broker.kill(:KILL)
  took = seconds { server.stop }
  check(took < 6.5 * Guard::PATIENCE, "stop beside a dead broker took #{took} s with a deadline of 5 s")
  took = seconds { equal(0, server.close(timeout: 2), "undelivered") }
  check(took < 5 * Guard::PATIENCE, "close beside a dead broker took #{took} s")
ensure
  broker&.stop
  file&.close!
end
