# How many JSON messages a second are parsed and validated inline, by threads, by native threads, by Ractors, per size?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/prefetched"
require "pelton/decoding/parallel/parallel"
require "pelton/decoding/parallel/auto"

# Size of a message => how many of them, how many in a batch; a shuffled mix of all of them.
SIZES = { "0.5 KB" => [500, 20_000, 500], "5 KB" => [5_100, 5_000, 500], "19 KB" => [18_800, 1_500, 250],
          "78 KB" => [78_000, 600, 60] }.freeze
MIX = "mixed sizes"
MIXED = [1_500, 250].freeze
# Where all numbers of workers are tried; elsewhere two.
THOROUGH = "5 KB"
PARTITIONS = 2
WORKERS = [1, 2, 4, 8].freeze
# Batches that are in work while the next one is taken.
AHEAD = 2
FROZEN = { format: :json, freeze: true }.freeze

# The work: parsing, and a look at what an order needs to have.
module Validated
  class << self
    def call(message) = check(JSON.parse(message.raw_payload))

    def check(order)
      customer, lines = order.values_at("customer", "lines")
      valid = order["id"].size == 36 && order["total"].positive? && customer["email"].include?("@") &&
              lines.all? { |line| line["quantity"].positive? && line["sku"].start_with?("SKU-") }
      valid ? order : raise("an order that is none")
    end
  end
end

# The same for Ractors, whose results have to be frozen.
module Frozen
  def self.call(message) = Validated.check(JSON.parse(message.raw_payload, freeze: true))
end

# The same of what native threads have parsed.
module Checked
  def self.call(message) = Validated.check(message.payload)
end

POOLS = [:thread, *(:ractor if Pelton::Parallel::RactorWorker.available?)].freeze

# How the work is done: [engine of Pelton::Parallel, its workers, job, decode, native threads]
ENGINES = {
  "inline" => [:inline, nil, Validated, :bytes, 1],
  "auto" => [:auto, 2, Validated, :bytes, 1],
  "threads, 2" => [:thread, 2, Validated, :bytes, 1],
  **[1, 2].to_h { |count| ["native threads, #{count}", [:inline, nil, Checked, :json, count]] },
  "auto, natively parsed" => [:auto, 2, Checked, FROZEN, 1],
  "Ractors, 2" => [:ractor, 2, Frozen, :bytes, 1],
  **WORKERS.to_h { |count| ["Ractors, #{count}, natively parsed", [:ractor, count, Checked, FROZEN, 1]] }
}.freeze
ELSEWHERE = ["inline", "auto", "threads, 2", "Ractors, 2", "native threads, 1", "auto, natively parsed",
             "Ractors, 2, natively parsed"].freeze
# The case to compare with, if it is not inline: the same engine without a choice.
PEERS = { "auto, natively parsed" => "native threads, 1" }.freeze

# Takes batches, has an engine work on some of them, if that is worth it, while it takes more, and sums up what it gets.
def consume(feed, engine, job)
  sum = 0
  open = []
  finish = lambda do
    batch, future = open.shift
    sum += future ? future.values.sum(&LOOK) : batch.messages.sum { |message| LOOK.call(job.call(message)) }
    batch.release
  end
  feed.each do |batch|
    open << [batch, (engine.dispatch(batch.messages, job, timeout: 60) if engine.worth?(batch.size))]
    finish.call if open.size > AHEAD
  end
  finish.call until open.empty?
  sum
end

LOOK = ->(order) { order["timestamp"] + order["lines"].size }
# Half of a partition's batches have to be back before more come, and those that the engine has may all be of one.
FEED = { max_batch_bytes: 1 << 30, prefetch_batches: 2 * AHEAD, prefetch_bytes: 1 << 30 }.freeze

