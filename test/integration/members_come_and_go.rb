# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/ledger"
require "support/scenario"
require "tempfile"

# Ten members of a group come and go in a loop while somebody produces: each message is processed, in the order of its
# key, and next to none again: who leaves in the middle of a rebalance commits again until the broker takes it.

Scenario.run do
  partitions = 12
  name = topic(partitions: partitions)
  group = unique("group")
  file = Tempfile.new("ledger")
  ledger = Ledger.new(file.path)
  reader = consumer do
    messages.each { |message| ledger.processed(object_id.to_s, message.key, Integer(message.raw_payload)) }
  end
  kafka = { "partition.assignment.strategy" => "cooperative-sticky", "heartbeat.interval.ms" => 200 }
  join = -> { app(group: group, kafka: kafka, concurrency: 2) { topic(name, to: reader) }.tap(&:start) }

  sent = Hash.new(0)
  over = false
  writer = app(kafka: { "enable.idempotence" => true }).producer
  producing = Thread.new do
    until over
      rows = Array.new(partitions * 2) do |index|
        key = "k#{index}"
        { topic: name, partition: index % partitions, key: key, payload: ((sent[key] += 1) - 1).to_s }
      end
      writer.produce_many_sync(rows)
      work(0.005)
    end
  end

  chance = Random.new(seed = Random.new_seed % 100_000)
  members = []
  3.times do
    while members.size < 10
      members << join.call
      work(chance.rand(0.2)) # in the middle of a rebalance, or not
    end
    leaving = members.shuffle!(random: chance).pop(5).map { |member| Thread.new { member.stop } }
    equal([true], leaving.map(&:value).uniq, "the stops of five that leave (seed #{seed})")
  end
  members << join.call until members.size == 10
  eventually(40, "ten members to share #{partitions} partitions (seed #{seed})") do
    shares = members.map { |member| member.assignments.sum { |_, list| list.size } }
    shares.sum == partitions && shares.all?(&:positive?)
  end
  over = true
  producing.value
  report = nil
  eventually(40, -> { "the rest of #{report}" }) do
    report = ledger.report(sent)
    report.processed - report.duplicates == report.sent
  end
  stops = members.map { |member| Thread.new { member.stop } }.map(&:value)
  equal([true], stops.uniq, "the stops of the last ten (seed #{seed})")
  puts(report = ledger.report(sent))
  equal([], report.problems.first(10), "seed #{seed}")
  check(report.duplicates * 200 < report.sent, "more than 0.5 % again (seed #{seed}): #{report}")
ensure
  file&.close!
end
