# How many messages a second go through a consumer class: untouched, read, filtered by a field, with I/O per key?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/served"

SIZES = { "1 KB" => 1024, "5 KB" => 5120 }.freeze
COUNT = Bench.some(90_000)
# Untouched ones of 1 KB: 90,000 would be gone in a tenth of a second.
MANY = Bench.some(450_000)
DIFFERENT = 10_000 # documents, sent several times
# Messages with 1 ms of I/O each, of so many keys; without keys fewer of them tell as much.
KEYS = 1000
WITHOUT = Bench.some(10_000)

def documents(size, topic_count)
  orders = Orders.new(bytes: size - 60)
  made = Array.new(DIFFERENT) { orders.next }
  Cluster.filled(topic_count, Served::PARTITIONS) { |index| made[index % DIFFERENT] }
end

Bench.measure("framework") do |bench|
  SIZES.each do |name, size|
    many = Cluster.fitting(size == 1024 ? MANY : COUNT, size, Served::PARTITIONS)
    plain = Cluster.filled(many, Served::PARTITIONS) { "x" * size }
    bench.case("C loop, #{name}", "msg/s") { Cluster.c_loop("consume", plain, many) }
    bench.case("#{name}, untouched", "msg/s", vs: "C loop, #{name}") do
      before = GC.stat(:total_allocated_objects)
      speed = Served.speed(plain, many) { messages.size }
      bench.note("#{name}, untouched, a message", "objects", (GC.stat(:total_allocated_objects) - before).fdiv(many))
      speed
    end
    bench.case("#{name}, each message, payload untouched", "msg/s", vs: "C loop, #{name}") do
      Served.speed(plain, many) { |messages| messages.each(&:offset) }
    end

    count = Cluster.fitting(COUNT, size, Served::PARTITIONS)
    orders = documents(size, count)
    bench.case("#{name}, payload read (JSON)", "msg/s", vs: "C loop, #{name}") do
      Served.speed(orders, count, words: -> { decode :json }) { |messages| messages.each(&:payload) }
    end
    bench.case("#{name}, field filter (dig), the rare read", "msg/s", vs: "C loop, #{name}") do
      found = Thread::Queue.new
      speed = Served.speed(orders, count, words: -> { decode :json }) do |messages|
        messages.each { |one| found << one.payload if Orders.rare?(one.dig("shipping", "method")) }
      end
      raise "#{found.size} documents found, not #{Orders.rare_of(count)}" unless found.size == Orders.rare_of(count)

      speed
    end
  end

  io = ->(messages) { messages.each { sleep 0.001 } }
  SIZES.each do |name, size|
    count = Cluster.fitting(COUNT, size, Served::PARTITIONS)
    slow = Cluster.topic(Served::PARTITIONS)
    Cluster.fill(slow, count, 0...Served::PARTITIONS, key: ->(index) { "key-#{index % KEYS}" }) { "x" * size }
    without = "#{name}, 1 ms of I/O a message, 5 workers"
    bench.case(without, "msg/s") { Served.speed(slow, [WITHOUT, count].min, &io) }
    bench.case("#{name}, 1 ms of I/O a message, per key 8, 40 workers", "msg/s", vs: without) do
      Served.speed(slow, count, concurrency: 40, words: -> { concurrency 8, by: :key }, &io)
    end
  end
end
