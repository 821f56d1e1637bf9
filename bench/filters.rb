# How long does it take to find 50 of 10,000 JSON (and Avro) documents of 5 KB by a field, to build those, to build all?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/prefetched"
require_relative "support/ruby_avro"
require_relative "support/slices"
require "pelton/avro"

SIZE = 5_000
COUNT = Cluster.fitting(Bench.some(10_000), SIZE, Prefetched::PARTITIONS)
RARE = [:is, [:field, "shipping", "method"], :in, ["drone"]].freeze
NATIVE = { decode: :json, where: RARE }.freeze
ORDERS = Orders.new(bytes: SIZE).then { |orders| Array.new(COUNT) { orders.next } }
AVRO = Pelton::Avro::Serializer.new(schema: Orders::SCHEMA)
LOOK = ->(order) { order["timestamp"] + order["lines"].size }
# Parsed they are not kept: collecting garbage beside two million objects would be half of what is measured.
SUM = ORDERS.sum { |document| LOOK.call(JSON.parse(document)) }
IDS = ORDERS.grep(/"method":"drone"/).map { |document| JSON.parse(document)["id"] }.sort.freeze

# Batches that may be out: as by default, which is 2 MiB a partition.
OUT = { prefetch_batches: [16 / Prefetched::PARTITIONS, 1].max }.freeze

# A topic of them: how native threads decode it, and how Ruby alone reads a payload.
Filled = Struct.new(:name, :decode, :alone, :parser) do
  def read(message) = parser.call(message.raw_payload)

  def rare(messages)
    messages.map { |message| read(message) }.select { |order| Orders.rare?(order["shipping"]["method"]) }
  end

  def ids(message) = rare([message]).map { |order| order["id"] }
end

def filled(decode, alone, parser, &payload)
  Filled.new(Cluster.filled(COUNT, Prefetched::PARTITIONS, &payload), decode, alone, parser)
end

# ms until the 50 are found; the block gives the orders of a batch that are rare.
def find(bench, name, topic, **options)
  found = Prefetched.new(topic.name, COUNT, **OUT, **options).measure(early: topic.method(:ids)) do |feed|
    ids = []
    feed.each do |batch|
      ids.concat(yield(batch.messages).map { _1["id"] })
      batch.release
    end
    ids
  end
  check(name, (found.value + found.early.flatten).sort == IDS)

  note(bench, name, found)
  found.seconds * 1000 * COUNT / found.messages
end

# ms that the other work of a consumer loses until it has found the 50 (see Slices).
def lose(bench, name, topic, **options)
  found = Prefetched.new(topic.name, COUNT, **OUT, **options).measure(early: topic.method(:ids)) do |feed|
    ids = []
    loss = Slices.new.beside do |slice|
      feed.each(slice) do |batch|
        ids.concat(batch.messages.map { _1.payload["id"] })
        batch.release
      end
    end
    [ids, loss]
  end
  ids, loss = found.value
  check(name, (ids + found.early.flatten).sort == IDS)

  lost, cpu, took = loss.map { |seconds| seconds * 1000 * COUNT / found.messages }
  bench.note("#{name}, CPU of the consumer's thread for it", "ms", cpu)
  bench.note("#{name}, until found", "ms", took)
  lost
end

# ms until all are built and looked at; the block gives the order of a message.
def build(bench, name, topic, **options)
  early = ->(message) { LOOK.call(topic.read(message)) }
  found = Prefetched.new(topic.name, COUNT, **OUT, **options).measure(early: early) do |feed|
    sum = 0
    feed.each do |batch|
      sum += batch.messages.sum { |message| LOOK.call(yield(message)) }
      batch.release
    end
    sum
  end
  check(name, found.value + found.early.sum == SUM)

  note(bench, name, found)
  found.seconds * 1000 * COUNT / found.messages # what came early would have taken as long
end

def check(name, is_right) = is_right || raise("#{name} found something else")

def note(bench, name, found)
  bench.note("#{name}, cores busy", "cores", found.cpu / found.seconds)
  bench.note("#{name}, a message", "objects", found.objects.fdiv(found.messages))
end

AHEAD = "payload, decoded ahead by one native thread"
WHERE = "where, one native thread"
PAYLOADS = ->(messages) { messages.map(&:payload) }

# What both formats have; "of all" is Ruby alone.
def compare(bench, label, topic)
  parse = "#{label}filter: #{topic.alone} of all"
  bench.case(parse, "ms") { find(bench, parse, topic, decode: :bytes) { |messages| topic.rare(messages) } }
  where = "#{label}filter: #{WHERE}"
  native = { decode: topic.decode, where: RARE, threads: 1 }
  bench.case(where, "ms", vs: parse) { find(bench, where, topic, **native, &PAYLOADS) }
  all = "#{label}build: #{topic.alone} of all"
  bench.case(all, "ms") { build(bench, all, topic, decode: :bytes) { |message| topic.read(message) } }
  ahead = "#{label}build: #{AHEAD}"
  bench.case(ahead, "ms", vs: all) { build(bench, ahead, topic, decode: topic.decode, threads: 1, &:payload) }
  [parse, all]
end

Bench.measure("filters") do |bench|
  json = filled(:json, "JSON.parse", JSON.method(:parse)) { |index| ORDERS[index] }
  format = { format: :avro, schema: Orders::SCHEMA }
  by_ruby = RubyAvro.new(Orders::SCHEMA).method(:decode)
  avro = filled(format, "Ruby's Avro", by_ruby) { |index| AVRO.serialize(JSON.parse(ORDERS[index])) }
  bench.chart("ms to find 50 of #{COUNT} documents of 5 KB and build those", "ms", /filter/)
  bench.chart("ms to build all of #{COUNT} documents of 5 KB", "ms", /build/)
  parse, all = compare(bench, "", json)

  dig = "filter: dig, parsed by the thread that reads"
  bench.case(dig, "ms", vs: parse) do
    find(bench, dig, json) do |messages|
      messages.select { |message| Orders.rare?(message.dig("shipping", "method")) }.map(&:payload)
    end
  end
  where = "filter: where, two native threads"
  bench.case(where, "ms", vs: parse) { find(bench, where, json, **NATIVE, threads: 2, &PAYLOADS) }
  { WHERE => 1, "where, two native threads" => 2 }.each do |name, threads|
    beside = "filter: #{name}, beside other work"
    bench.case(beside, "ms", vs: parse) { lose(bench, beside, json, **NATIVE, threads: threads) }
  end
  drop_in = "build: payload, parsed by the thread that reads"
  bench.case(drop_in, "ms", vs: all) { build(bench, drop_in, json, &:payload) }

  compare(bench, "Avro, ", avro)
end
