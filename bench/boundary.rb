# How many decoded documents of 65 KB a second cross from a Ractor to the main one: copied, or shareable and how?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"

unless defined?(Ractor::Port)
  warn "boundary: needs the Ractors of Ruby 4.0"
  exit
end

SIZE = 65_000
DIFFERENT = Bench::QUICK ? 20 : 60
ROUNDS = Bench.some(25)
PART = 10 # documents a send
WORKERS = [1, 2].freeze
DOCUMENTS = Orders.new(bytes: SIZE).then { |orders| Array.new(DIFFERENT) { orders.next.freeze } }.freeze
VALUES = DOCUMENTS.map { |document| JSON.parse(document) }

# Prepares inputs in a Ractor, which then sends the result.
module Ways
  COPY = Ractor.shareable_proc { |documents| documents.map { |document| JSON.parse(document) } }
  MAKE_SHAREABLE = Ractor.shareable_proc { |all| Ractor.make_shareable(all.map { |document| JSON.parse(document) }) }
  FREEZE = Ractor.shareable_proc { |all| all.map { |document| JSON.parse(document, freeze: true) }.freeze }
  NATIVE = Ractor.shareable_proc do |documents|
    documents.map { |document| Pelton::Native.decode({ format: :json, freeze: true }, document) }.freeze
  end
  # For messages that native threads have parsed already, which the time does not include.
  BUILD = Ractor.shareable_proc { |messages| messages.map(&:payload).freeze }
end

# Documents/s; each worker has two parts to do at any time.
def crossing(inputs, way, workers)
  answers = Ractor::Port.new
  ractors = Array.new(workers) do
    Ractor.new(way, answers) do |work, port|
      while (part = Ractor.receive)
        port.send(work.call(part))
      end
    end
  end
  parts = inputs.each_slice(PART).map(&:freeze)
  all = parts.each_with_index.to_a # in turn
  warm = ask(ractors, answers, all)
  raise "#{way} gives something else" unless warm.sum(&:size) == VALUES.size && (warm.flatten(1) - VALUES).empty?

  seconds = Bench.seconds { ask(ractors, answers, all * ROUNDS) }
  ractors.each { |ractor| ractor << nil }.each(&:join)
  DIFFERENT * ROUNDS / seconds
end

# Keeps the workers busy, and the last round's answers.
def ask(ractors, answers, parts)
  ahead = ractors.size * 2
  results = []
  parts.each_with_index do |(part, _), index|
    results << answers.receive if index >= ahead
    ractors[index % ractors.size] << part
  end
  results.concat(Array.new([ahead, parts.size].min) { answers.receive }).last(DIFFERENT / PART)
end

# Messages whose documents native threads have decoded.
def decoded(topic)
  batches = []
  options = { decode: { format: :json, freeze: true }, release: false, prefetch_batches: DIFFERENT,
              prefetch_bytes: 1 << 30 }
  Cluster.consume(topic, DIFFERENT, **options) { |batch| batches << batch }
  messages = batches.flat_map(&:messages)
  messages.each { |message| message.dig("id") }
  messages
end

Bench.measure("boundary", warm_up: false) do |bench|
  bench.chart("documents of 65 KB a second, parsed or built by a Ractor and used by the main one", "doc/s")
  topic = Cluster.filled(DIFFERENT, 1) { |index| DOCUMENTS[index] }
  bench.case("no Ractor: JSON.parse", "doc/s") do
    Bench.forked do
      seconds = Bench.seconds { ROUNDS.times { DOCUMENTS.each { |document| JSON.parse(document) } } }
      DIFFERENT * ROUNDS / seconds
    end
  end
  WORKERS.each do |workers|
    many = workers == 1 ? "1 worker" : "#{workers} workers"
    { "deep copy" => Ways::COPY, "make_shareable" => Ways::MAKE_SHAREABLE,
      "JSON.parse(freeze: true)" => Ways::FREEZE, "native, parsed and built" => Ways::NATIVE }.each do |name, way|
      bench.case("#{name}, #{many}", "doc/s", vs: "no Ractor: JSON.parse") do
        Bench.forked do
          Warning[:experimental] = false
          crossing(DOCUMENTS, way, workers)
        end
      end
    end
    bench.case("native, parsed before, #{many}", "doc/s", vs: "no Ractor: JSON.parse") do
      Bench.forked do
        Warning[:experimental] = false
        crossing(decoded(topic), Ways::BUILD, workers)
      end
    end
  end
end
