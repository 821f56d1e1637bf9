# How many messages a second of six topics, of 1 to 100 KB, go through a consumer class by each engine? JSON, Avro.
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/ruby_avro"
require_relative "support/served"
require "pelton/avro"
require "pelton/decoding/parallel/parallel"

# KB of a topic's documents (as Avro they have half of that); so many in each topic, over 5 partitions.
SIZES = [1, 5, 10, 25, 50, 100].freeze
COUNT = Bench.some(2_000)
DIFFERENT = 100 # documents of a size, sent several times
WORKERS = 2

# Deserializers: for the worker that reads payloads, and for workers ahead, whose results are frozen.
class Parser
  def initialize(**options) = @options = options.freeze
  def call(message) = JSON.parse(message.raw_payload, **@options)
end

# The deserializer of natively parsed payloads in a Ractor: it returns them as they are.
class Natively
  def call(message) = message.decoded
end

# Avro by Ruby alone.
class AvroParser
  def initialize = @avro = RubyAvro.new(Orders::SCHEMA)
  def call(message) = @avro.decode(message.raw_payload)
end

# The words of a topic's block.
JSON_ENGINES = {
  "sequential" => -> { deserializer Parser.new },
  "threads" => -> { deserializer Parser.new, parallel: :thread },
  "native" => -> { decode :json },
  "Ractors" => -> { deserializer Parser.new(freeze: true), parallel: :ractor },
  "Ractors, natively parsed" => lambda do
    decode :json, freeze: true
    deserializer Natively.new, parallel: :ractor
  end
}.freeze
AVRO_ENGINES = {
  "sequential" => -> { deserializer AvroParser.new },
  "native" => -> { decode :avro, schema: Orders::SCHEMA }
}.freeze

LOOK = ->(order) { order["timestamp"] + order["lines"].count { |line| line["quantity"].positive? } }

# A topic's documents, and how many messages it has.
Filling = Struct.new(:documents, :messages) do
  def [](index) = documents[index % documents.size]
  def sum = (0...messages).sum { |index| looks[index % looks.size] }
  def looks = @looks ||= documents.map { |document| LOOK.call(JSON.parse(document)) }
end

FILLINGS = SIZES.map do |kilobytes|
  orders = Orders.new(bytes: (kilobytes * 1024) - 60)
  documents = Array.new([DIFFERENT, COUNT].min) { orders.next }
  Filling.new(documents, Cluster.fitting(COUNT, kilobytes * 1024, Served::PARTITIONS))
end
EXPECTED = FILLINGS.sum(&:sum)

# A topic for each; the block makes a payload of a document.
def topics
  FILLINGS.map { |filling| Cluster.filled(filling.messages, Served::PARTITIONS) { |index| yield filling[index] } }
end

# Messages/s; every consumer looks at the same fields, and their sum is what it has to be.
def run(topics, words)
  sums = Thread::Queue.new
  options = { max_messages: 100, parallel_workers: WORKERS, concurrency: 1 }
  speed = Served.speed(topics, FILLINGS.sum(&:messages), words: words, **options) do |messages|
    sums << messages.sum { |message| LOOK.call(message.payload) }
  end
  found = Array.new(sums.size) { sums.pop }.sum
  found == EXPECTED ? speed : raise("the consumers saw something else")
end

Bench.measure("end_to_end_decode") do |bench|
  bench.chart("messages of six topics a second, through a consumer that looks at each", "msg/s")
  avro = Pelton::Avro::Serializer.new(schema: Orders::SCHEMA)
  encode = Hash.new { |known, document| known[document] = avro.serialize(JSON.parse(document)) }.compare_by_identity
  possible = JSON_ENGINES.reject { |name, _| name.start_with?("Ractors") && !Pelton::Parallel::RactorWorker.available? }
  { "JSON" => [topics(&:itself), possible], "Avro" => [topics { |document| encode[document] }, AVRO_ENGINES] }
    .each do |format, (filled, engines)|
      engines.each do |name, words|
        peer = "#{format}, sequential" unless name == "sequential"
        bench.case("#{format}, #{name}", "msg/s", vs: peer) { run(filled, words) }
      end
    end
end
