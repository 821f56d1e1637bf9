# How many messages of 100 B does Pelton produce in a second, beside librdkafka driven by a C loop?
# frozen_string_literal: true

require_relative "support"

COUNT = Bench.some(300_000)
PRODUCERS = 25
CALLS = Bench.some(600) # of produce_many, 1,000 messages each
PAYLOAD = ("x" * 100).freeze
IDEMPOTENT = { **Cluster::PRODUCE, "enable.idempotence" => "true" }.freeze

# Opened producers, connected: their first message is delivered.
def producers(topic, count, options = Cluster::PRODUCE)
  list = Array.new(count) { Cluster.producer(options) }
  list.each { |producer| producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) }
  yield list
ensure
  list&.each(&:close)
end

# A handle for each message, and all of them waited for.
def produce(producer, topic, count)
  handles = Array.new(count) { producer.produce_async(topic: topic, payload: PAYLOAD) }
  handles.each(&:wait)
end

def allocated
  before = GC.stat(:total_allocated_objects)
  yield
  GC.stat(:total_allocated_objects) - before
end

Bench.measure("produce") do |bench|
  topic = Cluster.topic

  bench.case("C loop", "msg/s") { Cluster.c_loop("produce", topic, COUNT, PAYLOAD.bytesize) }

  bench.case("C loop, with Pelton's allocator", "msg/s", vs: "C loop") do
    Cluster.c_loop("produce", topic, COUNT, PAYLOAD.bytesize, program: Cluster::C_LOOP_JEMALLOC)
  end

  bench.case("1 producer", "msg/s", vs: "C loop") do
    producers(topic, 1) { |(producer)| COUNT / Bench.seconds { produce(producer, topic, COUNT) } }
  end

  bench.case("C loop, idempotent", "msg/s") do
    Cluster.c_loop("produce", topic, COUNT, PAYLOAD.bytesize, options: IDEMPOTENT)
  end

  bench.case("1 producer, idempotent", "msg/s", vs: "C loop, idempotent") do
    producers(topic, 1, IDEMPOTENT) { |(producer)| COUNT / Bench.seconds { produce(producer, topic, COUNT) } }
  end

  bench.case("1 producer, per message", "objects") do
    producers(topic, 1) { |(producer)| allocated { produce(producer, topic, COUNT) }.fdiv(COUNT) }
  end

  bench.case("#{PRODUCERS} producers, a thread each", "msg/s", vs: "C loop") do
    producers(topic, PRODUCERS) do |list|
      share = COUNT / PRODUCERS
      took = Bench.seconds do
        threads = list.map { |producer| Thread.new { produce(producer, topic, share) } }
        bench.note("their Ruby threads (and main, events)", "threads", Thread.list.size)
        bench.note("all threads of the process (3 of librdkafka each)", "threads", Dir.children("/proc/self/task").size)
        threads.each(&:join)
      end
      bench.note("Pelton's native threads for them", "threads", Pelton::Native.threads.values.sum)
      (share * PRODUCERS) / took
    end
  end

  messages = Array.new(1000) { { topic: topic, payload: PAYLOAD } }
  bench.case("produce_many, 1,000 a call", "msg/s", vs: "C loop") do
    producers(topic, 1) do |(producer)|
      took = Bench.seconds do
        calls = Array.new(CALLS) { producer.produce_many_async(messages) }
        calls.each(&:wait)
      end
      (CALLS * messages.size) / took
    end
  end
end
