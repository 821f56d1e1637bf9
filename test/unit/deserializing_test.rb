# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/routing/routing"
require "pelton/decoding/deserializing"

# The words `decode` and `deserializer`, and who is asked for a payload.
class DeserializingTest < Minitest::Test
  Orders = Class.new(Pelton::Consumer) { def consume; end }

  # Keeps what it is given.
  Message = Struct.new(:decoded, :kept) do
    def topic = "orders"
    def partition = 0
    def offset = 7
    def raw_key = "raw"
    def raw_headers = { "h" => "raw" }
    def keep(value, part) = (self.kept = part == :payload ? value : [part, value])
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

  # Each deserializer has its own default, also when the route sets another one.
  def test_makers_of_keys_and_headers
    maker = ->(message) { message.raw_key }
    headers = ->(message) { message.raw_headers }
    routing.draw do
      defaults { headers_deserializer headers }
      topic("a", to: Orders) { key_deserializer maker }
      topic("b", to: Orders) { key_deserializer :json, symbolize_names: true }
      topic(/^c/, to: Orders) { headers_deserializer maker }
    end
    group, = groups
    keys = group.key_deserializers
    assert_equal [maker, Pelton::KeyFormat, nil], [keys["a"], keys["b"].class, keys["*"]]
    assert_equal({ "a" => headers, "b" => headers, "*" => maker }, group.headers_deserializers)
    assert_equal({ "a" => { format: nil, key_deserializer: maker, headers_deserializer: headers } },
                 Pelton::Formats.with({ "a" => nil }, {}, { "a" => maker }, { "a" => headers }))
    routing.draw { topic(/^x/, to: Orders) { headers_deserializer headers } }
    assert_includes config_error { groups }, "group app: headers_deserializer"
  end

  def test_words_for_keys_and_headers_that_are_refused
    draw = ->(&words) { config_error { Pelton::Routing.new.draw { topic("a", to: Orders, &words) } } }
    assert_match(/topic a: key_deserializer = 7: expected an object with the method call, or a format: `:json`/,
                 draw.call { key_deserializer 7 })
    assert_includes draw.call { key_deserializer :json, symbolise: true }, "key_deserializer = {"
    assert_includes draw.call { headers_deserializer :json }, "headers_deserializer = :json: expected an object"
    assert_includes draw.call { key_deserialiser :json }, "did you mean key_deserializer?"
  end

  Key = Struct.new(:raw_key, :raw_headers)

  def test_keys_of_formats_that_ruby_reads
    read = ->(format, key) { Pelton::Formats.key_maker(format).call(Key.new(key, {})) }
    assert_equal({ "id" => [1] }, read.call(:json, '{"id":[1]}'))
    assert_equal({ id: 1 }, read.call({ format: :json, symbolize_names: true }, '{"id":1}'))
    assert_equal ["ä", Encoding::UTF_8], [read.call(:utf8, "ä"), read.call(:utf8, "ä").encoding]
    assert_equal ["ä".b, Encoding::BINARY], [read.call(:bytes, "ä"), read.call(:bytes, "ä").encoding]
    error = assert_raises(Pelton::DecodeError) do
      Pelton::Deserializing.key(Pelton::Formats.key_maker(:json), place("{"))
    end
    assert_match(%r{\Aorders/0 offset 7: key cannot be decoded: }, error.message)
    assert_equal [:key, JSON::ParserError], [error.attribute, error.cause.class]
    error = assert_raises(Pelton::DecodeError) do
      Pelton::Deserializing.key(Pelton::Formats.key_maker(:utf8), place("\xff".b))
    end
    assert_equal "orders/0 offset 7: key cannot be decoded: it is not valid UTF-8", error.message
  end

  def place(key) = Message.new.tap { |message| message.define_singleton_method(:raw_key) { key } }

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

  def test_payload_inside_a_deserializer_is_the_decoded_value_and_other_messages_keep_theirs
    message = Message.new({ "a" => 1 })
    other = Message.new({ "b" => 2 })
    inner = ->(it) { it.decoded.keys }
    outer = ->(it) { [ask(outer, it), ask(inner, other)] }
    assert_equal [{ "a" => 1 }, ["b"]], ask(outer, message)
    assert_equal [["b"], [{ "a" => 1 }, ["b"]]], [other.kept, message.kept]
    assert_equal 1, ask(->(_) { 1 }, message)
  end

  def test_payload_key_and_headers_each_have_a_deserializer_that_gets_the_raw_message
    message = Message.new({ "a" => 1 })
    headers = nil
    keys = ->(it) { [it.raw_key, Pelton::Deserializing.key(keys, it), Pelton::Deserializing.headers(headers, it)] }
    headers = ->(it) { Pelton::Deserializing.headers(headers, it).merge("k" => Pelton::Deserializing.key(keys, it)) }
    assert_equal [:key, ["raw", "raw", [:headers, { "h" => "raw", "k" => "raw" }]]],
                 Pelton::Deserializing.key(keys, message)
    error = assert_raises(Pelton::DecodeError) { Pelton::Deserializing.headers(->(_) { raise "no" }, message) }
    place = "deserializing_test.rb:#{__LINE__ - 1}"
    assert_equal [:headers, "orders/0 offset 7: headers cannot be decoded: RuntimeError at #{place}", "no"],
                 [error.attribute, error.message, error.excerpt]
    assert_equal [:headers, "no"], [error.again.attribute, error.again.excerpt]
  end

  def test_error_of_a_deserializer_becomes_a_decode_error
    error = assert_raises(Pelton::DecodeError) { ask(->(_) { raise "no" }) }
    place = "deserializing_test.rb:#{__LINE__ - 1}"
    assert_equal ["orders/0 offset 7: payload cannot be decoded: RuntimeError at #{place}", RuntimeError],
                 [error.message, error.cause.class]
    own = Pelton::DecodeError.new("x", 1, 2, "y")
    assert_same own, assert_raises(Pelton::DecodeError) { ask(->(_) { raise own }) }
    lost = assert_raises(Pelton::DecodeError) do
      ask(->(_) { raise Pelton::DecodeError.new(nil, nil, nil, "y"), cause: IOError.new("z") })
    end
    assert_equal ["orders/0 offset 7: payload cannot be decoded: y", IOError], [lost.message, lost.cause.class]
    odd = Class.new(Pelton::DecodeError) { def initialize = super(nil, nil, nil, "mine") }.new
    assert_same odd, assert_raises(Pelton::DecodeError) { ask(->(_) { raise odd }) }
    assert_raises(NotImplementedError) { ask(->(_) { raise NotImplementedError }) }
    assert_nil Thread.current[:pelton_deserializing]
  end
end
