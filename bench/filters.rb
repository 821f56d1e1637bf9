# How long does it take to find 50 of 10,000 JSON documents of 5 KB by a field and to build those, and to build all?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/prefetched"

SIZE = 5_000
COUNT = Cluster.fitting(Bench.some(10_000), SIZE, Prefetched::PARTITIONS)
RARE = [:is, [:field, "shipping", "method"], :in, ["drone"]].freeze
# What the consumer does besides: so many slices of some 0.5 ms.
SLICES = Bench.some(400)

ORDERS = Orders.new(bytes: SIZE).then { |orders| Array.new(COUNT) { orders.next } }
VALUES = ORDERS.map { |document| JSON.parse(document) }
IDS = VALUES.filter_map { |order| order["id"] if Orders.rare?(order["shipping"]["method"]) }.sort

EARLY = lambda do |message|
  order = JSON.parse(message.raw_payload)
  order["id"] if Orders.rare?(order["shipping"]["method"])
end

# ms until the 50 are found; the block gives the orders of a batch that are rare. beside: ms that it adds to other work.
def find(bench, name, topic, beside: false, **options)
  found = Prefetched.new(topic, COUNT, **options).measure(early: EARLY) do |feed|
    alone = beside ? alone(slices) : 0
    ids = []
    took = Bench.seconds do
      feed.each(beside ? slices : nil) do |batch|
        yield(batch.messages).each { |order| ids << order["id"] }
        batch.release
      end
    end
    [ids, took - alone]
  end
  ids, took = found.value
  raise "#{name} found something else" unless (ids + found.early.compact).sort == IDS

  note(bench, name, found) unless beside
  [took, 0.0001].max * 1000 * COUNT / found.messages # beside other work it may be lost in the noise
end

def alone(work) = Bench.seconds { nil while work.call }

# Work of a consumer: each call does a slice of it, and tells whether there is more.
def slices
  left = SLICES
  lambda do
    5_000.times { |number| (number * 7919) ^ number }
    (left -= 1).positive?
  end
end

LOOK = ->(order) { order["timestamp"] + order["lines"].size }

# ms until all are built and looked at; the block gives the order of a message.
def build(bench, name, topic, **options)
  early = ->(message) { LOOK.call(JSON.parse(message.raw_payload)) }
  found = Prefetched.new(topic, COUNT, **options).measure(early: early) do |feed|
    sum = 0
    feed.each do |batch|
      sum += batch.messages.sum { |message| LOOK.call(yield(message)) }
      batch.release
    end
    sum
  end
  raise "#{name} built something else" unless found.value + found.early.sum == VALUES.sum(&LOOK)

  note(bench, name, found)
  found.seconds * 1000 * COUNT / found.messages # what came early would have taken as long
end

def note(bench, name, found)
  bench.note("#{name}, cores busy", "cores", found.cpu / found.seconds)
  bench.note("#{name}, a message", "objects", found.objects.fdiv(found.messages))
end

Bench.measure("filters") do |bench|
  topic = Cluster.filled(COUNT, Prefetched::PARTITIONS) { |index| ORDERS[index] }
  bench.chart("ms to find 50 of #{COUNT} documents of 5 KB and build those", "ms", /\Afilter/)
  bench.chart("ms to build all of #{COUNT} documents of 5 KB", "ms", /\Abuild/)
  payloads = ->(messages) { messages.map(&:payload) }

  parse = "filter: JSON.parse of all"
  bench.case(parse, "ms") do
    find(bench, parse, topic, decode: :bytes) do |messages|
      orders = messages.map { |message| JSON.parse(message.raw_payload) }
      orders.select { |order| Orders.rare?(order["shipping"]["method"]) }
    end
  end
  dig = "filter: dig, parsed by the thread that reads"
  bench.case(dig, "ms", vs: parse) do
    find(bench, dig, topic) do |messages|
      messages.select { |message| Orders.rare?(message.dig("shipping", "method")) }.map(&:payload)
    end
  end
  { "one native thread" => 1, "two native threads" => 2 }.each do |threads, count|
    options = { decode: :json, where: RARE, threads: count }
    name = "filter: where, #{threads}"
    bench.case(name, "ms", vs: parse) { find(bench, name, topic, **options, &payloads) }
    bench.case("#{name}, added to the consumer's other work", "ms", vs: parse) do
      find(bench, name, topic, beside: true, **options, &payloads)
    end
  end

  all = "build: JSON.parse of all"
  bench.case(all, "ms") { build(bench, all, topic, decode: :bytes) { |message| JSON.parse(message.raw_payload) } }
  drop_in = "build: payload, parsed by the thread that reads"
  bench.case(drop_in, "ms", vs: all) { build(bench, drop_in, topic, &:payload) }
  ahead = "build: payload, decoded ahead by one native thread"
  bench.case(ahead, "ms", vs: all) { build(bench, ahead, topic, decode: :json, threads: 1, &:payload) }
end
