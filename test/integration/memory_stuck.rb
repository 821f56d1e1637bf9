# frozen_string_literal: true

# once: what is counted is native memory

# 24 partitions whose jobs do not end hold more than what fetched messages may take, config.memory being small. A topic
# of another group is consumed meanwhile. When the server has stopped, no message counts as fetched any more.

require "support/scenario"

STUCK = 24
WELL = 4
EACH = 3000

Scenario.run do
  stuck = topic(partitions: STUCK)
  well = topic(partitions: WELL)
  text = Random.bytes(5000)
  writer = app(kafka: { "linger.ms" => 50 }, queue_timeout: 120)
  STUCK.times { |number| 500.times { writer.producer.produce_async(topic: stuck, payload: text, partition: number) } }
  WELL.times { |number| EACH.times { writer.producer.produce_async(topic: well, payload: text, partition: number) } }
  equal(true, writer.producer.flush, "all was sent")

  go = Thread::Queue.new
  held = Thread::Queue.new
  seen = Thread::Queue.new
  reader = app
  reader.config.memory = "32MB"
  reader.config.concurrency = STUCK + WELL
  waiting = consumer do
    held << partition
    go.pop
  end
  reader.routes do
    group("held-#{stuck}") { topic(stuck, to: waiting) }
  end
  reader.start
  eventually(60, "#{STUCK} jobs that hold their messages") { held.size >= STUCK }
  check(Pelton::Native.memory[:batches] > 8 << 20, "held: #{Pelton::Native.memory}")

  other = app
  other.config.memory = "32MB"
  reading = consumer { seen << messages.size }
  other.routes { group("read-#{well}") { topic(well, to: reading) } }
  other.start
  count = 0
  eventually(60, -> { "#{count} of #{WELL * EACH} messages came, #{Pelton::Native.memory}" }) do
    count += seen.pop until seen.empty?
    count >= WELL * EACH
  end
  other.stop
  go.close
  reader.stop
  memory = Pelton::Native.memory
  equal([0, 0], memory.values_at(:fetched, :batches), "fetched and in batches, after the end: #{memory}")
end
