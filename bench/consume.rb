# How many messages does one subscription consume in a second, all objects made, payloads untouched, beside a C loop?
# frozen_string_literal: true

require_relative "support"

SIZES = { "1 KB" => [1024, 300_000], "100 B" => [100, 600_000], "5 KB" => [5120, 80_000] }.freeze

# A new topic with this many messages in these partitions, produced by another process: this one's heap stays small.
def filled(count, size, partitions)
  topic = Cluster.topic
  Cluster.bootstrap # before the fork, so that the child has it
  Bench.forked { Cluster.fill(topic, count, partitions) { "x" * size } }
  topic
end

Bench.measure("consume") do |bench|
  all = 0...Cluster::PARTITIONS
  cases = SIZES.map { |name, (size, wanted)| [name, size, wanted, all] }
  # The other partitions are empty, and a fetch must not wait for them.
  cases << ["1 KB in one of #{all.size} partitions", *SIZES.fetch("1 KB"), 0..0]
  cases.each do |name, size, wanted, partitions|
    count = Cluster.fitting(Bench.some(wanted), size, partitions.count)
    topic = filled(count, size, partitions)
    bench.case("C loop, #{name}", "msg/s") { Cluster.c_loop("consume", topic, count) }
    bench.case("#{name} untouched", "msg/s", vs: "C loop, #{name}") do
      before = GC.stat(:total_allocated_objects)
      speed = Cluster.consume(topic, count) { |batch| batch.messages.each(&:offset) }
      bench.note("#{name} untouched, per message", "objects", (GC.stat(:total_allocated_objects) - before).fdiv(count))
      speed
    end
  end
end
