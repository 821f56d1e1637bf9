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
    reader = consumer { messages.each { |one| seen << [one.payload, one.dig("n"), one.decoded] } }
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
    eventually(20, "the drops") { happened("messages.dropped").sum { |payload| payload[:count] } == 19 }
    assert app.stop
    assert_empty errors
  end

  def test_what_a_deserializer_raises_is_tried_again_and_then_skipped
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
