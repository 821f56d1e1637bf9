# frozen_string_literal: true

require "support/scenario"

# Few compressed bytes that become many, on a real broker: each batch is an error that names its place and the limit,
# and other partitions are read. A group whose offsets are moved behind the batches goes on.

LIMIT = 2_000_000
ZEROS = ("\0" * 900_000).freeze
# Of the partitions 0, 1, …; lz4 and snappy need the linker's --wrap.
CODECS = RUBY_PLATFORM.include?("linux") ? %w[gzip lz4 snappy].freeze : %w[gzip].freeze
BESIDE = CODECS.size

Scenario.run do
  name = topic(partitions: BESIDE + 1)
  group = unique("zeros")
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << [message.partition, message.raw_payload] } }
  limits = { "receive.message.max.bytes" => LIMIT, "fetch.max.bytes" => 1_500_000, "auto.offset.reset" => "earliest" }
  app = app(group: group, kafka: limits) { topic(name, to: reader) { decode :bytes } }
  CODECS.each_with_index do |codec, partition|
    sender = app(kafka: { "compression.type" => codec, "linger.ms" => 60_000, "batch.size" => 100_000_000,
                          "message.max.bytes" => 100_000_000 })
    # One batch: the partition is known, and nothing is sent before all messages are queued. (A wait skips the linger.)
    sender.producer.partition_count(name)
    sender.producer.produce_many_sync(Array.new(20) { { topic: name, payload: ZEROS, partition: partition } })
    sender.producer.produce_sync(topic: name, payload: "behind", partition: partition)
    sender.producer.produce_sync(topic: name, payload: "beside", partition: BESIDE) if codec == CODECS.last
  end

  app.start
  equal([BESIDE, "beside"], take(seen, 1).first, "the other partition")
  CODECS.each_with_index do |codec, partition|
    found = -> { events(app, "error.occurred").find { |event| event[:partition].equal?(partition) } }
    eventually(40, "an error of #{codec}") { found.call }
    event = found.call
    equal([name, :_BAD_COMPRESSION], [event[:topic], event[:error].name], "the error of #{codec}")
    said = event[:error].message
    check(said.match?(/message at 0 of \d+ bytes failed.*more than #{LIMIT} bytes/), said)
  end
  equal(true, app.stop, "stop")
  check(seen.empty?, "something of a batch was read")

  # A low limit of answers kept an administrator from asking about groups.
  app.admin.alter_group_offsets(group, CODECS.each_index.to_h { |partition| [[name, partition], 20] })
  again = app(group: group, kafka: limits) { topic(name, to: reader) { decode :bytes } }
  again.start
  equal(CODECS.each_index.map { |partition| [partition, "behind"] }, take(seen, CODECS.size).sort, "behind the batches")
  equal(true, again.stop, "stop again")
end
