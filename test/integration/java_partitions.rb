# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require_relative "../support/scenario"
require "open3"
require "zlib"

# A key goes to the same partition whether Java's client or Pelton sends it: 1,000 keys, with a `key:` and with a
# `partition_key:`. Java's own client runs from the jars that the broker is made of.
Scenario.run do
  # Where Java's client puts these keys.
  def java(topic, keys)
    source = File.join(Scenario::ROOT, "test/broker/JavaPartitions.java")
    command = [*BrokerKit.java, source, bootstrap, topic]
    text, status = Open3.capture2(*command, stdin_data: keys.map { |key| "#{key.unpack1("H*")}\n" }.join)
    check(status.success?, "Java ended with #{status}")
    text.split.map(&:to_i)
  end

  random = Random.new(42)
  keys = ["", "\0", "a", "21", "foobar", "ключ", "日本語", "🗝️", "k" * 100_000, random.bytes(70_001)]
  keys.concat(Array.new(330) { |size| random.bytes(size + 1) }) # every length, so every tail
  keys.concat(Array.new(330) { |number| "order-#{number}" })
  keys.concat(Array.new(330) { Array.new(random.rand(1..20)) { random.rand(0xa0..0xd7ff) }.pack("U*") })
  equal(1_000, keys.size, "keys")

  [7, 32].each do |partitions|
    name = topic(partitions: partitions)
    producer = app.producer
    theirs = java(name, keys)
    check(theirs.uniq.size == partitions, "Java used #{theirs.uniq.size} of #{partitions} partitions")
    ours = keys.map { |key| producer.produce_async(topic: name, payload: "x", key: key) }
    Pelton::Delivery.wait_all(ours)
    equal(theirs, ours.map(&:partition), "partitions of #{keys.size} keys among #{partitions}")

    keyed = keys.reject(&:empty?).map do |key|
      producer.produce_async(topic: name, payload: "x", key: "other", partition_key: key)
    end
    Pelton::Delivery.wait_all(keyed)
    equal(theirs.drop(1), keyed.map(&:partition), "partitions of partition keys")
    equal(partitions, producer.partition_count(name), "partition_count")
  end

  # Those who come from librdkafka's clients may keep its default.
  name = topic(partitions: 7)
  crc = app(kafka: { "partitioner" => "consistent_random" }).producer
  sent = keys.drop(1).map { |key| crc.produce_async(topic: name, payload: "x", key: key) }
  Pelton::Delivery.wait_all(sent)
  equal(keys.drop(1).map { |key| Zlib.crc32(key) % 7 }, sent.map(&:partition), "CRC32")
end
