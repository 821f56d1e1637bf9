# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# The ways to send, on the fake native side.
class ProducingTest < Minitest::Test
  def setup
    @native = Fakes::Native.new
    @config = Pelton::Config.new
    @producer = Pelton::Producer.new(@config, native: @native.to_module)
  end

  def teardown = @producer.close

  def sent = @native.producers.flat_map(&:messages)

  # --- tombstones ---

  def test_tombstones
    @producer.tombstone_async(topic: "a", key: "k")
    @producer.tombstone_sync(topic: "a", key: "k", partition: 3, headers: { "why" => "gdpr" })
    @producer.tombstone_many_async([{ topic: "a", key: "1" }, { topic: "b", key: "2", timestamp: 5 }])
    delivery = @producer.tombstone_many_sync([{ topic: "a", key: "3", payload: nil }], timeout: 4)
    assert_equal 4, delivery.waited
    assert_equal [["a", nil, "k", nil, nil, nil], ["a", nil, "k", 3, nil, { "why" => "gdpr" }],
                  ["a", nil, "1", nil, nil, nil], ["b", nil, "2", nil, 5, nil], ["a", nil, "3", nil, nil, nil]], sent
  end

  def test_a_tombstone_needs_a_key_and_takes_no_payload
    assert_raises(ArgumentError) { @producer.tombstone_async(topic: "a") }
    ["", nil, 7].each do |key|
      error = assert_raises(Pelton::InvalidMessageError) { @producer.tombstone_sync(topic: "a", key: key) }
      assert_equal ["key", key, nil], [error.key, error.value, error.index]
    end
    error = assert_raises(Pelton::InvalidMessageError) do
      @producer.tombstone_async(topic: "a", key: "k", payload: "x")
    end
    assert_equal %w[payload x], [error.key, error.value]
    error = assert_raises(Pelton::InvalidMessageError) do
      @producer.tombstone_many_async([{ topic: "a", key: "k" }, { topic: "a", key: "" }])
    end
    assert_equal 1, error.index
    assert_empty sent
  end

  # --- piping ---

  def consumed(payload, **more) = Fakes::Message.new("in", 3, 7, payload, **more)

  def test_a_message_is_piped_as_it_is
    headers = { "a" => %w[1 2], "b" => nil }
    message = consumed("\xff{", key: "k", headers: headers)
    @producer.pipe_async(message, to: "out")
    @producer.pipe_sync(consumed(nil, key: "k"), to: "out", partition: 2, timestamp: 5, headers: { "c" => "3" })
    @producer.pipe_sync(message, to: "out", key: "other", headers: { "b" => "2" })
    @producer.pipe_many_async([message, consumed("2")], to: "many")
    assert_equal 4, @producer.pipe_many_sync([message], to: "many", timeout: 4).waited
    assert_equal [["out", "\xff{", "k", nil, nil, headers], ["out", nil, "k", 2, 5, { "c" => "3" }],
                  ["out", "\xff{", "other", nil, nil, { "a" => %w[1 2], "b" => "2" }],
                  ["many", "\xff{", "k", nil, nil, headers], ["many", "2", nil, nil, nil, {}],
                  ["many", "\xff{", "k", nil, nil, headers]], sent
    error = assert_raises(Pelton::InvalidMessageError) { @producer.pipe_async({ payload: "x" }, to: "out") }
    assert_match(/a Pelton::Message/, error.message)
    assert_raises(ArgumentError) { @producer.pipe_async(message, to: "out", tpoic: "x") }
  end

  def test_piped_messages_go_through_the_middleware
    @producer.middleware.append(->(message) { { **message, headers: { **message[:headers], "trace" => "1" } } })
    @producer.pipe_sync(consumed("x", key: "k", headers: { "a" => "b" }), to: "out")
    assert_equal [["out", "x", "k", nil, nil, { "a" => "b", "trace" => "1" }]], sent
  end

  # --- middleware ---

  def test_middleware_sees_each_message_once_in_order
    seen = []
    @producer.middleware.append(->(message) { message.tap { seen << [:second, message] } })
    @producer.middleware.prepend(lambda do |message|
      seen << [:first]
      message.merge(payload: "#{message[:payload]}!")
    end)
    @producer.produce_async(topic: "a", payload: "x")
    assert_equal [[:first], [:second, { topic: "a", payload: "x!" }]], seen
    @producer.produce_sync(topic: "a", payload: "y", key: "k", headers: { "a" => "b" }, partition: 0, timestamp: 9)
    @producer.produce_many_sync([{ topic: "b", payload: "z" }, { topic: "b", payload: nil }])
    @producer.tombstone_sync(topic: "c", key: "k")
    assert_equal 10, seen.size
    assert_equal [["a", "x!", nil, nil, nil, nil], ["a", "y!", "k", 0, 9, { "a" => "b" }],
                  ["b", "z!", nil, nil, nil, nil], ["b", "!", nil, nil, nil, nil], ["c", "!", "k", nil, nil, nil]], sent
  end

  def test_middleware_may_change_every_key_and_its_result_is_checked
    change = @producer.middleware.append(->(_) { { topic: "z", payload: "p", timestamp: Time.at(1) } })
    @producer.produce_async(topic: "a", payload: "x")
    assert_equal [["z", "p", nil, nil, Time.at(1), nil]], sent
    assert_same change, @producer.middleware.remove(change)
    assert_empty @producer.middleware

    @producer.middleware.append(->(_) {})
    error = assert_raises(Pelton::InvalidMessageError) { @producer.produce_async(topic: "a", payload: "x") }
    assert_match(/middleware: nil is not allowed/, error.message)
    @producer.middleware.prepend(->(_) { raise "broken" })
    assert_raises(RuntimeError) { @producer.produce_many_async([{ topic: "a", payload: "x" }]) }
    assert_equal 1, sent.size
  end

  def test_middleware_must_be_callable
    assert_raises(Pelton::ConfigError) { @producer.middleware.append("x") }
  end

  def test_middleware_that_adds_middleware
    once = ->(message) { message.tap { @producer.middleware.append(->(other) { other.merge(payload: "2") }) } }
    @producer.middleware.append(once)
    @producer.produce_async(topic: "a", payload: "1")
    @producer.middleware.remove(once)
    @producer.produce_async(topic: "a", payload: "1")
    assert_equal %w[1 2], (sent.map { |message| message[1] })
  end
end
