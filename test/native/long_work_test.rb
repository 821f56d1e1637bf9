# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "pelton"

# Native work that takes long leaves Ruby's lock (GVL) to other threads, or gives them their turn.
class NativeLongWorkTest < Minitest::Test
  include NativeKit

  # 50 MB that Kafka stores in few: the mock cluster keeps 5 MB a partition.
  JSON_DOCUMENT = "{\"a\":[#{"\"eight ch\"," * 4_500_000}0],\"z\":1}".freeze
  TRIES = 20

  # Nothing is decoded ahead.
  def setup = Native.decoding_memory = 0
  def teardown = Native.decoding_memory = nil

  # Without the lock the other thread counts as long as the parse takes. With it there are two moments at most: before
  # and behind the call, where Ruby looks whether another thread's turn has come.
  def test_a_json_document_decoded_alone_when_a_field_is_read_lets_another_thread_run
    message = alone(JSON_DOCUMENT)
    assert_runs_beside { assert_equal 1, message.dig("z") }
  end

  def test_a_messagepack_document_decoded_alone_lets_another_thread_run
    list = "\xa9nine char".b * 5_000_000
    message = alone(["\x82\xa1a\xdd".b, [5_000_000].pack("N"), list, "\xa1z\1".b].join, format: :msgpack)
    assert_runs_beside { assert_equal 1, message.dig("z") }
  end

  def test_an_avro_document_decoded_alone_lets_another_thread_run
    fields = [{ "name" => "a", "type" => { "type" => "array", "items" => "string" } },
              { "name" => "z", "type" => "int" }]
    schema = { "type" => "record", "name" => "R", "fields" => fields }
    list = Pelton::Registry::Schema.of(fields.first["type"]).encode(["nine char"] * 1_000_000)[0..-2] * 5
    decoder = Pelton::Avro::Decoder.new(schema: schema)
    message = alone("#{list}\0\2".b, format: :avro, decoder: decoder)
    assert_runs_beside { assert_equal 1, message.dig("z") }
  end

  def test_a_payload_decoded_alone_is_the_same_as_one_decoded_ahead
    document = JSON.generate("a" => Array.new(60_000) { |i| ["é#{i}\n", i * 0.5] })
    Native.decoding_memory = nil
    ahead = round_trip(document, options: { decode: { "*" => :json } }).first.payload
    Native.decoding_memory = 0
    assert_equal JSON.parse(document), ahead
    assert_equal ahead, alone(document).payload
    batch = batches(topic_of(document, "{}"), 2).first
    kept = batch.messages.first
    batch.release
    assert_equal ahead, kept.payload
    assert_nil alone("{}#{" " * 300_000}").dig("z")
    assert_raises(Pelton::DecodeError) { alone("#{document[..-2]}]").payload }
  end

  def test_a_thread_killed_while_its_document_is_decoded_ends_and_leaves_the_message_readable
    message = alone(JSON_DOCUMENT)
    TRIES.times do
      thread = Thread.new { loop { message.dig("z") } }
      eventually(60, "its wait for the parse") { thread.stop? }
      thread.kill.join
    end
    assert_equal 1, message.dig("z")
  end

  # All of them are in librdkafka's queue, or none, where no other thread runs in between.
  def test_produce_many_of_half_a_million_messages_lets_other_threads_run
    limits = { "queue.buffering.max.messages" => "1000000", "queue.buffering.max.kbytes" => "2000000" }
    rows = [{ topic: "t", payload: "x" * 100, headers: { "a" => "b" } }] * 500_000
    seen = Array.new(TRIES) do
      producer = lonely_producer(limits)
      thread = Thread.new { producer.produce_many(rows, 0) }
      found = part_of(rows.size, producer) while thread.alive? && !found
      thread.join
      assert_equal rows.size, producer.pending
      producer.purge
      producer.close(0)
      break [true] if found

      found
    end
    assert_includes seen, true, "nothing else ran while messages were handed over"
  end

  def test_a_thread_killed_in_produce_many_leaves_a_delivery_that_is_settled
    limits = { "queue.buffering.max.messages" => "1000000", "queue.buffering.max.kbytes" => "2000000" }
    rows = [{ topic: "t", payload: "x", headers: { "a" => "b" } }] * 500_000
    producer = lonely_producer(limits)
    delivery = nil
    thread = Thread.new { producer.produce_many(rows, 0) { |made| delivery = made } }
    eventually(60) { delivery || !thread.alive? }
    thread.kill.join
    producer.purge
    eventually(60) { delivery.done? }
  end

  # The other thread changes what is read last while the first part is read.
  def test_reading_a_value_before_it_is_encoded_lets_other_threads_run
    schema = Pelton::Registry::Schema.of("type" => "record", "name" => "R", "fields" => [
                                           { "name" => "a", "type" => { "type" => "array", "items" => "int" } },
                                           { "name" => "z", "type" => "int" }
                                         ])
    decoder = Pelton::Avro::Decoder.new(schema: schema)
    list = [1] * 5_000_000
    found = Array.new(TRIES) do
      value = { "a" => list, "z" => 0 }
      thread = Thread.new do
        Thread.current[:began] = true
        schema.encode(value)
      end
      Thread.pass until thread[:began]
      value["z"] = 1
      z = decoder.decode(thread.value)["z"]
      break [1] if z == 1

      z
    end
    assert_includes found, 1, "nothing else ran while the value was read"
  end

  private

  # A message whose document no native thread decoded.
  def alone(document, format: nil, **options)
    topic = new_topic
    writer = producer("message.max.bytes" => "100000000", "compression.type" => "gzip", "linger.ms" => "0")
    writer.produce_many([{ topic: topic, payload: document, partition: 0 }], 60).wait(timeout: 60)
    decode = format ? { topic => { format: format, **options } } : {}
    messages(topic, 1, options: { decode: decode }).first
  end

  def part_of(all, producer)
    pending = producer.pending
    pending.positive? && pending < all
  end

  # Another thread comes to run in the midst of the block, not only before and behind it.
  def assert_runs_beside(&block)
    held = Array.new(3) { rounds { JSON.parse(JSON_DOCUMENT) } }.max
    enough = 10 * (held + 1)
    free = 0
    TRIES.times { free = [free, rounds(&block)].max if free <= enough }
    assert_operator free, :>, enough, "rounds of another thread; #{held} where the lock is held"
  end

  # How many rounds another thread made during the block: one that gives the lock back after each.
  def rounds
    count = 0
    thread = Thread.new { loop { (count += 1) && Thread.pass } }
    eventually(60) { count.positive? }
    before = count
    yield
    count - before
  ensure
    thread&.kill&.join
  end
end
