# How long does a thread wait in produce_sync (100 B, acks=all), beside librdkafka's own round trip?
# frozen_string_literal: true

require_relative "support"

PAYLOAD = ("x" * 100).freeze
AT_ONCE = { "acks" => "all", "linger.ms" => 0 }.freeze

# Microseconds of each of so many calls, one after the other.
def waits(topic, count, options)
  producer = Cluster.producer(options)
  50.times { producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) }
  Array.new(count) do
    Bench.seconds { producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) } * 1e6
  end
ensure
  producer&.close
end

Bench.measure("sync") do |bench|
  topic = Cluster.topic(1)

  ways = { "linger 0" => [AT_ONCE, Bench.some(2000)], "default settings" => [{}, Bench.some(400)] }
  ways.each do |name, (options, count)|
    bench.case("C loop, #{name}, p50", "µs") do
      Cluster.c_loop("sync", topic, count, PAYLOAD.bytesize, options: options)
    end
    bench.case("produce_sync, #{name}, p50", "µs", vs: "C loop, #{name}, p50") do
      times = waits(topic, count, options)
      bench.note("produce_sync, #{name}, p99", "µs", Bench.percentile(times, 0.99))
      p50 = Bench.median(times)
      bench.note("p50 beyond the C loop's, #{name}", "µs", p50 - bench.last("C loop, #{name}, p50", "µs"))
      p50
    end
  end
end
