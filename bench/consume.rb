# How many messages does one subscription consume in a second, all objects made, payloads untouched, beside a C loop?
# frozen_string_literal: true

require_relative "support"

SIZES = { "1 KB" => [1024, 300_000], "100 B" => [100, 600_000], "5 KB" => [5120, 80_000] }.freeze

Bench.measure("consume") do |bench|
  SIZES.each do |name, (size, wanted)|
    count = Cluster.fitting(Bench.some(wanted), size)
    payload = "x" * size
    topic = Cluster.filled(count) { payload }

    bench.case("C loop, #{name}", "msg/s") { Cluster.c_loop("consume", topic, count) }
    bench.case("#{name} untouched", "msg/s", vs: "C loop, #{name}") do
      before = GC.stat(:total_allocated_objects)
      speed = Cluster.consume(topic, count) { |batch| batch.messages.each(&:offset) }
      bench.note("#{name} untouched, per message", "objects", (GC.stat(:total_allocated_objects) - before).fdiv(count))
      speed
    end
  end
end
