# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# `deserializer` and `decode :msgpack` through real clients and the framework.
class EmbeddedDeserializerTest < Minitest::Test
  include EmbeddedApp

  Order = Struct.new(:id, :type)

  # {"n" => number, "type" => "new"}
  def packed(number, type = "new") = ["82a16e", "a474797065"].pack("H*H*").insert(3, [number].pack("C")) + text(type)
  def text(type) = [0xa0 | type.bytesize, type].pack("Ca*")

  def one_by_one
    seen = @seen
    Class.new(Pelton::Consumer) { define_method(:process) { |message| seen << message.payload } }
  end

  def test_messages_that_pass_the_filter_reach_consume_as_objects
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << [message.payload, message.dig("n"), message.decoded] } }
    made = ->(message) { Order.new(message.decoded["n"], message.dig("type")) }
    app = app do
      topic(name, to: reader) do
        decode :msgpack
        deserializer made
        where("type").eq("paid")
      end
    end
    produce(app, name, Array.new(20) { |number| packed(number, number == 7 ? "paid" : "new") })
    app.start
    assert_equal [[Order.new(7, "paid"), 7, { "n" => 7, "type" => "paid" }]], take(1)
    eventually(20, "the drops") { happened("message.dropped").sum { |payload| payload[:count] } == 19 }
    assert app.stop
    assert_empty errors
  end

  # Order per key, filters and dead letter copies use the raw bytes, whatever the deserializers return.
  def test_keys_and_headers_of_a_topic
    name = topic
    dead = topic
    seen = @seen
    reader = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        seen << [message.key, message.headers, message.raw_key, message.raw_headers]
        raise "refused" if message.key == [:b]
      end
    end
    app = app do
      topic(name, to: reader) do
        key_deserializer ->(message) { [message.raw_key.to_sym] }
        headers_deserializer ->(message) { message.raw_headers["n"]&.to_i }
        where.key.in(%w[a b])
        concurrency 2
        dead_letters dead, retries: 0
      end
    end
    %w[a x b].each_with_index do |key, number|
      app.producer.produce_sync(topic: name, key: key, payload: "1", headers: { "n" => number.to_s })
    end
    app.start
    assert_equal [[[:a], 0, "a", { "n" => "0" }], [[:b], 2, "b", { "n" => "2" }]], take(2).sort_by { |row| row[1] }
    letter = eventually(20, "the dead letter") { app.each(dead).first }
    assert_equal ["b", "b", "2"], [letter.key, letter.raw_key, letter.headers["n"]]
    assert_equal [name, 2], [letter.origin.topic, letter.origin.offset]
    piped = topic
    made = app.each(name, key_deserializer: :utf8, headers_deserializer: ->(_) { :made }).first
    app.producer.pipe_sync(made, to: piped)
    assert_equal ["a", :made, "a", { "n" => "0" }],
                 [made.key, made.headers, *app.each(piped).first.then { |copy| [copy.key, copy.headers] }]
    assert app.stop
  end

  def test_a_key_that_cannot_be_made_fails_its_message
    name = topic
    seen = @seen
    reader = Class.new(Pelton::Consumer) { define_method(:process) { |message| seen << message.key } }
    app = app { topic(name, to: reader) { key_deserializer(:json) && retries(1, backoff: 0..0, then: :skip) } }
    [%w[1 x], %w[{ y], %w[3 z]].each { |key, text| app.producer.produce_sync(topic: name, key: key, payload: text) }
    app.start
    assert_equal [1, 3], take(2)
    assert app.stop
    assert_equal [[Pelton::DecodeError, :key, 1]],
                 errors.map { |error| [error.class, error.attribute, error.offset] }.uniq
    assert_equal 1, happened("message.skipped").size
  end

  def test_message_whose_deserializer_raises_is_retried_and_then_skipped
    name = topic
    reader = one_by_one
    attempts = Queue.new
    made = lambda do |message|
      attempts << message.offset
      message.offset == 1 ? raise(ArgumentError, "bad") : message.raw_payload
    end
    app = app { topic(name, to: reader) { deserializer(made) && retries(2, backoff: 0..0, then: :skip) } }
    produce(app, name, %w[a b c])
    app.start
    assert_equal %w[a c], take(2)
    assert app.stop
    assert_equal 3, Array.new(attempts.size) { attempts.pop }.count(1)
    assert_equal [ArgumentError], errors.map { |error| error.cause.class }.uniq
  end

  def test_malformed_messages_fail_with_their_reason_and_filters_let_them_pass
    name = topic
    reader = one_by_one
    app = app do
      topic(name, to: reader) do
        decode :msgpack
        where("n").gt(0)
        retries 0, then: :skip
      end
    end
    produce(app, name, [packed(0), packed(1), "\xc1", packed(2)[0..-2], packed(3)])
    app.start
    assert_equal [1, 3], take(2).map { |payload| payload["n"] }
    assert app.stop
    reasons = errors.map { |error| error.message[/decoded: (.*)/, 1] }
    assert_equal ["invalid byte 0xc1", "it ends too early"], reasons
  end
end
