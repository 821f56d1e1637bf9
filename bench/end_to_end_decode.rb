# How many JSON messages of 1 to 100 KB a second go through a consumer class that checks them, by each engine?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/served"
require "pelton/parallel"

# KB of a topic's messages; so many in each topic, over 5 partitions.
SIZES = [1, 5, 10, 25, 50, 100].freeze
COUNT = Bench.some(2_000)
DIFFERENT = 200 # documents, sent several times
WORKERS = 2

# What makes payloads: for the worker that reads them, and for workers ahead, whose results are frozen.
class Parser
  def initialize(**options) = @options = options.freeze
  def call(message) = JSON.parse(message.raw_payload, **@options)
end

# What natively parsed payloads go through in a Ractor: as they are.
class Natively
  def call(message) = message.decoded
end

# The words of a topic's block.
ENGINES = {
  "sequential" => -> { deserializer Parser.new },
  "threads" => -> { deserializer Parser.new, parallel: :thread },
  "native" => -> { decode :json },
  "Ractors" => -> { deserializer Parser.new(freeze: true), parallel: :ractor },
  "Ractors, natively parsed" => lambda do
    decode :json, freeze: true
    deserializer Natively.new, parallel: :ractor
  end,
  "sequential, frozen" => -> { deserializer Parser.new(freeze: true) },
  "auto" => -> { deserializer Parser.new(freeze: true), parallel: :auto }
}.freeze

def documents(kilobytes)
  orders = Orders.new(bytes: (kilobytes * 1024) - 60)
  Array.new([DIFFERENT, COUNT].min) { orders.next }
end

# Messages/s; every consumer looks at the same fields, and their sum is what it has to be.
def run(topic, count, words, expected)
  look = ->(order) { order["timestamp"] + order["lines"].count { |line| line["quantity"].positive? } }
  sums = Thread::Queue.new
  options = { batch: 100, parallel_workers: WORKERS, concurrency: 1 }
  speed = Served.speed(topic, count, words: words, **options) do |messages|
    sums << messages.sum { |message| look.call(message.payload) }
  end
  found = Array.new(sums.size) { sums.pop }.sum
  found == expected.sum(&look) ? speed : raise("the consumers saw something else")
end

Bench.measure("end_to_end_decode") do |bench|
  engines = ENGINES
  engines = engines.reject { |name, _| name.start_with?("Ractors") } unless Pelton::Parallel::RactorWorker.available?
  bench.chart("JSON messages a second, through a consumer that looks at each", "msg/s")
  SIZES.each do |kilobytes|
    made = documents(kilobytes)
    count = Cluster.fitting(COUNT, kilobytes * 1024, Served::PARTITIONS)
    values = made.map { |document| JSON.parse(document) }
    expected = Array.new(count) { |index| values[index % values.size] }
    topic = Cluster.filled(count, Served::PARTITIONS) { |index| made[index % made.size] }
    engines.each do |name, words|
      # Auto may choose what its own deserializer does without workers.
      peer = "#{kilobytes} KB, #{name == "auto" ? "sequential, frozen" : "sequential"}" unless name == "sequential"
      bench.case("#{kilobytes} KB, #{name}", "msg/s", vs: peer) { run(topic, count, words, expected) }
    end
  end
end
