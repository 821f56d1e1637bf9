# frozen_string_literal: true

require "support/scenario"

# A topic is deleted and made again with fewer partitions, then with more, while a producer uses it by key, by
# partition_key and by a variant's partitioner: each message is delivered or fails with a reason, and 30 s later (by the
# clock of the producer's knowledge, which the scenario turns on) each goes where its key belongs now.
#
# once: it is librdkafka and the broker who agree on it

# As Pelton::Clock, and later.
class LaterClock
  attr_accessor :ahead

  def initialize = @ahead = 0
  def now = Pelton::Clock.now + @ahead
end

Scenario.run do
  name = topic(partitions: 6)
  writer = app(kafka: { "topic.metadata.refresh.interval.ms" => 300, "topic.metadata.propagation.max.ms" => 500,
                        "message.timeout.ms" => 4000 })
  producer = writer.producer
  later = LaterClock.new
  producer.instance_variable_get(:@partitions).instance_variable_set(:@clock, later)
  other = producer.with(partitioner: :fnv1a)
  keys = Array.new(30) { |number| "key-#{number}" }
  late = 0 # messages that timed out, and may be there
  # Sends a round in each way; returns [partition chosen, key, way] of what arrived, and the names of the errors.
  round = lambda do
    sent = keys.flat_map do |key|
      [[:key, key, -> { producer.produce_async(topic: name, payload: "key:#{key}", key: key) }],
       [:by, key, -> { producer.produce_async(topic: name, payload: "by:#{key}", partition_key: key) }],
       [:variant, key, -> { other.produce_async(topic: name, payload: "variant:#{key}", key: key) }]]
    end
    failed = Hash.new(0)
    pending = sent.filter_map do |way, key, produce|
      [way, key, produce.call]
    rescue Pelton::DeliveryError => e
      failed[e.name] += 1
      nil
    end
    done = pending.filter_map do |way, key, delivery|
      [delivery.wait(timeout: 6 * Guard::PATIENCE).partition, key, way]
    rescue Pelton::DeliveryError => e
      failed[e.name] += 1
      nil
    end
    late += failed[:_MSG_TIMED_OUT]
    [done, failed]
  end
  # Where each belongs, of so many partitions.
  places = lambda do |count|
    by = { key: "murmur2_random", by: "murmur2_random", variant: "fnv1a" }
    by.flat_map { |way, how| keys.map { |key| [Pelton::Native::Producer.partition(how, key, count), key, way] } }.sort
  end

  eventually(10, "the way to 6 partitions") do
    done, failed = round.call
    done.sort == places.(6) && failed.empty?
  end
  [2, 5].each do |count|
    topic_again(name, partitions: count)
    arrived = []
    late = 0
    # Nothing hangs, and what fails says why.
    took = seconds do
      done, failed = round.call
      arrived.concat(done)
      puts "#{count} partitions, at once: #{done.size} arrived, failed: #{failed}"
      equal([], failed.keys - %i[_UNKNOWN_PARTITION _UNKNOWN_TOPIC UNKNOWN_TOPIC_OR_PART _MSG_TIMED_OUT], "why")
      equal(keys.size * 3, done.size + failed.values.sum, "delivered or failed")
    end
    check(took < 6 * Guard::PATIENCE, "a round took #{took} s")
    later.ahead += 31
    eventually(10, "the way to #{count} partitions") do
      done, failed = round.call
      arrived.concat(done)
      done.sort == places.(count) && failed.empty?
    end
    wanted = arrived.map { |place, key, way| [place, key, way.to_s] }.tally
    written = wire { |broker| broker.ends(name, count) }.sum
    found = read(name, count, written).map { |place, message| [place, *message.raw_payload.split(":").reverse] }.tally
    equal({}, wanted.reject { |message, times| found.fetch(message, 0) >= times }, "lost in #{count} partitions")
    check(written - arrived.size <= late, "#{written} messages, #{arrived.size} arrived, #{late} timed out")
  end
end
