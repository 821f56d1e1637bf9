# How much of a wait is wasted between the delivery report in native code and the Ruby thread that runs again?
# frozen_string_literal: true

require_relative "support"

PAYLOAD = ("x" * 100).freeze
AT_ONCE = { "acks" => "all", "linger.ms" => 0 }.freeze
COUNT = Bench.some(1000)
# Messages for waits that sleep; they would take minutes.
SLEEPS = { 0.010 => Bench.some(200), 0.100 => Bench.some(20) }.freeze

def opened(topic)
  producer = Cluster.producer(AT_ONCE)
  50.times { producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) }
  yield producer
ensure
  producer&.close
end

# Microseconds from the moment at which native code wakes the waiting thread to its next line of Ruby, for each of so
# many waits. One that found its message delivered already wasted nothing: the wake before its begin was another's.
def wastes(producer, topic)
  Pelton::Native.time_wakes = true
  Array.new(COUNT) do
    began = Bench.now
    producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30)
    since = Pelton::Native.since_wake
    since && since < Bench.now - began ? since * 1e6 : 0.0
  end
ensure
  Pelton::Native.time_wakes = false
end

# Microseconds of each of so many waits that look every `pause` seconds: what a wait costs without a wake-up.
def sleeping(producer, topic, pause, count)
  Array.new(count) do
    Bench.seconds do
      delivery = producer.produce_async(topic: topic, payload: PAYLOAD)
      sleep(pause) until delivery.done?
    end * 1e6
  end
end

Bench.measure("wakeup") do |bench|
  topic = Cluster.topic(1)

  bench.case("from the report to the thread, p50", "µs") do
    opened(topic) do |producer|
      times = wastes(producer, topic)
      bench.note("from the report to the thread, p99", "µs", Bench.percentile(times, 0.99))
      Bench.median(times)
    end
  end

  bench.case("C loop, round trip, p50", "µs") do
    Cluster.c_loop("sync", topic, COUNT, PAYLOAD.bytesize, options: AT_ONCE)
  end

  bench.case("produce_sync, p50", "µs", vs: "C loop, round trip, p50") do
    opened(topic) do |producer|
      times = Array.new(COUNT) do
        Bench.seconds { producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) } * 1e6
      end
      bench.note("produce_sync, p99", "µs", Bench.percentile(times, 0.99))
      bench.note("produce_sync, #{COUNT} in a row", "ms", times.sum / 1000)
      Bench.median(times)
    end
  end

  SLEEPS.each do |pause, count|
    name = "a wait that sleeps #{(pause * 1000).round} ms"
    bench.case("#{name}, p50", "µs", vs: "produce_sync, p50") do
      opened(topic) do |producer|
        times = sleeping(producer, topic, pause, count)
        bench.note("#{name}, p99", "µs", Bench.percentile(times, 0.99))
        bench.note("#{name}, #{COUNT} in a row (from #{count})", "ms", times.sum / 1000 * COUNT / count)
        Bench.median(times)
      end
    end
  end
end
