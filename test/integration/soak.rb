# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby
# time limit: 240
require "support/scenario"
require "support/soak"

# 200 rebalances leave nothing behind: threads, consumers, maps, descriptors, memory.

Scenario.run do
  kafka = { "bootstrap.servers" => bootstrap, "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 100,
            "topic.metadata.refresh.interval.ms" => 500 }
  soak = Soak.new(kafka, group: unique("soak"), create: ->(name, number) { topic(name: name, partitions: number) },
                         eventually: ->(timeout, what, &block) { eventually(timeout, what, &block) })
  soak.rebalance(20, more_topics: 2) # caches come to their size
  before = soak.footprint
  puts "before: #{before}"
  2.times do
    soak.rebalance(100)
    after = nil
    eventually(30, -> { "before: #{before}; after: #{after}" }) { (after = soak.footprint).within?(before, 2_000) }
    puts "after:  #{before = after}"
  end
  equal(0, soak.close, "undelivered")
end
