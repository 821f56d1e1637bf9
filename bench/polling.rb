# What does one event thread for all producers bring, beside a thread for each of them (100 B)?
# frozen_string_literal: true

require_relative "support"
require_relative "support/blocking_peer"

PAYLOAD = ("x" * 100).freeze
PRODUCERS = [1, 2, 5, 10, 25].freeze
EACH = Bench.some(1_000)
IN_ALL = Bench.some(50_000)
BURST = 1_000
BURSTS = Bench.some(20)
CALLS = Bench.some(300)

SHARED = "shared event thread"
DEDICATED = "a poller each"
BLOCKING = "a blocking Ruby thread each"

# Pelton's producers: the block says which poller. One message of each is delivered.
def producers(topic, count, options = Cluster::PRODUCE)
  list = Array.new(count) { Cluster.producer(options, poller: yield) }
  list.each { |producer| producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) }
end

def peers(topic, count, options = Cluster::PRODUCE)
  options = { "bootstrap.servers" => Cluster.bootstrap, **options }
  Array.new(count) { BlockingPeer.new(topic, options) }.each { |peer| peer.produce(PAYLOAD).wait }
end

# Opened clients of this kind, closed after the block.
def clients(kind, topic, count)
  list = case kind
         when SHARED then producers(topic, count) { nil }
         when DEDICATED then producers(topic, count) { Pelton::Poller.new }
         else peers(topic, count)
         end
  yield list
ensure
  list&.each(&:close)
end

# A handle for each message, and all of them waited for.
def produce(client, topic, count)
  handles = if client.is_a?(BlockingPeer) then Array.new(count) { client.produce(PAYLOAD) }
            else Array.new(count) { client.produce_async(topic: topic, payload: PAYLOAD) }
            end
  handles.each(&:wait)
end

# Messages a second: each client has a Ruby thread that sends and then waits for every report.
def rate(kind, topic, count, share)
  clients(kind, topic, count) do |list|
    took = Bench.seconds { list.map { |client| Thread.new { produce(client, topic, share) } }.each(&:join) }
    (share * count) / took
  end
end

# Messages a second of the first of these clients, burst by burst; the median of them. Closes the clients.
def bursts(list, topic)
  Bench.median(Array.new(BURSTS) { BURST / Bench.seconds { produce(list.first, topic, BURST) } })
ensure
  list.each(&:close)
end

# [threads, MB] of a process with so many clients that have sent EACH.
def footprint(kind, topic, count)
  Bench.forked do
    before = [Dir.children("/proc/self/task").size, Bench.resident]
    clients(kind, topic, count) do |list|
      list.each { |client| produce(client, topic, EACH) }
      after = [Dir.children("/proc/self/task").size, Bench.resident]
      after.zip(before).map { |new, old| new - old }
    end
  end
end

Bench.measure("polling") do |bench|
  topic = Cluster.topic

  PRODUCERS.each do |count|
    { "#{count} × 1,000" => EACH, "#{count}, 50,000 in all" => IN_ALL / count }.each do |name, share|
      bench.case("#{name}, #{BLOCKING}", "msg/s") { rate(BLOCKING, topic, count, share) }
      [DEDICATED, SHARED].each do |kind|
        bench.case("#{name}, #{kind}", "msg/s", vs: "#{name}, #{BLOCKING}") { rate(kind, topic, count, share) }
      end
    end
  end

  [BLOCKING, DEDICATED, SHARED].each do |kind|
    bench.case("25 producers, #{kind}", "threads") do
      threads, resident = footprint(kind, topic, 25)
      bench.note("25 producers, #{kind}", "MB", resident)
      threads
    end
  end

  # Warm bursts beside warm bursts: each client has sent before, and so many follow each other. First with nothing set
  # but bootstrap.servers, then without a linger, which only a peer pays while it waits.
  { "default settings" => {}, "linger 0" => { "linger.ms" => "0" } }.each do |name, options|
    burst = "a burst of 1,000, handles waited for, #{name}"
    peer = "#{burst}, a blocking Ruby thread"
    bench.case(peer, "msg/s") { bursts(peers(topic, 1, options), topic) }
    bench.case(burst, "msg/s", vs: peer) { bursts(producers(topic, 1, options) { nil }, topic) }
  end

  bench.case("a burst of 1,000, produce_many_sync, default settings", "msg/s") do
    (producer,) = list = producers(topic, 1, {}) { nil }
    messages = Array.new(BURST) { { topic: topic, payload: PAYLOAD } }
    Bench.median(Array.new(BURSTS) { BURST / Bench.seconds { producer.produce_many_sync(messages) } })
  ensure
    list&.each(&:close)
  end

  bench.case("produce_sync, default settings, p50", "ms") do
    (producer,) = list = producers(topic, 1, {}) { nil }
    times = Array.new(CALLS) { Bench.seconds { producer.produce_sync(topic: topic, payload: PAYLOAD) } * 1000 }
    bench.note("produce_sync, default settings, p99", "ms", Bench.percentile(times, 0.99))
    Bench.median(times)
  ensure
    list&.each(&:close)
  end
end
