# How much slower are the other partitions while one partition's consumer sleeps 5 s over each message?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/served"

SIZE = 1024
NAP = 5

# The speed of the partitions from 1 on; the block is what consume does with messages of partition 0.
def others(topic, count)
  tally = Served::Tally.new(count)
  over, ended = IO.pipe # ends all naps
  served = Served.new(topic, words: -> { decode :json }) do
    next messages.each { yield over } if partition.zero?

    messages.each(&:payload)
    tally.add(messages.size)
  end
  served.run do
    tally.speed.tap { ended.close }
  end
ensure
  over.close
end

Bench.measure("slow_neighbour") do |bench|
  orders = Orders.new(bytes: SIZE - 60)
  documents = Array.new(10_000) { orders.next }
  count = Cluster.fitting(Bench.some(200_000), SIZE, Served::PARTITIONS - 1)
  topic = Cluster.topic(Served::PARTITIONS)
  Cluster.fill(topic, 200, 0..0) { "x" * SIZE }
  Cluster.fill(topic, count, 1...Served::PARTITIONS) { |index| documents[index % documents.size] }

  bench.case("4 partitions beside a quick one", "msg/s") { others(topic, count) { nil } }
  bench.case("4 partitions beside one that sleeps #{NAP} s a message", "msg/s",
             vs: "4 partitions beside a quick one") do
    others(topic, count) { |over| over.wait_readable(NAP) }
  end
end
