# frozen_string_literal: true

require "support/scenario"

# Where a subscription is, on a real broker: seeks to times, words beside offsets, a pause at the end of a partition, a
# group that is left and joined again.

Scenario.run do
  name = topic
  base = Time.now.to_i - 7200
  writer = app.producer
  send = lambda do |count|
    rows = Array.new(count) { |number| { topic: name, payload: "x", timestamp: Time.at(base + number) } }
    writer.produce_many_sync(rows)
  end
  send.(500)
  ends = { "enable.partition.eof" => true, "auto.commit.interval.ms" => 60_000 }
  subscription = Pelton::Subscription.new(app.config, group_id: unique("group"), max_messages: 10, kafka: ends)
  subscription.subscribe([name])
  take_event = lambda do |kind|
    found = nil
    eventually(30, kind.to_s) { (found = subscription.poll(1))&.first == kind }
    found.last
  end
  take_event.(:assigned)
  { Time.at(base + 321) => 321, :beginning => 0, Time.at(base + 100.5) => 101, 77 => 77 }.each do |place, offset|
    subscription.seek(name, 0, place)
    equal(offset, subscription.position(name, 0), "the position after seek to #{place}")
    equal(offset, take_event.(:batch).tap(&:release).first_offset, "what comes after it")
  end
  # Later than all messages: the end. Nothing that was read before comes first.
  subscription.seek(name, 0, Time.now)
  equal(500, take_event.(:eof), "the end")

  # librdkafka issue 4844
  subscription.pause([[name, 0]])
  send.(1)
  subscription.resume([[name, 0]])
  equal(500, take_event.(:batch).tap(&:release).first_offset, "the message after a pause at the end")

  equal(true, subscription.mark(name, 0, 501, -1, "é" * 100), "mark")
  equal(true, subscription.commit, "commit")
  equal([[501, "é" * 100]], subscription.committed_with_metadata([[name, 0]]), "the word")
  subscription.mark(name, 0, 501, -1, "x" * 5000)
  subscription.mark(name, 0, 502, -1, "x" * 5000)
  raises(Pelton::KafkaError, /OFFSET_METADATA_TOO_LARGE/) { subscription.commit }
  subscription.mark(name, 0, 501, -1)
  equal([[0, 501], false], [subscription.watermarks(name, 0), subscription.lost?], "what Kafka says")

  # The embedded cluster has him wait for a session, Kafka for nobody.
  subscription.unsubscribe
  revoked = nil
  eventually(30, "revoked") { (revoked = subscription.poll(1))&.first == :revoked }
  subscription.revoked(revoked[1])
  subscription.subscribe([name])
  equal([[name, 0]], take_event.(:assigned), "what it has again")
  equal(501, take_event.(:eof), "where it goes on")
  subscription.close(10)

  # A consumer's word goes with the offset that its return marks, to the next owner.
  words = Thread::Queue.new
  reader = consumer { store_offset_metadata("work up to #{messages.last.offset} ✓") }
  reader.define_method(:assigned) { words << [offset_metadata] }
  group = unique("words")
  2.times do |round|
    server = app(group: group, kafka: { "auto.commit.interval.ms" => 100 }) { topic(name, to: reader) }
    server.start
    eventually(30, "its end") { words.size > round && committed(group, name, 1) == [501] }
    equal(true, server.stop, "stop")
  end
  equal([nil, "work up to 500 ✓"], take(words, 2).flatten(1), "what owners find")
end
