# frozen_string_literal: true

require "support/scenario"

# 50 threads produce and wait at the same time: each gets its own answer, and some are killed while they wait.

Scenario.run do
  name = topic(partitions: 4)
  writer = app(kafka: { "linger.ms" => 1 })
  producer = writer.producer
  places = Array.new(50) do |number|
    Thread.new do
      Array.new(40) do |index|
        delivery = producer.produce_sync(topic: name, key: number.to_s, payload: "#{number}/#{index}")
        [[delivery.partition, delivery.offset], "#{number}/#{index}"]
      end
    end
  end.flat_map(&:value)
  equal(2000, places.map(&:first).uniq.size, "each message has a place of its own")
  found = read(name, 4, 2000).to_h { |partition, message| [[partition, message.offset], message.raw_payload] }
  places.each { |place, payload| equal(payload, found[place], "the message at #{place}") }
  places.each_slice(40) { |mine| equal(mine.sort_by { |place, _| place[1] }, mine, "order of one thread's messages") }

  # Waiting ends at once when somebody says so; the others go on.
  lonely = app(kafka: { "bootstrap.servers" => "127.0.0.1:#{TestBroker.free_port}" })
  waiting = Array.new(50) { |number| Thread.new { lonely.producer.produce_sync(topic: name, payload: number.to_s) } }
  waiting.each { |thread| thread.report_on_exception = false }
  eventually(10, "all threads to wait") do
    lonely.producer.pending == 50 && waiting.all? do |thread|
      thread.status == "sleep"
    end
  end
  took = seconds do
    waiting.first(25).each(&:kill)
    waiting.last(25).each { |thread| thread.raise(IOError, "enough") }
    eventually(5, "the end of all waits") { waiting.none?(&:alive?) }
  end
  ends = waiting.map do |thread|
    thread.value
  rescue IOError => e
    e.message
  end
  equal(([nil] * 25) + (["enough"] * 25), ends, "how the waits ended")
  check(took < 2 * Guard::PATIENCE, "ending 50 waits took #{took} s")
  equal(50, lonely.close(timeout: 0), "undelivered")
end
