# How many messages a second go through a consumer class: untouched, read, filtered by a field, with I/O per key?
# frozen_string_literal: true

require "rbconfig"
require_relative "support"
require_relative "support/orders"
require_relative "support/served"
require "pelton/cli/larger_heap"

SIZES = { "1 KB" => 1024, "5 KB" => 5120 }.freeze
COUNT = Bench.some(90_000)
# Untouched ones of 1 KB: 90,000 would be gone in a tenth of a second.
MANY = Bench.some(450_000)
DIFFERENT = 10_000 # documents, sent several times
# Orders whose lines have a description of so many characters, or none, and then twice as many Ruby objects of as many
# bytes. Documents of Karafka's measured figures (docs/benchmarks.md) are as the former: 27 objects (1 KB), 113 (5 KB).
KINDS = { "text" => 175, "dense" => nil }.freeze
# Messages with 1 ms of I/O each, of this many keys. Without keys, fewer messages suffice.
KEYS = 1000
WITHOUT = Bench.some(10_000)

def documents(size, description)
  orders = Orders.new(bytes: size - 60, description: description)
  Array.new(DIFFERENT) { orders.next }
end

# Ruby objects that JSON.parse makes of each of them.
def objects(documents)
  before = GC.stat(:total_allocated_objects)
  documents.each { |document| JSON.parse(document) }
  (GC.stat(:total_allocated_objects) - before).fdiv(documents.size)
end

def read_all(topic, count)
  Served.speed(topic, count, words: -> { decode :json }) { |messages| messages.each(&:payload) }
end

# The same, and its peer, where garbage is collected less often, as `pelton doctor` advises: in a Ruby of its own, for
# only its start asks for these settings. what: "read", a topic, how many; or "parse", a name, how many.
def roomy(*what)
  options = ("--yjit" if defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?)
  command = [RbConfig.ruby, *options, "-I#{__dir__}/../lib", __FILE__, *what.map(&:to_s)]
  environment = { **Pelton::LargerHeap::VARIABLES, "PELTON_BOOTSTRAP" => Cluster.bootstrap }
  Float(IO.popen([environment, *command], &:read))
end

# Messages a second, of Strings.
def parse_all(documents, count)
  count / Bench.seconds { count.times { |index| JSON.parse(documents[index % DIFFERENT]) } }
end

# The program that `roomy` starts. Its first round warms up.
def measure_alone(what, name, count)
  if what == "read"
    run = -> { read_all(name, count) }
  else
    size, kind = name.match(/\A(\d+ KB) (\w+)\z/).captures
    made = documents(SIZES.fetch(size), KINDS.fetch(kind))
    run = -> { parse_all(made, count) }
  end
  run.call
  puts run.call
end

unless ARGV.empty?
  measure_alone(ARGV[0], ARGV[1], Integer(ARGV[2]))
  exit
end

# [topic, messages in it, the peer's case]
def json(bench, name, size, description)
  count = Cluster.fitting(COUNT, size, Served::PARTITIONS)
  made = documents(size, description)
  orders = Cluster.filled(count, Served::PARTITIONS) { |index| made[index % DIFFERENT] }
  parse = "JSON.parse of each, no Kafka, #{name}"
  bench.case(parse, "msg/s") do
    bench.note("#{name}, a document", "objects", objects(made))
    parse_all(made, count)
  end
  bench.case("#{name}, payload read (JSON)", "msg/s", vs: parse) { read_all(orders, count) }
  bench.case("#{parse}, roomy heap", "msg/s") { roomy("parse", name, count) }
  bench.case("#{name}, payload read (JSON), roomy heap", "msg/s", vs: "#{parse}, roomy heap") do
    roomy("read", orders, count)
  end
  [orders, count, parse]
end

def filters(bench, name, topic, count, peer)
  rare = Orders.rare_of(count)
  bench.case("#{name}, field filter (dig), the rare read", "msg/s", vs: peer) do
    found = Thread::Queue.new
    speed = Served.speed(topic, count, words: -> { decode :json }) do |messages|
      messages.each { |message| found << message.payload if Orders.rare?(message.dig("shipping", "method")) }
    end
    raise "#{found.size} documents found, not #{rare}" unless found.size == rare

    speed
  end
  bench.case("#{name}, field filter (where), the rare read", "msg/s", vs: peer) do
    words = lambda do
      decode :json
      where("shipping", "method").eq("drone")
    end
    Served.speed(topic, rare, words: words) { |messages| messages.each(&:payload) } * count / rare
  end
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

    KINDS.each { |kind, text| filters(bench, "#{name} #{kind}", *json(bench, "#{name} #{kind}", size, text)) }
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