# The sum of all messages has to be what is expected.
def run(topic, count, batch, kind, expected)
  name, workers, job, decode, threads = ENGINES.fetch(kind)
  feed = Prefetched.new(topic, count, decode: decode, threads: threads, max_messages: batch, partitions: PARTITIONS,
                                      **FEED)
  early = ->(message) { LOOK.call(JSON.parse(message.raw_payload)) }
  ready = lambda do |messages|
    next engine(name, workers, messages.first(batch), job) unless name == :auto

    chosen(Topic.new(topic, count, { decode: decode, decoding_threads: threads, max_messages: batch, **FEED }),
           workers, job)
  end
  found = feed.measure(early: early, ready: ready) do |_, engine|
    consume(feed, engine, job).tap { engine.close }
  end
  found.value + found.early.sum == expected ? found : raise("#{kind} gives something else")
end

# With workers that have begun.
def engine(name, workers, messages, job)
  Warning[:experimental] = false
  return Pelton::Parallel.engine(name) unless workers

  Pelton::Parallel.engine(name, size: workers).tap { |pool| pool.dispatch(messages, job).values }
end

# The messages, from Kafka on.
Topic = Struct.new(:name, :messages, :options) do
  def each(&block) = Cluster.consume(name, messages, release: false, **options, &block)
end

# An engine that has tried its candidates with these messages. (A quick run has too few messages for that.)
def chosen(topic, workers, job)
  Warning[:experimental] = false
  chosen = Thread::Queue.new
  pools = POOLS.to_h { |kind| [kind, Pelton::Parallel.engine(kind, size: workers)] }
  auto = Pelton::Parallel::Auto.new(pools) { |name, *| chosen << name }
  consume(topic, auto, job) while chosen.empty? && !Bench::QUICK
  auto
end

# Work without messages.
module Parsed
  def self.call(document) = JSON.parse(document, freeze: true)
end

# KB of memory that a worker takes after some work.
def memory(kind, workers)
  documents = Array.new(400) { |number| JSON.generate(id: number, text: "x" * 400).freeze }.freeze
  Bench.forked do
    Warning[:experimental] = false
    before = Bench.resident
    pool = Pelton::Parallel.engine(kind, size: workers, min: 1, task_size: 10)
    3.times { pool.dispatch(documents, Parsed).values }
    ((Bench.resident - before) * 1024 / workers).tap { pool.close }
  end
end

def topics
  documents = SIZES.transform_values do |size, count,|
    orders = Orders.new(bytes: size)
    Array.new([Bench.some(count), 500].min) { orders.next } # sent several times
  end
  found = SIZES.to_h { |name, (_, count, batch)| [name, [documents.fetch(name), Bench.some(count), batch]] }
  mixed = documents.values.map { |all| all.first(50) }.flatten.shuffle(random: Random.new(1))
  found[MIX] = [mixed, Bench.some(MIXED.first), MIXED.last]
  found
end

Bench.measure("decode_engines", warm_up: false) do |bench|
  topics.each do |size, (documents, count, batch)|
    batch = (count / 10).clamp(1, batch)
    bench.chart("messages of #{size} parsed and validated a second", "msg/s", /\A#{size}/)
    look = documents.map { |document| LOOK.call(JSON.parse(document)) }
    expected = (0...count).sum { |index| look[index % look.size] }
    topic = Cluster.filled(count, PARTITIONS) { |index| documents[index % documents.size] }
    (size == THOROUGH ? ENGINES.keys : ELSEWHERE).each do |kind|
      next if kind.start_with?("Ractors") && !POOLS.include?(:ractor)

      name = "#{size}, #{kind}"
      bench.case(name, "msg/s", vs: kind == "inline" ? nil : "#{size}, #{PEERS.fetch(kind, "inline")}") do
        found = run(topic, count, batch, kind, expected)
        bench.note("#{name}, CPU a message", "µs", found.cpu * 1e6 / found.messages)
        bench.note("#{name}, a message", "objects", found.objects.fdiv(found.messages))
        found.messages / found.seconds
      end
    end
  end
  bench.case("memory of each of 8 threads", "KB") { memory(:thread, 8) }
  bench.case("memory of each of 8 Ractors", "KB") { memory(:ractor, 8) } if POOLS.include?(:ractor)
end
