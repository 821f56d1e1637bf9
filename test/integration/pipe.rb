# frozen_string_literal: true

require "support/scenario"

# Consumed messages go on to other topics as they are: bytes, keys, headers, tombstones; a key's messages stay in one
# partition and in their order; in a transaction they and their offsets count together.
#
# once: what Kafka keeps of them does not depend on the Ruby

KEYS = 5
EACH = 20
HEADERS = { "trace" => "7", "tags" => ["a", "", "b"], "nothing" => nil, "bytes" => "\xFF\x00" }.freeze

Scenario.run do
  from = topic(partitions: 3)
  to = topic(partitions: 4)
  copies = topic(partitions: 3)
  rows = Array.new(KEYS * EACH) do |number|
    payload = (number % 7).zero? ? nil : "\xFF#{number}\x00"
    { topic: from, key: "key #{number % KEYS}", payload: payload, headers: HEADERS }
  end
  app.producer.produce_many_sync(rows)

  pipe = consumer do
    odd, even = messages.to_a.partition { |message| message.offset.odd? }
    odd.each { |message| producer.pipe_sync(message, to: to, headers: { "way" => "one by one" }) }
    deliveries = even.first(3).map { |message| producer.pipe_async(message, to: to, headers: { "way" => "async" }) }
    producer.pipe_many_sync(even.drop(3), to: to, headers: { "way" => "many" })
    Pelton::Delivery.wait_all(deliveries)
  end
  atomic = consumer do
    transaction do |tx|
      messages.each { |message| tx.pipe_async(message, to: copies, partition: partition) }
      mark_as_consumed(messages.last)
    end
  end
  piping = app(group: group = unique("pipe")) { topic from, to: pipe }
  copying = app(group: unique("copy")) { topic(from, to: atomic) { transactional "pipe" } }
  [piping, copying].each(&:start)

  bytes = ->(headers) { headers.transform_values { |value| value.is_a?(String) ? value.b : value } }
  content = ->(message) { [message.key, message.raw_payload&.b, bytes.(message.headers.except("way"))] }
  sent = rows.map { |row| [row[:key], row[:payload]&.b, bytes.(HEADERS)] }
  piped = read(to, 4, rows.size)
  equal(sent.sort_by(&:inspect), piped.map { |_, message| content.(message) }.sort_by(&:inspect), "what was piped")
  check(piped.map { |_, message| message.headers["way"] }.uniq.sort == ["async", "many", "one by one"],
        "each way was taken")
  places = piped.group_by { |_, message| message.key }.transform_values { |list| list.map(&:first).uniq.size }
  equal((0...KEYS).to_h { |number| ["key #{number}", 1] }, places.sort.to_h, "partitions of a key")

  copied = read(copies, 3, rows.size, "isolation.level" => "read_committed").group_by(&:first)
  source = read(from, 3, rows.size).group_by(&:first)
  equal(source.transform_values { |list| list.map { |_, message| content.(message) } }.sort.to_h,
        copied.transform_values { |list| list.map { |_, message| content.(message) } }.sort.to_h,
        "copies, in their order")
  [piping, copying].each { |app| equal(true, app.stop, "stop") }
  counts = Array.new(3) { |place| source[place]&.size }
  [group, copying.config.group_id].each { |id| equal(counts, committed(id, from, 3), "committed by #{id}") }
end
