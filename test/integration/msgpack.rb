# frozen_string_literal: true

require "support/scenario"

# MessagePack on a real broker: decoded and filtered by native threads, with extension types; one payload is broken and
# goes to dead letters as it is. The bytes are written by hand, so the gem is not needed.

COUNT = 300
BROKEN = "\xc1".b

Scenario.run do
  name = topic(partitions: 2)
  dead = topic
  # {"kind" => "paid" or "new", "number" => number, "at" => timestamp of 32 bits, "id" => extension 7}
  document = lambda do |number, kind|
    ["\x84\xa4kind", [0xa0 | kind.size].pack("C"), kind, "\xa6number\xcd", [number].pack("n"),
     "\xa2at\xd6\xff", [number].pack("N"), "\xa2id\xd5\x07", [number].pack("n")].map(&:b).join
  end
  rows = Array.new(COUNT) do |number|
    { topic: name, partition: number % 2, payload: document.(number, (number % 10).zero? ? "paid" : "new") }
  end
  writer = app.producer
  writer.produce_many_sync(rows)
  writer.produce_sync(topic: name, partition: 1, payload: BROKEN, key: "broken")

  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.payload } }
  server = app(group: unique("group")) do
    topic name, to: reader do
      decode :msgpack, ext: { 7 => ->(bytes) { bytes.unpack1("n") + 0.5 } }
      where("kind").eq("paid")
      dead_letters dead, retries: 0
    end
  end
  server.start
  got = take(seen, COUNT / 10).sort_by { |value| value["number"] }
  expected = (0...COUNT).step(10).map do |number|
    { "kind" => "paid", "number" => number, "at" => Time.at(number), "id" => number + 0.5 }
  end
  equal(expected, got, "what was paid")
  letter = eventually(40, "the dead letter") { server.each(dead).first }
  equal([BROKEN, "broken"], [letter.raw_payload, letter.key], "the dead letter")
  equal(true, server.stop, "stop")
  equal(true, seen.empty?, "nothing else came")
end
