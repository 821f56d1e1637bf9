# frozen_string_literal: true

require "support/scenario"

# A consume of 15 s, with max.poll.interval.ms and session.timeout.ms at 6 s: no rebalance, no delay for another
# partition.

Scenario.run do
  name = topic(partitions: 2)
  group = unique("group")
  done = Thread::Queue.new
  lasted = 0
  work_of = ->(text) { lasted = seconds { work(15) } if text == "long" }
  working = consumer do
    messages.each do |message|
      work_of.(message.raw_payload)
      done << [partition, message.offset, message.raw_payload, Process.clock_gettime(Process::CLOCK_MONOTONIC)]
    end
  end
  short = { "max.poll.interval.ms" => 6000, "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 1000 }
  server = app(group: group, concurrency: 2, kafka: { **short, "auto.commit.interval.ms" => 200 }) do
    topic(name, to: working)
  end
  server.start
  producer = app(kafka: { "linger.ms" => 0 }).producer
  producer.produce_sync(topic: name, partition: 0, payload: "long")
  # More for the busy partition: it waits for its turn.
  producer.produce_many_sync(Array.new(500) { |number| { topic: name, partition: 0, payload: number.to_s } })
  eventually(10, "the assignment") { events(server, "partition.assigned").size == 2 }

  started = now
  delays = []
  rest = [] # of the busy partition
  until done.size.positive? || now - started > 25 * Guard::PATIENCE
    sent = now
    producer.produce_sync(topic: name, partition: 1, payload: "short")
    row = take(done, 1).first
    break rest << row if row[0].zero?

    delays << (row[3] - sent)
    work(0.05)
  end
  check(lasted > 14.9, "the long work took #{lasted} s")
  check(delays.size > 50 / Guard::PATIENCE, "#{delays.size} messages of the other partition beside it")
  median = delays.sort[delays.size / 2]
  check(delays.max < 2 * Guard::PATIENCE && median < 0.2 * Guard::PATIENCE,
        "delays beside it: median #{median} s, longest #{delays.max} s")
  rest.concat(take(done, 1).select { |entry| entry[0].zero? }) until rest.size == 501
  equal((0..500).to_a, rest.map { |entry| entry[1] }, "the busy partition's messages, once and in order")
  equal([], events(server, "partition.revoked"), "rebalances")
  equal(2, events(server, "partition.assigned").size, "assignments")
  eventually(10, "the commit") { committed(group, name, 2)[0] == 501 }
  equal(true, server.stop, "stop")
  equal([], events(server, "error.occurred").map { |event| event[:error] }, "errors")
end
