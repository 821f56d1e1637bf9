# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# A consumer that has a transaction for some of its messages only: what it marks by a return is never committed again
# behind what a transaction committed, so the next owner repeats nothing; and a transaction that is aborted silently,
# before a mark, is no loss. In the same job of `process`, messages without a transaction are committed while a
# transaction is open, and never behind it.

MESSAGES = 12

Scenario.run do
  name = topic
  out = topic(name: unique("out"))
  group = unique("mixed")
  seen = Thread::Queue.new
  tries = Hash.new(0)
  taker = consumer do
    offset = messages.first_offset
    tries[offset] += 1
    if offset != 2
      transaction do |tx|
        tx.produce_async(topic: out, payload: offset.to_s)
        raise Pelton::AbortTransaction if offset == 5 && tries[offset] == 1

        mark_as_consumed(messages.last)
      end
    end
    seen << offset if offset != 5 || tries[offset] > 1
  end
  serve = lambda do |messages|
    server = app(group: group, max_messages: 1) do
      topic(name, to: taker) do
        transactional "mixed-#{group}"
        backoff 0..0.01
      end
    end
    server.start
    take(seen, messages)
    equal(true, server.stop, "stop")
    server.close
  end

  writer = app
  writer.producer.produce_many_sync(Array.new(MESSAGES) { { topic: name, payload: "x" } })
  serve.(MESSAGES)
  equal([MESSAGES], committed(group, name, 1), "what is committed after the stop")
  writer.producer.produce_sync(topic: name, payload: "x")
  serve.(1)
  wanted = ((0..MESSAGES).to_a - [2]).map(&:to_s)
  found = read(out, 1, wanted.size, "isolation.level" => "read_committed").map { |_, message| message.raw_payload }
  equal(wanted, found, "outputs")
  equal({ 5 => 2 }, tries.select { |_, count| count > 1 }, "messages that were tried again")

  # --- one job: every tenth message has a transaction that is open for longer than marks wait for a commit ---

  name = topic
  group = unique("single")
  offsets = [] # committed ones, as seen one after the other
  # Until the marks before this message are committed, and for longer than they wait for a commit.
  hold = lambda do |message|
    work(2)
    eventually(20, "a commit beside the transaction") { offsets.last == message.offset }
  end
  single = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      next seen << message.offset if message.offset % 10 != 9

      transaction do |tx|
        tx.produce_async(topic: out, payload: "single #{message.offset}")
        mark_as_consumed(message)
        hold.(message)
      end
      seen << message.offset
    end
  end
  writer.producer.produce_many_sync(Array.new(30) { { topic: name, payload: "x" } })
  server = app(group: group, kafka: { "auto.commit.interval.ms" => 100 }) do
    topic(name, to: single) { transactional group }
  end
  server.start
  eventually(60, -> { "the end, #{offsets.last} so far" }) { (offsets << committed(group, name, 1).first).last == 30 }
  work(0.5) # a late commit would come by then
  equal(true, server.stop, "stop")
  equal(30, committed(group, name, 1).first, "what is committed after the stop")
  equal(offsets.compact.sort, offsets.compact, "committed offsets, one after the other")
  equal([9, 19, 29], offsets.uniq & [9, 19, 29], "committed beside an open transaction")
  equal((0...30).to_a, take(seen, 30), "messages that were processed")
  places = %w[started committed].map do |what|
    events(server, "transaction.#{what}").map { |event| event.payload.values_at(:group, :topic, :partition) }
  end
  equal([[[group, name, 0]] * 3] * 2, places, "group, topic and partition of the transactions")
  equal([], events(server, "error.occurred").map { |event| event[:error] }, "errors")
end
