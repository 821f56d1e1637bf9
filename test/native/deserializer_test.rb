# frozen_string_literal: true

require "test_helper"
require "pelton/formats"
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

  # H38.
  def test_a_payload_is_made_once_and_kept_whatever_it_is
    values = [Order.new(1), nil, false, 0, :symbol, 1.5, RuntimeError.new("a value, too"), [1]]
    decoder = Decoder.new { |message| values[message.offset] }
    list = read(Array.new(values.size, "{}"), decoder)
    2.times { assert_equal values, list.map(&:payload) }
    assert_equal (0...values.size).to_a, decoder.calls
    list.zip(values) { |message, value| assert_same value, message.payload }
  end

  def test_it_reads_the_message_raw_or_decoded
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

  # H37.
  def test_a_tombstone_asks_nobody
    message, = read([[nil, "k"]], decoder = Decoder.new { raise "asked" })
    assert_equal [nil, nil, nil], [message.payload, message.decoded, message.dig("a")]
    assert_empty decoder.calls
  end

  def test_what_it_raises_is_the_cause_and_the_next_read_tries_again
    decoder = Decoder.new { |message| @broken ? raise(ArgumentError, "no such schema") : message.raw_payload }
    message, = read([["x"]], decoder)
    @broken = true
    error = assert_raises(Pelton::DecodeError) { message.payload }
    assert_match(/offset 0: payload cannot be decoded: ArgumentError: no such schema\z/, error.message)
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

  def test_it_lives_as_long_as_a_message_does
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

  def self.finalizer(freed) = proc { freed << true }

  private

  def forget(freed)
    decoder = Decoder.new
    ObjectSpace.define_finalizer(decoder, self.class.finalizer(freed))
    Native.decode({ format: :msgpack, deserializer: decoder }, "\x01")
  end
end
