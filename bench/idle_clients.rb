# What do 100 idle producers cost a Ruby thread that computes, and what are they made of?
# frozen_string_literal: true

require_relative "support"
require_relative "support/blocking_peer"

CLIENTS = Bench.some(100)
SLICE = Bench::QUICK ? 0.05 : 0.5 # seconds of computing
PAIRS = 3 # of slices, with and without clients in turn
PAYLOAD = "x"

# Rounds of a small computation a second.
def compute
  rounds = 0
  deadline = Bench.now + SLICE
  500.times { |number| rounds += 1 if (number * number) % 7 >= 0 } while Bench.now < deadline
  rounds / SLICE
end

# Ruby's own part of the cost: a thread that waits for a queue.
class Parked
  def initialize
    @queue = Thread::Queue.new
    @thread = Thread.new { @queue.pop }
  end

  def close
    @queue.close
    @thread.join
  end
end

# Connected one after the other: a hundred at once are more than a listening socket takes.
def pelton(topic)
  Array.new(CLIENTS) do
    Cluster.producer({}).tap { |producer| producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) }
  end
end

def peers(topic)
  Array.new(CLIENTS) do
    BlockingPeer.new(topic, { "bootstrap.servers" => Cluster.bootstrap }).tap { |peer| peer.produce(PAYLOAD).wait }
  end
end

# All at once: a peer's thread comes back every 100 ms only.
def close(list) = list.map { |client| Thread.new { client.close } }.each(&:join)

# The share of its rounds that the computing thread loses, in percent: the median over the pairs.
def loss
  ratios = Array.new(PAIRS) do
    without = compute
    list = yield
    with = compute
    close(list)
    with / without
  end
  (1 - Bench.median(ratios)) * 100
end

# [threads, KB] of one client.
def footprint
  Bench.forked do
    count = -> { [Dir.children("/proc/self/task").size, Bench.resident * 1024] }
    before = count.call
    list = yield
    after = count.call
    close(list)
    after.zip(before).map { |new, old| (new - old).fdiv(CLIENTS) }
  end
end

Bench.measure("idle_clients") do |bench|
  topic = Cluster.topic(1)
  kinds = { "a blocking Ruby thread each" => -> { peers(topic) }, "Pelton" => -> { pelton(topic) } }

  bench.case("throughput lost to #{CLIENTS} Ruby threads that wait", "%") { loss { Array.new(CLIENTS) { Parked.new } } }
  kinds.each do |name, open|
    bench.case("throughput lost to #{CLIENTS} idle producers, #{name}", "%") { loss(&open) }
    bench.case("a producer, #{name}", "threads") do
      threads, resident = footprint(&open)
      bench.note("a producer, #{name}", "KB", resident)
      threads
    end
  end
end
