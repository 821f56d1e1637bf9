# frozen_string_literal: true

require "support/scenario"

# Inputs that a producer refuses, and unusual ones that it accepts: empty and nil payloads, keys and headers.

Scenario.run do
  name = topic(settings: { "max.message.bytes" => "4000000" })
  writer = app(kafka: { "message.max.bytes" => 3_000_000, "topic.metadata.propagation.max.ms" => 500 })
  producer = writer.producer

  # --- unusual, but fine -----------------------------------------------------------------------------------------
  binary = (0..255).to_a.pack("C*")
  rows = [
    { payload: nil, key: "tombstone" }, { payload: nil }, { payload: "" }, { payload: "x", key: "" },
    { payload: "", key: "" },
    { payload: binary, key: binary }, { payload: "ключ", key: "Zürich" }, { payload: "x", headers: {} },
    { payload: "x", headers: { "" => "" } }, { payload: "x", headers: { "a" => ["1", "2"], "b" => binary } },
    { payload: "x", headers: { "large" => "h" * 1_000_000 } }, { payload: "x", headers: { "none" => nil } },
    { payload: "p" * 2_500_000 }, { payload: "x", timestamp: 1_234_567_890_123 },
    { payload: "x", timestamp: Time.at(1_500_000_000, 250, :millisecond) }, { payload: "x", headers: nil, key: nil },
    { payload: "x".encode("UTF-16LE"), key: "k".encode("UTF-16LE") }
  ]
  rows.each_with_index do |row, index|
    equal(index, producer.produce_sync(topic: name, **row).offset, "offset of row #{index}")
  end
  big = { "fetch.message.max.bytes" => "4000000", "receive.message.max.bytes" => "100000000" }
  found = read(name, 1, rows.size, big).map(&:last)
  rows.zip(found).each_with_index do |(row, message), index|
    [[:payload, message.raw_payload], [:key, message.key]].each do |field, got|
      equal(row[field]&.b, got&.b, "#{field} of row #{index}")
      equal(row[field].nil?, got.nil?, "is the #{field} of row #{index} nil")
    end
    equal((row[:headers] || {}).transform_values { |value| value.is_a?(Array) ? value.map(&:b) : value&.b },
          message.headers.transform_values do |value|
            value.is_a?(Array) ? value.map(&:b) : value&.b
          end, "headers of row #{index}")
  end
  check(found[0].tombstone? && !found[2].tombstone?, "nil is a tombstone, empty is not")
  equal([1_234_567_890_123, 1_500_000_000_250], found[13..14].map(&:timestamp_ms), "timestamps")

  # --- wrong: told at once, nothing is sent ----------------------------------------------------------------------
  invalid = [
    [{ topic: nil }, /topic: nil is not allowed, expected/], [{ topic: :orders }, /topic: :orders is not allowed/],
    [{ topic: "" }, /topic: .*"" ?is not allowed|topic: .*\\"\\""/], [{ topic: "a" * 250 }, /topic: .*"aaa/],
    [{ topic: "a b" }, /topic: .*"a b/], [{ topic: "a/b" }, %r{topic: .*"a/b}], [{ topic: "." }, /topic: .*"\./],
    [{ topic: "a\0b" }, /topic: .*"a\\+(0|u0000|x00|u\{0\})b/],
    [{ partition: -5 }, /partition: -5 is not allowed/], [{ partition: "1" }, /partition: "1" is not allowed/],
    [{ partition: 1 << 40 }, /partition: 1099511627776 is not allowed/],
    [{ partition: 1.5 }, /partition: 1.5 is not allowed/],
    [{ payload: 12 }, /payload: an Integer is not allowed/],
    [{ payload: { "a" => 1 } }, /payload: a Hash of 1 entry is not allowed/],
    [{ key: 7 }, /key: an Integer is not allowed/], [{ key: :seven }, /key: :seven is not allowed/],
    [{ headers: [] }, /headers: an Array of 0 entries is not allowed/],
    [{ headers: { "a" => 1 } }, /headers?.*: an Integer is not allowed/],
    [{ headers: { a: "1" } }, /headers?.*: :a is not allowed/],
    [{ headers: { "a" => ["1", 2] } }, /headers?.*: an Integer is not allowed/],
    [{ timestamp: "now" }, /timestamp: "now" is not allowed/], [{ timestamp: -1 }, /timestamp: -1 is not allowed/]
  ]
  invalid.each do |wrong, pattern|
    row = { topic: name, payload: "x", **wrong }
    error = raises(Pelton::InvalidMessageError, pattern) { producer.produce_sync(**row) }
    equal(wrong.keys.first.to_s.delete_suffix("s"), error.key.delete_suffix("s")[/\A\w+/],
          "key of the error for #{wrong}")
    raises(Pelton::InvalidMessageError, pattern) { producer.produce_async(**row) }
    # A bad one among many: none of them is sent.
    raises(Pelton::InvalidMessageError, pattern) { producer.produce_many_sync([{ topic: name, payload: "good" }, row]) }
  end
  raises(ArgumentError, /missing keyword: :payload/) { producer.produce_sync(topic: name) }
  raises(Pelton::InvalidMessageError, /message 0: message: :paylod is not allowed/) do
    producer.produce_many_sync([{ topic: name, payload: "x", paylod: "y" }])
  end
  equal(0, producer.pending, "pending")
  equal(rows.size, producer.produce_sync(topic: name, payload: "x").offset, "nothing of all that was sent")

  # --- refused ---------------------------------------------------------------------------------------------------
  error = raises(Pelton::DeliveryError, /MSG_SIZE_TOO_LARGE.*#{name}/) do
    producer.produce_sync(topic: name, payload: "p" * 3_100_000) # by librdkafka
  end
  equal(:MSG_SIZE_TOO_LARGE, error.name, "name of the error")
  delivery = producer.produce_many_async([{ topic: name, payload: "a" }, { topic: name, payload: "p" * 3_100_000 },
                                          { topic: name, payload: "b" }])
  raises(Pelton::DeliveryError, /MSG_SIZE_TOO_LARGE/) { delivery.wait }
  equal([nil, :MSG_SIZE_TOO_LARGE, nil], delivery.reports.map { |report| report[3]&.name }, "each report of many")
  small = topic(settings: { "max.message.bytes" => "1000" })
  # by Kafka
  raises(Pelton::DeliveryError, /MSG_SIZE_TOO_LARGE.*#{small}/) do
    producer.produce_sync(topic: small, payload: "p" * 5_000)
  end
  raises(Pelton::DeliveryError, /UNKNOWN_PARTITION.*#{name}/) do
    producer.produce_sync(topic: name, payload: "x", partition: 77)
  end
  raises(Pelton::DeliveryError, /UNKNOWN_TOPIC.*no-such-topic/) do
    producer.produce_sync(topic: "no-such-topic", payload: "x")
  end
  group = unique("group")
  nowhere = app(group: group) { topic("no-such-topic", to: Class.new(Pelton::Consumer) { def consume; end }) }
  nowhere.start
  eventually(20, "an error for a topic that does not exist") do
    events(nowhere, "error.occurred").any? do |event|
      event.payload[:topic] == "no-such-topic" || event[:error].message.include?("no-such-topic")
    end
  end
  equal(true, nowhere.stop, "stop")

  # --- a full queue ----------------------------------------------------------------------------------------------
  nowhere = "127.0.0.1:1"
  full = app(kafka: { "bootstrap.servers" => nowhere, "queue.buffering.max.messages" => 100 }, queue_timeout: 0.5)
  open = Array.new(100) { |number| full.producer.produce_async(topic: "orders", payload: number.to_s) }
  error = nil
  took = seconds do
    error = raises(Pelton::QueueFullError,
                   /full for 0.5 s, the message was not taken: topic orders.*queue.buffering.max.messages/) do
      full.producer.produce_async(topic: "orders", payload: "too much")
    end
  end
  check(took.between?(0.45, 2 * Guard::PATIENCE), "a full queue was waited for #{took} s")
  equal(["orders", 0.5], [error.topic, error.seconds], "facts of the error")
  error = raises(Pelton::QueueFullError, /a part of the batch was not taken/) do
    full.producer.produce_many_async([{ topic: "orders", payload: "a" }, { topic: "orders", payload: "b" }])
  end
  equal([:_QUEUE_FULL] * 2, error.delivery.reports.map { |report| report[3].name }, "many into a full queue")
  equal(100, full.producer.pending, "pending")
  equal(100, full.producer.close(timeout: 0.2), "undelivered")
  eventually(5, "the reports of all") { open.all?(&:done?) }
  equal([:_PURGE_QUEUE], open.map { |unsent| unsent.error.name }.uniq, "what became of those in the queue")
  raises(Pelton::ClosedError) { full.producer.produce_async(topic: "orders", payload: "late") }

  # Room is used as soon as there is some.
  tight = app(kafka: { "queue.buffering.max.messages" => 10, "linger.ms" => 0 }, queue_timeout: 20)
  all = Array.new(500) { |number| tight.producer.produce_async(topic: name, payload: number.to_s) }
  all.each(&:wait)
  offsets = all.map(&:offset)
  equal(offsets.sort, offsets, "order through a queue of ten")
end
