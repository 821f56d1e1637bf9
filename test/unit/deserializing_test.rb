# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/routing"
require "pelton/deserializing"

# The words `decode` and `deserializer`, and who is asked for a payload.
class DeserializingTest < Minitest::Test
  Orders = Class.new(Pelton::Consumer) { def consume; end }

  # Keeps what it is given.
  Message = Struct.new(:decoded, :kept) do
    def topic = "orders"
    def partition = 0
    def offset = 7
    def keep(value) = self.kept = value
  end

  def routing = @routing ||= Pelton::Routing.new
  def groups = routing.groups(Pelton::Config.new.tap { |config| config.group_id = "app" })
  def ask(deserializer, message = Message.new) = Pelton::Deserializing.payload(deserializer, message)
  def config_error(&block) = assert_raises(Pelton::ConfigError, &block).message

  def test_deserializers
    decoder = ->(message) { message.raw_payload }
    routing.draw do
      topic("a", to: Orders) { deserializer decoder }
      topic("b", to: Orders)
      topic(/^c/, to: Orders) { deserializer decoder }
    end
    group, = groups
    assert_equal({ "a" => decoder, "b" => nil, "*" => decoder }, group.deserializers)
    assert_same decoder, group.topic("cd").deserializer
    formats = Pelton::Formats.with({ "a" => :json, "b" => nil }, group.deserializers)
    assert_equal({ "a" => { format: :json, deserializer: decoder }, "b" => nil,
                   "*" => { format: nil, deserializer: decoder } }, formats)
    routing.draw { topic(/^x/, to: Orders) }
    assert_includes config_error { groups }, "group app: deserializer"
    other = Pelton::Routing.new
    assert_includes config_error { other.draw { topic("a", to: Orders) { deserializer :json } } },
                    "topic a: deserializer = :json: expected an object with the method call"
  end

  def test_the_options_of_formats
    good = [:json, :msgpack, { format: :msgpack, symbolize_keys: true, freeze: false },
            { format: :json, symbolize_names: true }, { format: :utf8 },
            { format: :msgpack, ext: { -128 => :itself.to_proc, 127 => method(:puts) } }]
    bad = [:xml, nil, "json", {}, { format: :json, symbolize_keys: true }, { format: :msgpack, symbolize_names: true },
           { format: :msgpack, freeze: 1 }, { format: :bytes, freeze: true }, { format: :msgpack, ext: 1 },
           { format: :msgpack, ext: { 128 => :itself.to_proc } }, { format: :msgpack, ext: { 1 => :a } },
           { format: :msgpack, ext: { "1" => :itself.to_proc } }, { format: :json, ext: {} }]
    assert_equal [good, bad], (good + bad).partition { |given| Pelton::Formats.valid?(given) }
  end

  def test_a_deserializer_that_asks_for_the_payload_gets_what_decode_makes_and_other_messages_their_own
    message = Message.new({ "a" => 1 })
    other = Message.new({ "b" => 2 })
    inner = ->(it) { it.decoded.keys }
    outer = ->(it) { [ask(outer, it), ask(inner, other)] }
    assert_equal [{ "a" => 1 }, ["b"]], ask(outer, message)
    assert_equal [["b"], [{ "a" => 1 }, ["b"]]], [other.kept, message.kept]
    assert_equal 1, ask(->(_) { 1 }, message)
  end

  def test_what_it_raises
    error = assert_raises(Pelton::DecodeError) { ask(->(_) { raise "no" }) }
    assert_equal ["orders/0 offset 7: payload cannot be decoded: RuntimeError: no", RuntimeError],
                 [error.message, error.cause.class]
    own = Pelton::DecodeError.new("x", 1, 2, "y")
    assert_same own, assert_raises(Pelton::DecodeError) { ask(->(_) { raise own }) }
    assert_raises(NotImplementedError) { ask(->(_) { raise NotImplementedError }) }
    assert_nil Thread.current[:pelton_deserializing]
  end
end
