# frozen_string_literal: true

require_relative "../support/scenario"

# Tombstones, partition keys, labels, the buffer and middleware on a real broker: what a reader finds is what was meant.

# Middleware that keeps each message with its report.
class Outcomes
  attr_reader :found

  def initialize = @found = []
  def call(message) = message
  def on_delivery(message, report) = @found << [message, report]
end

Scenario.run do
  name = topic(partitions: 3)
  app = app(kafka: { "linger.ms" => 0 })
  producer = app.producer

  # --- tombstones ---
  kept = producer.produce_sync(topic: name, payload: "v", key: "7")
  gone = producer.tombstone_sync(topic: name, key: "7", headers: { "why" => "gdpr" })
  equal(kept.partition, gone.partition, "partition of a key and of its tombstone")
  many = producer.tombstone_many_sync([{ topic: name, key: "8" }, { topic: name, key: "9", partition: 1 }])
  equal(1, many.reports[1][1], "partition that was given")
  messages = read(name, 3, 4).map(&:last)
  found = messages.map { |message| [message.key, message.raw_payload] }.sort_by do |key, payload|
    [key, payload ? 0 : 1]
  end
  equal([["7", "v"], ["7", nil], ["8", nil], ["9", nil]], found, "keys and payloads")
  equal([true], messages.select { |message| message.headers["why"] }.map(&:tombstone?), "the tombstone with a header")

  # --- an empty key, payload and header are not missing ones ---
  empty = topic
  headers = { "" => "", "nil" => nil, "many" => %w[a b] }
  producer.produce_sync(topic: empty, payload: "", key: "", headers: headers)
  producer.produce_sync(topic: empty, payload: "x")
  first, second = read(empty, 1, 2).map(&:last)
  equal(["", "", headers], [first.raw_payload, first.key, first.headers], "empty")
  equal([nil, {}], [second.key, second.headers], "missing")

  # --- partition keys, of a topic that is not there, too ---
  wide = topic(partitions: 8)
  same = Array.new(10) { |number| producer.produce_async(topic: wide, payload: number.to_s, partition_key: "tenant-1") }
  Pelton::Delivery.wait_all(same)
  equal(1, same.map(&:partition).uniq.size, "partitions of one partition key")
  missing = unique("missing")
  took = seconds do
    raises(Pelton::DeliveryError, /UNKNOWN_TOPIC.*#{missing}/) do
      producer.produce_async(topic: missing, payload: "x", partition_key: "k")
    end
  end
  check(took < 5 * Guard::PATIENCE, "a missing topic took #{took} s")
  again = seconds do
    50.times do
      raises(Pelton::DeliveryError, /UNKNOWN_TOPIC/) do
        producer.produce_async(topic: missing, payload: "x", partition_key: "k")
      end
    end
  end
  check(again < 1 * Guard::PATIENCE, "a missing topic was asked for with every message: #{again} s")

  # --- middleware, labels, buffer ---
  plain = topic
  producer.middleware.append(->(message) { message.merge(headers: { "trace" => message[:payload].to_s.upcase }) })
  payloads = %w[a b c]
  producer.buffer_many(payloads.map { |payload| { topic: plain, payload: payload, label: payload.to_sym } })
  delivery = producer.flush_buffer_sync
  equal([:a, :b, :c], delivery.labels, "labels")
  equal([0, 1, 2], delivery.reports.map { |report| report[2] }, "offsets")
  found = read(plain, 1, 3).map { |_, message| [message.raw_payload, message.headers["trace"]] }
  equal([%w[a A], %w[b B], %w[c C]], found, "middleware")

  # --- a failed message comes back with its label, as an event and as an error ---
  small = topic(settings: { "max.message.bytes" => "1000" })
  producer.produce_async(topic: small, payload: "x" * 5_000, label: :large)
  failed = eventually(20, "an event of the failed message") { events(app, "message.delivery_failed").first }
  equal([:MSG_SIZE_TOO_LARGE, :large], [failed[:error].name, failed[:label]], "the event")
  error = raises(Pelton::DeliveryError, /MSG_SIZE_TOO_LARGE/) do
    producer.produce_sync(topic: small, payload: "x" * 5_000, label: :larger)
  end
  equal(:larger, error.label, "label of the error")

  # --- middleware gets the outcome of each message, whoever waits ---
  outcomes = producer.middleware.append(Outcomes.new)
  producer.produce_sync(topic: plain, payload: "sync")
  producer.produce_async(topic: plain, payload: "async")
  producer.produce_many_async([{ topic: plain, payload: "many", label: 7 }, { topic: small, payload: "x" * 5_000 }])
  producer.with(acks: 1).produce_async(topic: plain, payload: "variant")
  producer.buffer(topic: plain, payload: "buffered").flush_buffer_async
  producer.flush
  raises(Pelton::DeliveryError, /MSG_SIZE_TOO_LARGE/) do
    producer.produce_sync(topic: small, payload: "y" * 5_000)
  end
  eventually(20, "seven outcomes") { outcomes.found.size == 7 }
  delivered, rest = outcomes.found.partition { |_, report| report.delivered? }
  equal(%w[async buffered many sync variant], delivered.map { |message, _| message[:payload] }.sort, "delivered")
  equal([3, 4, 5, 6, 7], delivered.map { |_, report| report.offset }.sort, "offsets in reports")
  times = delivered.map { |message, report| [message[:payload], report.seconds, report.topic == plain] }
  check(times.all? { |_, lasted, right| lasted.positive? && right }, "time and topic: #{times}")
  equal([[small, "x", :MSG_SIZE_TOO_LARGE, nil], [small, "y", :MSG_SIZE_TOO_LARGE, nil]],
        rest.map { |message, report| [report.topic, message[:payload][0], report.error.name, report.offset] }.sort,
        "failures")
  producer.middleware.remove(outcomes)

  # --- close sends what is buffered ---
  last = app(kafka: {}).producer
  last.buffer(topic: plain, payload: "last")
  equal(0, last.close(timeout: 20 * Guard::PATIENCE), "undelivered")
  equal("last", read(plain, 1, 9).last.last.raw_payload, "what close flushed")
end
