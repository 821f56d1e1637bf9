# frozen_string_literal: true

# once: it is librdkafka and the broker who agree on it
require "support/scenario"

# A topic is deleted and created again so soon that its reader keeps the partition. The messages of the new topic are
# committed, though the old topic was longer, and the next reader misses none. The same by key.

Scenario.run do
  name = topic
  group = unique("group")
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.raw_payload } }
  # A reader that does notice finds the new topic soon.
  kafka = { "auto.commit.interval.ms" => 100, "topic.metadata.refresh.interval.ms" => 2000 }
  writer = nil
  send = lambda do |life, numbers|
    rows = numbers.map { |number| { topic: name, partition: 0, key: "k#{number % 3}", payload: "#{life}/#{number}" } }
    writer.produce_many_sync(rows)
  end
  # Also those of the old one that were on their way.
  come = lambda do |life, numbers|
    wanted = numbers.map { |number| "#{life}/#{number}" }
    eventually(40, -> { "#{wanted.size} messages, #{wanted.first} …" }) { (wanted -= take(seen, seen.size)).empty? }
  end
  [1, 3].each do |jobs|
    server = app(group: group, kafka: kafka) { topic(name, to: reader) { concurrency jobs } }
    server.start
    writer = app.producer
    send.("old #{jobs}", 0...60)
    come.("old #{jobs}", 0...60)
    eventually(20, "the old one's commit") { committed(group, name, 1) == [60] } # or it could come later
    topic_again(name)
    writer = app.producer # one that knows nothing of the old one
    send.(jobs, 0...20)
    come.(jobs, 0...20)
    eventually(20, "its commit") { committed(group, name, 1) == [20] }
    equal(true, server.stop, "stop")
    equal([20], committed(group, name, 1), "committed at the stop")
    send.(jobs, 20...70)
    successor = app(group: group, kafka: kafka) { topic(name, to: reader) }
    successor.start
    come.(jobs, 20...70)
    equal(true, successor.stop, "stop of the successor")
    topic_again(name)
  end
end
