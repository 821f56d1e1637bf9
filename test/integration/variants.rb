# frozen_string_literal: true

require_relative "../support/scenario"

# A variant's settings take effect, and the producer's own stay as they are: seen in what Kafka stored (its log's
# compression), in what it answered (an offset or none) and on connections.
Scenario.run do
  # The codecs of a topic's record batches in their order, as Kafka's own tool reads them from the log.
  def codecs(topic)
    folder = TestBroker.find(bootstrap.split(":").last.to_i).folder
    log = Dir.glob(File.join(folder, "**", "#{topic}-0", "*.log")).first
    command = [*BrokerKit.java, "kafka.tools.DumpLogSegments", "--files", log]
    text = IO.popen([*command, { err: File::NULL }], &:read)
    text.scan(/compresscodec: (\w+)/).flatten.map(&:downcase)
  end

  name = topic
  app = app(kafka: { "compression.codec" => "lz4", "linger.ms" => 0 })
  producer = app.producer
  text = "the same words again and again " * 200

  # --- compression, side by side for the same topic ---
  order = [producer, producer.with(compression: :zstd), producer.with(compression: :gzip, compression_level: 9),
           producer.with(compression: :none), producer, producer.with(compression: :zstd)]
  order.each { |variant| variant.produce_sync(topic: name, payload: text) }
  equal(%w[lz4 zstd gzip none lz4 zstd], codecs(name), "codecs in the log")
  equal(4, events(app, "producer.opened").size, "clients")

  # --- acks ---
  none = producer.with(acks: 0)
  delivery = none.produce_sync(topic: name, payload: "unacknowledged")
  equal(nil, delivery.offset, "offset of a message that Kafka does not acknowledge")
  read(name, 1, order.size + 1) # until it is there
  equal(order.size + 1, producer.with(acks: 1).produce_sync(topic: name, payload: "x").offset, "acks 1")
  equal(order.size + 2, producer.produce_sync(topic: name, payload: "x").offset, "acks all")
  equal(order.size + 3, read(name, 1, order.size + 3).size, "messages, the unacknowledged one among them")

  # --- message_timeout: the variant's message fails, the producer's is still on its way ---
  nowhere = app(kafka: { "bootstrap.servers" => "127.0.0.1:#{TestBroker.free_port}" })
  patient = nowhere.producer.produce_async(topic: "orders", payload: "x")
  took = seconds do
    raises(Pelton::DeliveryError, /_MSG_TIMED_OUT/) do
      nowhere.producer.with(message_timeout: 0.5).produce_sync(topic: "orders", payload: "x")
    end
  end
  check(took.between?(0.4, 5 * Guard::PATIENCE), "a message timeout of 0.5 s took #{took} s")
  equal(false, patient.done?, "the producer's own message")
  raises(Pelton::WaitTimeout, /0.2 s/) do
    nowhere.producer.with(timeout: 0.2).produce_sync(topic: "orders", payload: "x")
  end
  equal(2, nowhere.producer.close(timeout: 0.5), "undelivered")

  # --- on the same connections ---
  same = app(kafka: { "linger.ms" => 0 })
  wide = topic(partitions: 5)
  keys = Array.new(20) { |number| "key-#{number}" }
  rows = keys.map { |key| { topic: wide, payload: "x", key: key } }
  crc = same.producer.with(partitioner: :consistent_random).produce_many_sync(rows)
  murmur = same.producer.produce_many_sync(rows)
  fresh = app(kafka: { "partitioner" => "consistent_random" }).producer.produce_many_sync(rows)
  equal(fresh.reports.map { |report| report[1] }, crc.reports.map { |report| report[1] }, "a variant's partitioner")
  check(crc.reports.map { |report| report[1] } != murmur.reports.map { |report| report[1] }, "two partitioners differ")
  equal(1, events(same, "producer.opened").size, "clients for a partitioner")

  # --- idempotence ---
  safe = app(kafka: { "enable.idempotence" => true }).producer
  raises(Pelton::ConfigError, /idempotent/) { safe.with(acks: 1) }
  equal(0, safe.with(compression: :zstd).produce_sync(topic: topic, payload: text).offset, "idempotent")
end
