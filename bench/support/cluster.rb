# frozen_string_literal: true

require "securerandom"
require_relative "../../test/support/kafka_wire"

# The Kafka that a bench talks to: the broker of bin/bench (PELTON_BOOTSTRAP), or an embedded cluster in this process.
# All compared programs get the same options of librdkafka.
module Cluster
  C_LOOP = File.expand_path("../../target/release/examples/c_loop", __dir__)
  C_LOOP_JEMALLOC = "#{C_LOOP}_jemalloc".freeze # with the extension's allocator
  PRODUCE = { "acks" => "all", "linger.ms" => 5 }.freeze
  CONSUME = Pelton::Subscription::DEFAULTS.except("enable.auto.offset.store").freeze
  # The embedded cluster keeps 5 MB or 100,000 messages a partition, so it gets more of them.
  PARTITIONS = ENV["PELTON_BOOTSTRAP"] ? 4 : 16
  EMBEDDED_BYTES = 4_000_000
  EMBEDDED_MESSAGES = 90_000

  module_function

  def kind = ENV["PELTON_BOOTSTRAP"] ? "kafka" : "embedded"
  def bootstrap = @bootstrap ||= ENV["PELTON_BOOTSTRAP"] || embedded.bootstrap_servers # a forked child knows it too
  def embedded = @embedded ||= Pelton::EmbeddedCluster.new

  def close
    @embedded&.close
    @embedded = nil
  end

  # A new topic's name.
  #: (?Integer) -> String
  def topic(partitions = PARTITIONS)
    name = "bench-#{SecureRandom.hex(4)}"
    return name.tap { embedded.create_topic(name, partitions) } if kind == "embedded"

    host, port = bootstrap.split(":")
    KafkaWire.open(host, Integer(port), timeout: 15) { |wire| wire.create_topics({ name => partitions }, {}) }
    name
  end

  # As many messages of this size as wanted, or as the embedded cluster can keep of them.
  #: (Integer, Integer, ?Integer) -> Integer
  def fitting(count, size, partitions = PARTITIONS)
    return count if kind == "kafka"

    [count, partitions * [EMBEDDED_BYTES / (size + 40), EMBEDDED_MESSAGES].min].min
  end

  # A new topic with so many messages, evenly over its partitions; the block gives the payload of each.
  #: (Integer, ?Integer) { (Integer) -> String } -> String
  def filled(count, partitions = PARTITIONS, &payload)
    topic(partitions).tap { |name| fill(name, count, 0...partitions, &payload) }
  end

  # The same, of a topic that is there; key: of each message.
  #: (String, Integer, ?Range[Integer], ?key: ^(Integer) -> String) { (Integer) -> String } -> void
  def fill(name, count, partitions = 0...PARTITIONS, key: nil)
    partitions = partitions.to_a
    producer = producer()
    open = []
    (0...count).each_slice(1000) do |slice|
      open << producer.produce_many_async(slice.map do |index|
        { topic: name, payload: yield(index), partition: partitions[index % partitions.size], key: key&.call(index) }
      end)
      open.shift.wait(timeout: 60) if open.size > 20
    end
    open.each { |delivery| delivery.wait(timeout: 60) }
  ensure
    producer&.close
  end

  def config(**settings)
    config = Pelton::Config.new
    config.kafka = { "bootstrap.servers" => bootstrap }
    settings.each { |name, value| config.set(name, value) }
    yield config if block_given?
    config.freeze
  end

  # poller: nil is the shared one.
  #: (?Hash[String, untyped], ?poller: Pelton::Poller?) -> Pelton::Producer
  def producer(options = PRODUCE, poller: nil)
    Pelton::Producer.new(config { |config| config.polling.poller = poller }, kafka: options)
  end

  # Consumes so many messages in a new group; the block gets each batch. Returns messages/s, from the first batch on.
  # release: false leaves the batches to the block; `settings` are the config's.
  #: (String, Integer, ?decode: Symbol?, ?where: Array[untyped]?, ?release: bool, ?options: Hash[String, untyped],
  #:  **untyped) { (Pelton::Batch) -> void } -> Float
  def consume(topic, count, decode: nil, where: nil, release: true, options: CONSUME, **settings)
    subscription = Pelton::Subscription.new(config(**settings), group_id: "bench-#{SecureRandom.hex(4)}",
                                                                decode: { topic => decode }.compact,
                                                                where: { topic => where }.compact, kafka: options)
    subscription.subscribe([topic])
    seen = 0
    started = nil
    while seen < count
      kind, batch = subscription.poll(60)
      next if kind == :assigned
      raise "poll gave #{kind.inspect} #{batch.inspect} after #{seen} of #{count}" unless kind == :batch

      started ||= Bench.now
      yield batch
      seen += batch.size + batch.dropped
      batch.release if release
    end
    seen / (Bench.now - started)
  ensure
    subscription&.close(30)
  end

  # librdkafka driven in C's way (ext/core/examples/c_loop.rs), in a process of its own. Returns its number.
  #   Cluster.c_loop("produce", topic, 300_000, 100)
  #: (String, String, *Integer, ?options: Hash[String, untyped], ?program: String) -> Float
  def c_loop(kind, topic, *numbers, **options) = c_loops(kind, topic, *numbers, **options).first

  # All its numbers.
  #: (String, String, *Integer, ?options: Hash[String, untyped], ?program: String) -> Array[Float]
  def c_loops(kind, topic, *numbers, options: %w[consume latency].include?(kind) ? CONSUME : PRODUCE, program: C_LOOP)
    settings = options.map { |key, value| "#{key}=#{value}" }
    output = IO.popen([program, kind, bootstrap, topic, *numbers.map(&:to_s), *settings], &:read)
    raise "c_loop #{kind} failed" unless $?.success?

    output.lines.map { |line| Float(line) }
  end
end
