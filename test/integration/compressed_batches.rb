# frozen_string_literal: true

require "support/scenario"

# Few compressed bytes that become many, on a real broker: the batch is an error that names its place and the limit, and
# other partitions are read. A group whose offset is moved behind the batch goes on.

LIMIT = 2_000_000
ZEROS = ("\0" * 900_000).freeze

Scenario.run do
  name = topic(partitions: 2)
  group = unique("zeros")
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << [message.partition, message.raw_payload] } }
  limits = { "receive.message.max.bytes" => LIMIT, "fetch.max.bytes" => 1_500_000, "auto.offset.reset" => "earliest" }
  one = app(group: group, kafka: limits) { topic(name, to: reader) { decode :bytes } }
  large = { "compression.type" => "gzip", "linger.ms" => 1000, "batch.size" => 100_000_000,
            "message.max.bytes" => 100_000_000 }
  sender = app(kafka: large)
  # One batch: the partition is known, and nothing is sent before all messages are queued.
  sender.producer.partition_count(name)
  sender.producer.produce_many_sync(Array.new(20) { { topic: name, payload: ZEROS, partition: 0 } })
  sender.producer.produce_sync(topic: name, payload: "behind", partition: 0)
  sender.producer.produce_sync(topic: name, payload: "beside", partition: 1)

  one.start
  equal([1, "beside"], take(seen, 1).first, "the other partition")
  eventually(40, "an error") { events(one, "error.occurred").any? { |event| event[:partition].equal?(0) } }
  event = events(one, "error.occurred").find { |found| found[:partition].equal?(0) }
  equal([name, :_BAD_COMPRESSION], [event[:topic], event[:error].name], "the error")
  said = event[:error].message
  check(said.match?(/message at 0 of \d+ bytes failed.*more than #{LIMIT} bytes/), said)
  equal(true, one.stop, "stop")
  check(seen.empty?, "something of the batch was read")

  # A low limit of answers kept an administrator from asking about groups.
  one.admin.alter_group_offsets(group, { [name, 0] => 20 })
  again = app(group: group, kafka: limits) { topic(name, to: reader) { decode :bytes } }
  again.start
  equal([0, "behind"], take(seen, 1).first, "what is behind the batch")
  equal(true, again.stop, "stop again")
end
