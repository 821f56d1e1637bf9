# How many transactions does Pelton commit in a second: one after the other, and side by side from a pool of producers?
# frozen_string_literal: true

require "securerandom"
require_relative "support"

PAYLOAD = ("x" * 100).freeze
SIZES = [1, 10, 100].freeze # messages of a transaction
POOL = 10
SECONDS = Bench::QUICK ? 0.1 : 1.5

# Transactions/s of the block, called over and over for a while; each call is one.
def rate
  count = 0
  started = Bench.now
  until Bench.now - started > SECONDS
    yield
    count += 1
  end
  count / (Bench.now - started)
end

def commit(producer, topic, size)
  producer.transaction { |tx| size.times { tx.produce_async(topic: topic, payload: PAYLOAD) } }
end

# Opened: the first transaction gets the producer's id.
def with_pool(topic)
  pool = Pelton::ProducerPool.new(Cluster.config, size: POOL, timeout: 60, kafka: Cluster::PRODUCE) do |index|
    { "transactional.id" => "bench-#{SecureRandom.hex(4)}-#{index}" }
  end
  in_threads { pool.with { |producer| commit(producer, topic, 1) && IO.select(nil, nil, nil, 0.1) } }
  yield pool
ensure
  pool&.close
end

def in_threads(&block) = Array.new(POOL) { Thread.new(&block) }.map(&:value)

Bench.measure("transactions") do |bench|
  topic = Cluster.topic

  SIZES.each do |size|
    bench.case("1 producer, #{size} each", "transactions/s") do
      producer = Cluster.producer({ **Cluster::PRODUCE, "transactional.id" => "bench-#{SecureRandom.hex(4)}" })
      commit(producer, topic, size)
      rate { commit(producer, topic, size) }
    ensure
      producer&.close
    end

    bench.case("pool of #{POOL}, #{size} each", "transactions/s", vs: "1 producer, #{size} each") do
      with_pool(topic) do |pool|
        in_threads { rate { pool.with { |producer| commit(producer, topic, size) } } }.sum
      end
    end
  end
end
