# How many messages a second do 1, 100 and 1,000 fibers send on one thread, each with produce_sync?
# frozen_string_literal: true

require_relative "support"
begin
  require "async"
rescue LoadError
  require_relative "../test/support/small_scheduler" # enough to compare with itself, no more
end

PAYLOAD = ("x" * 100).freeze
# {fibers => messages of all of them}
SIZES = { 1 => Bench.some(1_000), 100 => Bench.some(20_000), 1_000 => [Bench.some(40_000), 1_000].max }.freeze
SCHEDULER = defined?(Async) ? "async #{Async::VERSION}" : "the tests' scheduler"

# Runs the block in so many fibers of one thread, under a scheduler.
def in_fibers(count, &block)
  if defined?(Async)
    Thread.new { Async { |task| Array.new(count) { task.async(&block) }.each(&:wait) } }.join
  else
    SmallScheduler.run { count.times { Fiber.schedule(&block) } }
  end
end

Bench.measure("fibers") do |bench|
  topic = Cluster.topic

  bench.case("C loop, round trip, p50", "µs") { Cluster.c_loop("sync", topic, 400, PAYLOAD.bytesize, options: {}) }

  SIZES.each do |fibers, messages|
    name = "#{fibers} fiber#{"s" if fibers > 1} (#{SCHEDULER})"
    bench.case(name, "msg/s") do
      producer = Cluster.producer({})
      50.times { producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) }
      times = []
      took = Bench.seconds do
        in_fibers(fibers) do
          (messages / fibers).times do
            times << Bench.seconds { producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 60) }
          end
        end
      end
      raise "#{times.size} of #{messages} messages" unless times.size == messages

      bench.note("#{name}, p50", "µs", Bench.median(times) * 1e6)
      bench.note("#{name}, p99", "µs", Bench.percentile(times, 0.99) * 1e6)
      bench.note("#{name}, Ruby threads for it", "threads", Thread.list.size)
      messages / took
    ensure
      producer&.close
    end
  end
end
