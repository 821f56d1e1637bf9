# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Order per key, slow keys, failures, and a producer that does not pause: graceful stops and rebalances repeat nothing
# that was finished, and lose nothing. (Order without keys, too.) STOPS=200 REBALANCES=100 takes minutes.

STOPS = Integer(ENV.fetch("STOPS", "4"))
REBALANCES = Integer(ENV.fetch("REBALANCES", "4"))
PARTITIONS = 4

# What was processed to the end.
class Finished
  def initialize
    @lock = Mutex.new
    # {[topic, partition, offset] => how often}
    @times = Hash.new(0)
  end

  def add(message) = @lock.synchronize { @times[[message.topic, message.partition, message.offset]] += 1 }
  def count(topic) = @lock.synchronize { @times.keys.count { |name,| name == topic } }
  def twice(topic) = @lock.synchronize { @times.filter_map { |place, times| place if place[0] == topic && times > 1 } }
end

Scenario.run do
  finished = Finished.new
  wait = method(:work)
  keyed = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      wait.(message.key == "slow" ? 0.03 : 0.002)
      raise IOError, "on purpose" if (message.offset % 97).zero? && attempt == 1

      finished.add(message)
    end
  end
  batches = Class.new(Pelton::Consumer) do
    define_method(:consume) do
      messages.each do |message|
        wait.(message.key == "slow" ? 0.03 : 0.002)
        finished.add(message)
      end
    end
  end
  plain = Class.new(batches)

  names = Array.new(3) { topic(partitions: PARTITIONS) }
  sent = names.to_h { |name| [name, 0] }
  writer = app
  key_of = ->(number) { (number % 8).zero? ? "slow" : "fast #{number % 7}" }
  writing = true
  number = 0
  feed = Thread.new do
    while writing
      rows = names.flat_map do |name|
        Array.new(6) { { topic: name, partition: number % PARTITIONS, key: key_of.(number += 1), payload: "x" } }
      end
      writer.producer.produce_many_sync(rows)
      rows.each { |row| sent[row[:topic]] += 1 }
      work(0.05)
    end
  end

  member = lambda do |group, kafka|
    app(group: group, kafka: kafka, concurrency: 6, shutdown_timeout: 60) do
      topic names[0], to: keyed do
        concurrency 3
        backoff 0.05..0.1
      end
      topic names[1], to: batches do
        concurrency 3
        max_messages 5
      end
      topic(names[2], to: plain) { max_messages 5 }
    end
  end

  apps = []
  # Nothing that came is left, and nothing came twice. (Several keys may share a job, which fails as one: it has no
  # failures here.)
  settled = lambda do |what|
    names.each do |name|
      eventually(120, -> { "#{what}: all of #{name}: #{finished.count(name)} of #{sent[name]}" }) do
        finished.count(name) == sent[name]
      end
      equal([], finished.twice(name), "#{what}: processed twice in #{name}")
    end
    equal([], apps.flat_map { |app| events(app, "message.repeated").map(&:payload) }, "#{what}: told to be repeated")
  end

  group = unique("stops")
  apps << (first = member.(group, {}))
  STOPS.times do |round|
    before = finished.count(names[0])
    first.start
    eventually(60, "round #{round}: some work") { finished.count(names[0]) > before + 20 }
    check(first.stop, "stop #{round}: #{first.server.unfinished_work}")
  end

  eager = { "partition.assignment.strategy" => "range" }
  cooperative = { "partition.assignment.strategy" => "cooperative-sticky" }
  [eager, cooperative, { "group.protocol" => "consumer" }].each_with_index do |kafka, index|
    apps.push(stay = member.(group, kafka), guest = member.(group, kafka))
    stay.start
    eventually(60, "#{kafka}: all partitions") { stay.assignments.values.sum(&:size) == 3 * PARTITIONS }
    (REBALANCES / 6.0).ceil.times do |round|
      guest.start
      eventually(60, "#{kafka}, round #{round}: shared") do
        guest.assignments.values.sum(&:size).positive? &&
          [guest, stay].sum { |app| app.assignments.values.sum(&:size) } == 3 * PARTITIONS
      end
      before = finished.count(names[0])
      eventually(60, "#{kafka}, round #{round}: some work") { finished.count(names[0]) > before + 20 }
      check(guest.stop, "#{kafka}, guest #{round}: #{guest.server.unfinished_work}")
      eventually(60, "all back") { stay.assignments.values.sum(&:size) == 3 * PARTITIONS }
    end
    if index == 2
      writing = false
      feed.join
      settled.("at the end")
    end
    check(stay.stop, "#{kafka}: #{stay.server.unfinished_work}")
  end
  puts "#{STOPS} stops, #{apps.sum { |app| events(app, "partition.revoked").size }} partitions revoked, " \
       "#{sent.values.sum} messages, none twice"
end
