# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# A member closes at every moment of another one's joining, with marks that are not committed yet: the other one goes on
# behind them, and repeats nothing. (Who is stopped in its own join, and has nothing: rebalance_early_close.)

CLASSIC = { "heartbeat.interval.ms" => 200, "session.timeout.ms" => 6000 }.freeze
PROTOCOLS = [{ **CLASSIC, "partition.assignment.strategy" => "range" },
             { **CLASSIC, "partition.assignment.strategy" => "cooperative-sticky" },
             { "group.protocol" => "consumer" }].freeze
PARTITIONS = 4

Scenario.run do
  lanes = PROTOCOLS.map do |protocol|
    Thread.new do
      name = topic(partitions: PARTITIONS)
      group = unique("group")
      book = ledger
      reader = consumer do
        messages.each { |message| book.processed(object_id.to_s, partition.to_s, message.offset) }
      end
      kafka = { "auto.commit.interval.ms" => 60_000, **protocol }
      join = -> { app(group: group, kafka: kafka) { topic(name, to: reader) }.tap(&:start) }
      sent = Hash.new(0)
      member = join.call
      6.times do |round|
        rows = Array.new(40) { |number| { topic: name, partition: number % PARTITIONS, payload: "x" } }
        member.producer.produce_many_sync(rows)
        rows.each { |row| sent[row[:partition].to_s] += 1 }
        report = nil
        eventually(30, -> { "#{protocol}, round #{round}: #{report}" }) do
          (report = book.report(sent)).processed >= report.sent
        end
        successor = join.call
        work(round * 0.05)
        equal(true, member.stop, "the stop of who was there, #{protocol}, round #{round}")
        member = successor
      end
      eventually(30, "the last one's partitions") { member.assignments.fetch(name, []).size == PARTITIONS }
      equal(true, member.stop, "the last stop")
      [protocol, book, sent, committed(group, name, PARTITIONS)]
    end
  end
  lanes.map(&:value).each do |protocol, book, sent, committed|
    in_order(book, sent, what: protocol.values.last)
    equal(sent.sort.map(&:last), committed, "committed, #{protocol}")
  end
end
