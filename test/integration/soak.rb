# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/soak"

# 200 rebalances, with topics that are added all along, leave nothing behind: threads, consumers, maps, descriptors,
# memory.

# Kilobytes: what 100 rebalances leave (300 to 600 were measured; with glibc's caches for threads off and no
# messages it is 80), and what a topic more takes.
HUNDRED_REBALANCES = 1_200
A_TOPIC = 400
MORE_TOPICS = 2

Scenario.run do
  kafka = { "bootstrap.servers" => bootstrap, "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 100,
            "topic.metadata.refresh.interval.ms" => 500 }
  soak = Soak.new(kafka, group: unique("soak"), create: ->(name, number) { topic(name: name, partitions: number) },
                         eventually: ->(timeout, what, &block) { eventually(timeout, what, &block) })
  soak.rebalance(20, more_topics: 1) # caches come to their size
  before = soak.footprint
  puts "before: #{before}"
  2.times do
    soak.rebalance(100, more_topics: MORE_TOPICS)
    limit = HUNDRED_REBALANCES + (MORE_TOPICS * A_TOPIC)
    threads = MORE_TOPICS * Soak::PARTITIONS # a background thread each
    after = nil
    eventually(30, -> { "before: #{before}; after: #{after}" }) do
      (after = soak.footprint).within?(before, limit, more_threads: threads)
    end
    puts "after:  #{before = after}"
  end
  equal(0, soak.close, "undelivered")
end
