# How long does it take to find 50 of 10,000 JSON documents of 5 KB in memory by one field and to build those?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"

SIZE = 5_000
COUNT = Cluster.fitting(Bench.some(10_000), SIZE)
FOUND = Orders.rare_of(COUNT)

# Milliseconds of the block, which finds the right number of documents; and how many cores were busy.
def timed(bench, name)
  cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  found = nil
  took = Bench.seconds { found = yield }
  cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu
  raise "#{found.size} documents found, not #{FOUND}" unless found.size == FOUND

  bench.note("#{name}, cores busy", "cores", cpu / took)
  took * 1000
end

Bench.measure("decode") do |bench|
  orders = Orders.new(bytes: SIZE)
  documents = Array.new(COUNT) { orders.next }
  topic = Cluster.filled(COUNT) { |index| documents[index] }

  bench.case("JSON.parse", "ms") do
    timed(bench, "JSON.parse") do
      documents.map { |document| JSON.parse(document) }.select { |order| Orders.rare?(order["shipping"]["method"]) }
    end
  end

  # Not decoded ahead: the calling thread parses natively, within the block. The client is closed by then, and the
  # messages' objects are made within the time.
  bench.case("dig, then payload", "ms", vs: "JSON.parse") do
    batches = []
    roomy = { prefetch_batches: COUNT, prefetch_bytes: 1 << 30 }
    Cluster.consume(topic, COUNT, release: false, **roomy) { |batch| batches << batch }
    GC.start
    timed(bench, "dig, then payload") do
      batches.flat_map do |batch|
        batch.messages.select { |message| Orders.rare?(message.dig("shipping", "method")) }.map(&:payload)
      end
    end
  ensure
    batches.each(&:release)
  end
end
