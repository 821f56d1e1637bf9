# frozen_string_literal: true

require "support/scenario"

# A topic gets more partitions while it is consumed, or followed by a script: they are read from their beginning, and
# the old ones lose and repeat nothing. (No twin on the embedded cluster: librdkafka's mock gives no topic more
# partitions.)

Scenario.run do
  name = topic(partitions: 2)
  seen = Thread::Queue.new
  book = ledger
  reader = consumer do
    messages.each do |message|
      book.processed(object_id.to_s, partition.to_s, message.offset)
      seen << [partition, message.offset]
    end
  end
  quick = { "topic.metadata.refresh.interval.ms" => 300, "partition.assignment.strategy" => "cooperative-sticky" }
  server = app(group: group = unique("group"), kafka: quick) { topic(name, to: reader) }
  server.start
  writer = app(kafka: quick)
  sent = Hash.new(0)
  send = lambda do |count|
    rows = Array.new(count) { |place| { topic: name, partition: place, payload: "x" } }
    writer.producer.produce_many_sync(rows)
    rows.each { |row| sent[row[:partition]] += 1 }
  end
  5.times { send.(2) }
  early = take(seen, 10)
  followed = Thread::Queue.new
  script = app(kafka: quick)
  follower = Thread.new do
    script.each(name, follow: true) do |message|
      followed << [message.partition, message.offset]
    end
  end
  followed_early = take(followed, 10)
  partitions(name, 5)
  eventually(20, "the producer's knowledge") do
    writer.producer.produce_sync(topic: name, partition: 4, payload: "x")
    sent[4] += 1
  rescue Pelton::DeliveryError => e
    raise unless e.name == :_UNKNOWN_PARTITION
  end
  5.times { send.(5) }
  eventually(20, "five partitions") { events(server, "partition.assigned").size == 5 }
  5.times { send.(5) }
  all = early + take(seen, sent.values.sum - 10)
  5.times do |place|
    equal((0...sent[place]).to_a, all.filter_map { |at, offset| offset if at == place }, "partition #{place}")
  end
  followed_all = followed_early + take(followed, sent.values.sum - 10)
  equal(all.sort, followed_all.sort, "a script that follows the topic")
  follower.kill.join
  equal([], events(server, "partition.revoked").map { |event| event[:partition] }, "cooperative: nothing was revoked")
  equal(true, server.stop, "stop")
  equal(Array.new(5) { |place| sent[place] }, committed(group, name, 5), "committed")
  equal(0, seen.size, "anything else")
  in_order(book, sent)
end
