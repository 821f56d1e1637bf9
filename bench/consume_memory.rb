# By how much does memory grow over 240,000 messages of 1 KB when a consumer keeps one message of each batch for good?
# frozen_string_literal: true

require_relative "support"

COUNT = Cluster.fitting(Bench.some(400_000), 1024)
# Between these, librdkafka's own queues of fetched messages are full; they are kept small, for they come and go.
OPTIONS = { **Cluster::CONSUME, "queued.max.messages.kbytes" => 2048 }.freeze
FROM = COUNT * 2 / 10
TO = COUNT * 8 / 10

# MB that came from FROM to TO, and those of the kept payloads; the block gets each batch and returns what to keep.
def growth(topic)
  Bench.forked do
    kept = []
    seen = 0
    before = after = nil
    Cluster.consume(topic, COUNT, options: OPTIONS) do |batch|
      kept << yield(batch)
      seen += batch.size
      before ||= Bench.resident if seen >= FROM
      after ||= [Bench.resident, kept.compact.sum(&:size) / 1e6] if seen >= TO
    end
    [after.first - before, after.last * (TO - FROM) / TO]
  end
end

Bench.measure("consume_memory") do |bench|
  Cluster.bootstrap # the embedded cluster is this process's, not a child's
  topic = Cluster.topic
  Bench.forked { Cluster.fill(topic, COUNT) { "x" * 1024 } }

  bench.case("growth, nothing is kept", "MB") do
    growth(topic) do |batch|
      batch.messages.each(&:offset)
      nil
    end.first
  end
  bench.case("growth, one message per batch is kept", "MB") do
    grown, bytes = growth(topic) { |batch| batch.messages.each(&:offset).last }
    bench.note("payloads of the kept messages", "MB", bytes)
    grown
  end
end
