# frozen_string_literal: true

require "test_helper"
require "pelton/decoding/formats"
require "support/native_kit"

# Payloads that a topic's own deserializer makes.
class NativeDeserializerTest < Minitest::Test
  include NativeKit

  Order = Struct.new(:id)

  # Counts what it is asked.
  class Decoder
    attr_reader :calls

    def initialize(&work)
      @work = work
      @calls = []
    end

    def call(message)
      @calls << message.offset
      @work.call(message)
    end
  end

  def read(documents, decoder, format = nil)
    formats = Pelton::Formats.with({ "*" => format }, { "*" => decoder })
    round_trip(*documents, options: { decode: formats })
  end

  # A deserializer that returns nil or false runs once. Elsewhere it ran again with each read.
  def test_payload_is_made_once_and_kept_also_when_nil_or_false
    values = [Order.new(1), nil, false, 0, :symbol, 1.5, RuntimeError.new("a value, too"), [1]]
    decoder = Decoder.new { |message| values[message.offset] }
    list = read(Array.new(values.size, "{}"), decoder)
    2.times { assert_equal values, list.map(&:payload) }
    assert_equal (0...values.size).to_a, decoder.calls
    list.zip(values) { |message, value| assert_same value, message.payload }
  end

  def test_deserializer_reads_the_message_raw_or_decoded
    decoder = Decoder.new do |message|
      [message.raw_payload, message.decoded, message.payload, message.dig("id"), message.key, message.headers["h"]]
    end
    message, = read([['{"id":7}', "k", { "h" => "v" }]], decoder, :json)
    assert_equal ['{"id":7}', { "id" => 7 }, { "id" => 7 }, 7, "k", "v"], message.payload
    assert_equal [0], decoder.calls
    assert_equal({ "id" => 7 }, message.decoded)
    assert_equal 7, message.dig("id")
    message, = read([[[1].pack("L>")]], ->(it) { it.payload.unpack1("L>") }, :bytes)
    assert_equal 1, message.payload
    message, = read([["\x81\xa2id\x07".b]], ->(it) { Order.new(it.dig("id")) }, :msgpack)
    assert_equal Order.new(7), message.payload
  end

  # A tombstone has a nil payload, and its deserializer is not called.
  def test_tombstone_does_not_call_the_deserializer
    message, = read([[nil, "k"]], decoder = Decoder.new { raise "asked" })
    assert_equal [nil, nil, nil], [message.payload, message.decoded, message.dig("a")]
    assert_empty decoder.calls
  end

  def test_error_of_a_deserializer_is_the_cause_and_the_next_read_tries_again
    decoder = Decoder.new { |message| @broken ? raise(ArgumentError, "no such schema") : message.raw_payload }
    message, = read([["x"]], decoder)
    @broken = true
    error = assert_raises(Pelton::DecodeError) { message.payload }
    assert_match(/offset 0: payload cannot be decoded: ArgumentError at deserializer_test.rb:\d+\z/, error.message)
    assert_instance_of ArgumentError, error.cause
    @broken = false
    2.times { assert_equal "x", message.payload }
    assert_equal [0, 0], decoder.calls
  end

  def test_an_error_of_decode_stays_what_it_is
    message, = read([["{"]], ->(it) { it.decoded.fetch("a") }, :json)
    error = assert_raises(Pelton::DecodeError) { message.payload }
    assert_kind_of JSON::ParserError, error.cause
    assert_raises(Pelton::DecodeError) { message.dig("a") }
  end

  def test_each_may_read_another_message_s_payload
    list = []
    list.concat(read(%w[1 2 3], ->(it) { it.offset.zero? ? it.decoded : it.decoded + list[it.offset - 1].payload }))
    assert_equal 6, list.last.payload
  end

  def test_deserializer_lives_as_long_as_its_messages
    message, = read([["7"]], Decoder.new { |it| [it.decoded] * 2 })
    @clients.each { |client| client.close(5) }
    3.times { GC.start }
    GC.compact if GC.respond_to?(:compact)
    Array.new(10_000) { Decoder.new } # in its place, were it free
    assert_equal [7, 7], message.payload
  end

  def test_and_no_longer
    freed = Queue.new
    100.times { forget(freed) }
    3.times { GC.start }
    assert_operator freed.size, :>, 50
  end

  def test_under_stress
    decoder = Decoder.new { |message| { message.dig("a") => message.decoded } }
    list = read(['{"a":["x"]}'] * 3, decoder, { format: :json, symbolize_names: true })
    begin
      GC.stress = true
      built = list.map(&:payload)
    ensure
      GC.stress = false
    end
    GC.compact if GC.respond_to?(:compact)
    assert_equal [{ nil => { a: ["x"] } }] * 3, built
    assert_equal built, list.map(&:payload)
  end

  def test_kept_by_hand
    message, = read([["1"]], decoder = Decoder.new { 2 })
    assert_equal 3, message.keep(3)
    assert_equal [3, 3], [message.keep(4), message.payload]
    assert_empty decoder.calls
  end

  # Of keys and headers.
  def parts(documents, keys: nil, headers: nil, payloads: nil, format: nil)
    all = [payloads, keys, headers].map { |deserializer| { "*" => deserializer } }
    round_trip(*documents, options: { decode: Pelton::Formats.with({ "*" => format }, *all) })
  end

  # Key and headers are made on the first read and kept, nil and false included.
  def test_key_and_headers_are_made_once_and_kept_also_when_nil_or_false
    values = [Order.new(1), nil, false, 0, :symbol, RuntimeError.new("a value, too"), [1]]
    keys = Decoder.new { |message| values[message.offset] }
    headers = Decoder.new { |message| [values[message.offset]] }
    list = parts([["{}", "k", { "h" => "v" }]] * values.size, keys: keys, headers: headers)
    2.times { assert_equal [values, values.zip], [list.map(&:key), list.map(&:headers)] }
    list.zip(values) { |message, value| assert_same value, message.key }
    assert_equal [(0...values.size).to_a] * 2, [keys.calls, headers.calls]
    assert_equal [["k"] * 7, [{ "h" => "v" }] * 7, [{}] * 7],
                 [list.map(&:raw_key), list.map(&:raw_headers), list.map(&:payload)]
  end

  def test_without_them_key_and_headers_are_as_they_came
    message, = read([["{}", "k", { "h" => "v" }]], ->(it) { [it.key, it.headers] })
    assert_equal [["k", { "h" => "v" }]] * 3,
                 [message.payload, [message.key, message.headers], [message.raw_key, message.raw_headers]]
    assert_equal 3, message.keep(3, :key), "nothing is kept of what nobody makes"
    assert_equal "k", message.key
  end

  def test_a_topic_that_says_nothing_pays_nothing
    message, = read([["{}", "k" * 100]], nil)
    message.key
    assert_in_delta 100, allocations { 100.times { message.key } }, 5, "a String each time, as ever"
  end

  def test_missing_key_and_headers_do_not_call_the_deserializer
    keys = Decoder.new { raise "asked" }
    headers = Decoder.new { |message| message.raw_headers.size }
    message, = parts([["{}"]], keys: keys, headers: headers)
    assert_equal [nil, nil, 0], [message.key, message.raw_key, message.headers]
    empty, = parts([["{}", ""]], keys: ->(it) { [it.raw_key] })
    assert_equal [""], empty.key, "an empty key is one"
    assert_empty keys.calls
  end

  def test_each_part_may_read_the_others_and_itself
    keys = ->(it) { [it.key, it.payload] }
    payloads = ->(it) { [it.payload, it.key, it.headers] }
    headers = ->(it) { [it.headers, it.raw_key] }
    message, = parts([["7", "k"]], keys: keys, headers: headers, payloads: payloads)
    assert_equal ["k", [7, "k", [{}, "k"]]], message.key
    assert_equal [7, "k", [{}, "k"]], message.payload, "what was made while the key was"
  end

  def test_a_key_that_cannot_be_made
    broken = true
    keys = Decoder.new { |message| broken ? raise(ArgumentError, "no such schema") : message.raw_key }
    message, = parts([["1", "k"]], keys: keys, headers: ->(_) { raise IOError })
    2.times do
      error = assert_raises(Pelton::DecodeError) { message.key }
      assert_match(/0 offset 0: key cannot be decoded: ArgumentError at deserializer_test.rb:\d+\z/, error.message)
      assert_equal [ArgumentError, :key, message.topic, 0, 0],
                   [error.cause.class, error.attribute, error.topic, error.partition, error.offset]
    end
    assert_includes assert_raises(Pelton::DecodeError) { message.headers }.message, "headers cannot be decoded: IOError"
    assert_equal [1, "k"], [message.payload, message.raw_key]
    broken = false
    assert_equal "k", message.key
  end

  def test_keys_of_formats
    ext = { 1 => lambda(&:upcase) }
    { json: ['{"id":7}', { "id" => 7 }], msgpack: ["\x81\xa2id\x07".b, { "id" => 7 }], utf8: %w[ä ä],
      bytes: ["ä", "ä".b] }.each do |format, (key, value)|
      message, = parts([["1", key]], keys: Pelton::Formats.key_maker(format))
      assert_equal [value, value.class], [message.key, message.key.class], format
    end
    message, = parts([["1", "\xd4\x01a".b]], keys: Pelton::Formats.key_maker(format: :msgpack, ext: ext))
    assert_equal "A", message.key
    message, = parts([["1", "\xc1".b]], keys: Pelton::Formats.key_maker(:msgpack))
    error = assert_raises(Pelton::DecodeError) { message.key }
    assert_match(/key cannot be decoded: invalid byte 0xc1\z/, error.message)
  end

  def test_parts_under_stress_and_compaction
    keys = Decoder.new { |message| { message.raw_key => [message.offset] } }
    headers = Decoder.new { |message| [message.raw_headers] }
    list = parts([['"x"', "k", { "h" => "v" }]] * 3, keys: keys, headers: headers, payloads: ->(it) { [it.decoded] })
    begin
      GC.stress = true
      built = list.map { |message| [message.key, message.headers, message.payload] }
    ensure
      GC.stress = false
    end
    GC.compact if GC.respond_to?(:compact)
    Array.new(10_000) { +"in their place, were they free" }
    expected = (0..2).map { |offset| [{ "k" => [offset] }, [{ "h" => "v" }], ["x"]] }
    assert_equal [expected, expected], [built, list.map { |message| [message.key, message.headers, message.payload] }]
    assert_equal [[0, 1, 2]] * 2, [keys.calls, headers.calls]
  end

  def test_parts_live_no_longer_than_their_message
    freed = Queue.new
    100.times { made_and_forgotten(freed) }
    3.times { GC.start }
    assert_operator freed.size, :>, 50
  end

  def self.finalizer(freed) = proc { freed << true }

  private

  def made_and_forgotten(freed)
    @keys ||= ->(_) { Object.new }
    message, = parts([["1", "k"]], keys: @keys)
    ObjectSpace.define_finalizer(message.key, self.class.finalizer(freed))
    nil
  end

  def forget(freed)
    decoder = Decoder.new
    ObjectSpace.define_finalizer(decoder, self.class.finalizer(freed))
    Native.decode({ format: :msgpack, deserializer: decoder }, "\x01")
  end
end
