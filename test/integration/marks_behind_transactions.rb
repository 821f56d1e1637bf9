# frozen_string_literal: true

require "support/scenario"

# A group that has processed all messages commits behind the ends of transactions and aborted messages that follow, as
# Kafka's own consumer does. It does so only when all is done, and keeps the metadata of its mark.
#
# once: librdkafka and Kafka, whatever the Ruby

Scenario.run do
  name = topic(partitions: 2)
  group = unique("ends")
  seen = Thread::Queue.new
  gate = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      seen << [partition, message.raw_payload]
      gate.pop if message.raw_payload == "held"
      mark_as_consumed(message, metadata: "mine") unless message.raw_payload == "unmarked"
    end
  end
  all = app(group: group, kafka: { "auto.commit.interval.ms" => 100 }) { topic(name, to: reader) { manual_offsets } }
  producer = app(kafka: { "transactional.id" => unique("writer") }).producer
  offsets = -> { all.admin.group_offsets(group).transform_keys(&:last) }
  await = ->(expected, what) { eventually(60, -> { "#{what}: #{offsets.call}" }) { offsets.call == expected } }
  abort = lambda do |partition|
    producer.transaction do |tx|
      tx.produce_sync(topic: name, partition: partition, payload: "aborted")
      raise Pelton::AbortTransaction
    end
  end
  commit = lambda do |partition, payload|
    producer.transaction { |tx| tx.produce_sync(topic: name, partition: partition, payload: payload) }
    equal([partition, payload], take(seen, 1, 60).first, "what the consumer got")
  end

  all.start
  commit.(0, "a") # offset 0, marker 1
  await.({ 0 => 2 }, "behind the end of a transaction")
  equal("mine", all.admin.group_commits(group).values.first.metadata, "metadata")
  2.times { abort.(0) } # messages 2 and 4, markers 3 and 5
  await.({ 0 => 6 }, "behind aborted messages, without a message")

  commit.(1, "unmarked") # offset 0, marker 1
  commit.(0, "held")     # offset 6, marker 7
  abort.(0)              # message 8, marker 9
  commit.(1, "b")        # offset 2, marker 3
  await.({ 0 => 6, 1 => 4 }, "a message is not done")
  commit.(1, "unmarked") # offset 4, marker 5
  abort.(1)              # message 6, marker 7
  commit.(1, "c")        # offset 8, marker 9
  await.({ 0 => 6, 1 => 10 }, "still not done")
  commit.(1, "unmarked") # offset 10, marker 11
  abort.(1)              # message 12, marker 13
  gate.close # opens it
  await.({ 0 => 10, 1 => 10 }, "a message without a mark")
  equal(true, all.stop, "stop")
  equal({ 0 => 10, 1 => 10 }, offsets.call, "after the stop")

  # The next member begins there.
  again = app(group: group, kafka: { "auto.commit.interval.ms" => 100 }) { topic(name, to: reader) { manual_offsets } }
  again.start
  equal([1, "unmarked"], take(seen, 1, 60).first, "what was not marked")
  equal([], events(all, "error.occurred") + events(again, "error.occurred"), "errors")
end
