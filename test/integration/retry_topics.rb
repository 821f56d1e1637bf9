# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Messages that fail wait in retry topics, others go on; a restart in the middle forgets no attempt. Two groups with the
# same retry topics get their own failures only.

EACH = 20
# The first server stops before the second delay is over.
DELAYS = [0.3, 8].freeze

Scenario.run do
  input = topic(partitions: 2)
  DELAYS.each { |seconds| topic(partitions: 2, name: "#{input}.retry.#{seconds}") }
  dead = topic(partitions: 2)
  group = unique("group")
  rows = Array.new(2 * EACH) do |number|
    key = { 0 => "bad", 7 => "late", EACH - 1 => "bad" }.fetch(number / 2, "fine")
    { topic: input, partition: number % 2, key: key, payload: number.to_s, headers: { "n" => number.to_s } }
  end
  app.producer.produce_many_sync(rows)

  tries = Thread::Queue.new
  # Closed when all messages were tried once. No second try ends before that: the others do not wait for it.
  all_tried = Thread::Queue.new
  working = consumer do
    messages.each do |message|
      raise "before its time" if message.origin && message.origin.due_at > Time.now

      all_tried.pop if attempt == 2
      tries << [message.raw_payload, message.key, attempt, message.topic]
      all_tried.close if tries.size == 2 * EACH
      raise KeyError, "poison" if message.key == "bad" || (message.key == "late" && attempt < 3)
    end
  end
  start = lambda do
    server = app(group: group) do
      topic(input, to: working) do
        retry_in(*DELAYS)
        dead_letters dead
        max_messages 1
      end
    end
    server.start
    server
  end

  # All six failed once and then again: they wait in the last retry topic.
  first = start.call
  postponed = lambda do
    events(first, "message.postponed").map { |event| [event[:to].delete_prefix(input), event[:attempts]] }
  end
  eventually(30, -> { "six messages to be postponed twice: #{postponed.call}" }) do
    postponed.call.count([".retry.8", 2]) == 6
  end
  equal(true, first.stop, "stop")
  equal(6, postponed.call.count([".retry.0.3", 1]), "messages postponed once")
  before = Array.new(tries.size) { tries.pop }
  equal((0...(2 * EACH)).map(&:to_s), before.map(&:first).uniq.sort_by(&:to_i), "what was tried")

  second = start.call
  eventually(30, "the late ones") { committed(group, "#{input}.retry.8", 2).compact.sum == 6 }
  equal(true, second.stop, "second stop")
  after = Array.new(tries.size) { tries.pop }
  check(after.any?, "the restart was too late to tell anything")
  equal([3], after.map { |row| row[2] }.uniq, "attempts after the restart")
  equal(6, (before + after).count { |row| row[2] == 3 }, "third tries")
  letters = read(dead, 2, 4).map { |partition, copy| [partition, copy.origin, copy] }
  letters.each do |partition, origin, copy|
    equal([partition, input, group, 3, "KeyError"],
          [origin.partition, origin.topic, origin.group, origin.attempts, origin.error], "origin")
    equal([copy.headers["n"], origin.offset], [copy.raw_payload, copy.raw_payload.to_i / 2], "what it is")
  end
  equal([0, EACH - 1] * 2, letters.sort_by(&:first).map { |_, origin, _| origin.offset }, "order per partition")

  # Another group reads the same retry topics from their start: all of that failed elsewhere.
  seen = Thread::Queue.new
  healthy = consumer { messages.each { |message| seen << message.topic } }
  group = unique("other")
  other = app(group: group) { topic(input, to: healthy) { retry_in(*DELAYS) } }
  other.start
  eventually(30, "the other group's end") do
    [[input, 2 * EACH], *DELAYS.map { |seconds| ["#{input}.retry.#{seconds}", 6] }].all? do |name, size|
      committed(group, name, 2).compact.sum == size
    end
  end
  equal(true, other.stop, "the other group's stop")
  equal({ input => 2 * EACH }, Array.new(seen.size) { seen.pop }.tally, "what the other group consumed")

  # A retry topic is a topic of its own for the last free worker: long jobs of the main topic leave that to it.
  main = topic(partitions: 2)
  topic(partitions: 2, name: "#{main}.retry.1")
  go = Thread::Queue.new
  ran = Thread::Queue.new
  busy = consumer do
    raise KeyError, "no total" if topic == main && messages.first.raw_payload == "bad"

    ran << [topic, messages.first.raw_payload]
    go.pop if topic == main
  end
  small = app(group: unique("small"), concurrency: 2) { topic(main, to: busy) { retry_in(1) && max_messages(1) } }
  app.producer.produce_many_sync(%w[bad slow].map { |text| { topic: main, partition: 0, payload: text } })
  small.start
  eventually(30, "the copy") { events(small, "message.postponed").any? }
  app.producer.produce_sync(topic: main, partition: 1, payload: "slow")
  equal([[main, "slow"], ["#{main}.retry.1", "bad"]], take(ran, 2), "what the two workers ran")
  go.close
  equal([[main, "slow"]], take(ran, 1), "the last one")
  equal(true, small.stop, "the stop of the two workers")
end
