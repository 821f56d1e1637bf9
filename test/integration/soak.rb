# frozen_string_literal: true

# first: it takes minutes
# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/soak"

# 200 rebalances, with topics that are added in half of them, leave nothing behind: threads, consumers, maps,
# descriptors, memory.

# Kilobytes: what 100 rebalances leave until all caches have come to their size (0 to 900 were measured in 800 of them,
# and nothing in the last 300), and what a topic more takes: four consumers, each with a thread (550 to 850 measured).
HUNDRED_REBALANCES = 1_200
A_TOPIC = 900

Scenario.run do
  kafka = { "bootstrap.servers" => bootstrap, "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 100,
            "topic.metadata.refresh.interval.ms" => 500 }
  soak = Soak.new(kafka, group: unique("soak"), create: ->(name, number) { topic(name: name, partitions: number) },
                         eventually: ->(timeout, what, &block) { eventually(timeout, what, &block) })
  soak.rebalance(20, more_topics: 1) # caches come to their size
  before = soak.footprint
  puts "before: #{before}"
  [2, 0].each do |more_topics|
    soak.rebalance(100, more_topics: more_topics)
    limit = HUNDRED_REBALANCES + (more_topics * A_TOPIC)
    threads = more_topics * Soak::PARTITIONS # a background thread each
    after = nil
    eventually(30, -> { "before: #{before}; after: #{after}" }) do
      (after = soak.footprint).within?(before, limit, more_threads: threads)
    end
    puts "after:  #{before = after}"
  end
  equal(0, soak.close, "undelivered")
end
