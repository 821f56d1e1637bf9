# How many JSON messages of 5 KB does a consumer filter by one field in a second, from Kafka on, building what matches?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"

SIZE = 5_000
COUNT = Cluster.fitting(Bench.some(80_000), SIZE)
FOUND = Orders.rare_of(COUNT)
DIFFERENT = 10_000 # documents, sent several times

# Messages/s; the block finds the rare payloads of a batch.
def filter(topic, **options)
  found = []
  speed = Cluster.consume(topic, COUNT, **options) { |batch| found.concat(yield(batch.messages)) }
  raise "#{found.size} documents found, not #{FOUND}" unless found.size == FOUND

  speed
end

Bench.measure("consume_json") do |bench|
  orders = Orders.new(bytes: SIZE)
  documents = Array.new(DIFFERENT) { orders.next }
  topic = Cluster.filled(COUNT) { |index| documents[index % DIFFERENT] }

  bench.case("C loop, no JSON", "msg/s") { Cluster.c_loop("consume", topic, COUNT) }
  bench.case("JSON.parse each", "msg/s") do
    filter(topic) do |messages|
      messages.map { |message| JSON.parse(message.raw_payload) }
              .select { |order| Orders.rare?(order["shipping"]["method"]) }
    end
  end
  bench.case("decoded ahead, dig, then payload", "msg/s", vs: "JSON.parse each") do
    filter(topic, decode: :json) do |messages|
      messages.select { |message| Orders.rare?(message.dig("shipping", "method")) }.map(&:payload)
    end
  end
  rare = [:is, [:field, "shipping", "method"], :in, ["drone"]].freeze
  bench.case("where, then payload", "msg/s", vs: "JSON.parse each") do
    filter(topic, decode: :json, where: rare) { |messages| messages.map(&:payload) }
  end
  bench.case("decoded ahead, payload of all", "msg/s", vs: "JSON.parse each") do
    filter(topic, decode: :json) do |messages|
      messages.map(&:payload).select { |order| Orders.rare?(order["shipping"]["method"]) }
    end
  end
end
