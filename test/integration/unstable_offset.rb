# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# A member was killed between the offsets of its transaction and the commit, so Kafka does not tell the committed
# offsets of its partitions. The group changes while their next owner asks. It began at the first message, and each
# result was there twice.

WAITS = "on-going transaction is blocking offset retrieval"

Scenario.run do
  partitions = [*0..5]
  name = topic(partitions: partitions.size)
  group = unique("group")
  sender = app
  write = lambda do |payload|
    partitions.each { |partition| sender.producer.produce_sync(topic: name, payload: payload, partition: partition) }
  end
  write.("old")

  native = Pelton::Native
  writer = native::Producer.new("killed", { "bootstrap.servers" => bootstrap, "transactional.id" => unique("id") }, {})
  place = native::Subscription.new("place", { "bootstrap.servers" => bootstrap, "group.id" => group }, {})
  send_offsets = lambda do
    writer.begin_transaction(60)
    writer.send_offsets(partitions.map { |partition| [name, partition, 1] }, place, 60)
  end
  send_offsets.()
  writer.commit_transaction(60)
  send_offsets.()

  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.raw_payload } }
  lines = Thread::Queue.new
  assigned = Thread::Queue.new
  kafka = { "partition.assignment.strategy" => "cooperative-sticky", "debug" => "cgrp", "log_level" => "7" }
  members = Array.new(2) do
    member = app(group: group, kafka: kafka) { topic(name, to: reader) }
    member.subscribe("kafka.log") { |event| lines << event[:message] if event[:message].include?(WAITS) }
    member.subscribe("partition.assigned") { |event| assigned << event[:partition] }
    member
  end
  members.first.start
  take(assigned, partitions.size)
  members.last.start
  eventually(60, "the partitions that stay to wait") { lines.size.positive? }
  writer.abort_transaction(60, 0)

  write.("new")
  equal(["new"] * partitions.size, take(seen, partitions.size), "messages behind the committed offsets")
  check(seen.empty?, "more")
  members.each(&:stop)
  writer.close(60)
  place.close(60)
end
