# How long does a partition stand still when a member joins its group, and when that member leaves?
# frozen_string_literal: true

require_relative "support"
require_relative "support/served"

if Cluster.kind == "embedded"
  warn "rebalance: the mock cluster's groups wait for session timeouts: only a real Kafka can answer this"
  exit
end

RATE = 1000 # messages a second, over all partitions
PROTOCOLS = {
  "cooperative" => { "partition.assignment.strategy" => "cooperative-sticky" },
  "KIP-848" => { "group.protocol" => "consumer" }
}.freeze

# Of the messages that a group saw since something began: the longest pause of the partition that paused longest, and
# of the one that paused least.
class Pulse
  def initialize
    @lock = Mutex.new
    @changed = ConditionVariable.new
    @times = Array.new(Served::PARTITIONS) { [] }
  end

  def beat(partition)
    @lock.synchronize do
      @times[partition] << Bench.now
      @changed.signal
    end
  end

  # ms, [longest, shortest], from `start` until every partition had messages after `settled`.
  def pauses(start, settled)
    beaten = ->(times) { times.last && times.last > settled }
    longest = @lock.synchronize do
      @changed.wait(@lock) until @times.all?(&beaten)
      @times.map do |times|
        times = [start, *times.select { |time| time > start }]
        times.each_cons(2).map { |before, after| after - before }.max
      end
    end
    longest.minmax.reverse.map { |seconds| seconds * 1000 }
  end
end

# A message every ms, in a process of its own, until its input ends.
def sending(topic)
  Cluster.bootstrap # before the fork, so that the child has it
  reader, writer = IO.pipe
  pid = fork do
    writer.close
    producer = Pelton::Producer.new(Cluster.config)
    number = 0
    until reader.wait_readable(1.0 / RATE)
      producer.produce_async(topic: topic, payload: "x", partition: (number += 1) % Served::PARTITIONS)
    end
    exit!(producer.close(timeout: 10))
  end
  reader.close
  yield
ensure
  writer.close
  Process.wait(pid)
end

# {what happened => [ms of the longest, of the shortest pause]}
def rebalance(protocol)
  topic = Cluster.topic(Served::PARTITIONS)
  group = "bench-#{SecureRandom.hex(4)}"
  pulse = Pulse.new
  options = { **PROTOCOLS.fetch(protocol), "auto.offset.reset" => "latest" }
  member = -> { Served.new(topic, group: group, kafka: options) { pulse.beat(partition) } }
  started = nil
  found = {}
  sending(topic) do
    member.call.run(assigned: Served::PARTITIONS) do
      pulse.pauses(Bench.now, Bench.now)
      member.call.tap { started = Bench.now }.run(assigned: 1) do
        found["joins"] = pulse.pauses(started, Bench.now)
        started = Bench.now
      end
      found["leaves"] = pulse.pauses(started, Bench.now)
    end
  end
  found
end

Bench.measure("rebalance") do |bench|
  PROTOCOLS.each_key do |protocol|
    bench.case("#{protocol}: a member joins, the partition that waits longest", "ms") do
      joins, leaves = rebalance(protocol).values_at("joins", "leaves")
      bench.note("#{protocol}: a member joins, the one that waits least", "ms", joins.last)
      bench.note("#{protocol}: it leaves, the partition that waits longest", "ms", leaves.first)
      bench.note("#{protocol}: it leaves, the one that waits least", "ms", leaves.last)
      joins.first
    end
  end
end
