# frozen_string_literal: true

require_relative "../test_helper"
require "support/native_kit"
require "pelton"
require "pelton/reporters/log"
require "stringio"

# What payloads, keys and headers say is nobody's business: no error's message and no log shows it, nor can it forge a
# line of a log. `excerpt` shows a part, escaped.
class PrivatePayloadTest < Minitest::Test
  include NativeKit

  CARD = "4111111111111111"
  FORGED = "\n2026-11-22T00:00:00.000Z FATAL forged\e[31m"
  DOCUMENTS = ["{\"card\":\"#{CARD}\"", "#{CARD}#{FORGED}", "[1,\"#{CARD}\",x]", "{\"a\":#{CARD}x}", "\"#{CARD}\\u12\"",
               "#{"[" * 200}#{CARD}", "\xFF#{CARD}#{FORGED}".b, "{\"#{CARD}\":1,}"].freeze
  SCHEMA = '{"type":"record","name":"R","fields":[{"name":"card","type":"int"},{"name":"kind","type":' \
           '{"type":"enum","name":"K","symbols":["A"]}},{"name":"tags","type":{"type":"map","values":"int"}}]}'

  def assert_private(error)
    [error, *error.cause].each { |raised| refute_match(/4111|forged|[\n\e]/, raised.message, raised.class.name) }
    refute_match(/4111|forged/, error.full_message(highlight: false)[/.*cannot be decoded.*|.*is not allowed.*/].to_s)
  end

  def test_undecodable_payload_is_not_in_the_error
    round_trip(*DOCUMENTS).each do |message|
      2.times { assert_private(assert_raises(Pelton::DecodeError) { message.payload }) }
    end
  end

  def test_a_decode_error_has_position_length_and_on_request_an_excerpt
    error = assert_raises(Pelton::DecodeError) { Pelton::Json.parse("[1,\"ok\",#{CARD}\e[31mx]") }
    assert_equal 31, error.length
    assert_match(/invalid JSON \(byte \d+ of 31\)\z/, error.message)
    assert_includes 8..25, error.position
    assert_includes error.excerpt, "#{CARD}\\e[31mx]"
    again = error.again
    assert_equal [error.position, error.length, error.excerpt, error.message],
                 [again.position, again.length, again.excerpt, again.message]
    of = error.of("orders", 3, 7, :key)
    assert_equal "orders/3 offset 7: key cannot be decoded: invalid JSON (byte #{error.position} of 31)", of.message
    long = assert_raises(Pelton::DecodeError) { Pelton::Json.parse("#{"[1," * 1000}x#{" " * 10_000}") }
    assert_operator long.excerpt.size, :<, 200
    assert_nil Pelton::DecodeError.new("t", 0, 0, "it ends too early").excerpt
  end

  def test_a_deserializers_error_is_the_cause_and_the_excerpt
    message, = round_trip("{\"card\":\"#{CARD}\"#{FORGED}")
    parse = ->(it) { JSON.parse(it.raw_payload) }
    error = assert_raises(Pelton::DecodeError) { Pelton::Deserializing.payload(parse, message) }
    refute_match(/4111|forged|\n/, error.message)
    assert_match(/JSON::ParserError at \S+\.rb:\d+\z/, error.message)
    refute_match(/[\n\e]/, error.excerpt)
    assert_kind_of JSON::ParserError, error.cause
  end

  def test_arguments_of_produce_are_not_in_the_error
    writer = Pelton::Producer.new(Pelton::Config.new.tap { |config| config.kafka = server }.freeze)
    topic = new_topic
    [{ payload: { card: CARD } }, { payload: CARD.to_i }, { payload: "x", key: [CARD] },
     { payload: "x", key: CARD.to_i }, { payload: "x", headers: { "card" => CARD.to_i } },
     { payload: "x", headers: [CARD] },
     { payload: "x", headers: { CARD.to_i => "x" } }, { payload: "x", headers: { "a\0#{CARD}" => "x" } },
     { payload: "x", partition_key: [CARD] }, { payload: "x", headers: { "a" => [CARD.to_i] } }].each do |message|
      assert_private(assert_raises(Pelton::InvalidMessageError, message.inspect) do
        writer.produce_sync(topic: topic, **message)
      end)
    end
    assert_private(assert_raises(Pelton::InvalidMessageError) { writer.produce_many_sync([CARD]) })
    assert_private(assert_raises(Pelton::InvalidMessageError) { writer.tombstone_sync(topic: topic, key: CARD.to_i) })
  ensure
    writer&.close(timeout: 1)
  end

  def test_values_that_do_not_fit_a_schema_are_not_in_the_error
    schema = Pelton::Registry::Schema.new(SCHEMA)
    sound = { "card" => 1, "kind" => "A", "tags" => {} }
    [{ "card" => CARD }, { "card" => CARD.to_i }, { "card" => CARD.to_f }, { "kind" => CARD }, { "kind" => CARD.to_i },
     { "tags" => { CARD => CARD } }, { "tags" => { CARD.to_i => 1 } }, { "tags" => [CARD] },
     { "card" => CARD.encode(Encoding::UTF_16LE) }].each do |change|
      error = assert_raises(Pelton::EncodeError, change.inspect) { schema.encode(sound.merge(change)) }
      assert_private(error)
    end
  end

  def test_no_log_has_a_line_that_a_text_forged
    bus = Pelton::Notifications.new
    bus.subscribe(Pelton::Reporters::Log.new(io = StringIO.new))
    config = Pelton::Config.new
    Pelton::FailureLog.new(config, bus).then { config.logger = Pelton::DefaultLogger }
    old = $stderr
    $stderr = StringIO.new
    texts = ["a#{FORGED}", "a#{FORGED}".encode(Encoding::UTF_16LE), "\xFF#{FORGED}".b]
    texts.each_with_index do |text, index|
      bus.publish("error.occurred", error: IOError.new(text), source: "a#{index}", group: "g#{FORGED}", topic: text)
      bus.publish("kafka.log", client: "c#{index}", level: 3, facility: "F#{index}", message: text)
      bus.publish("message.dead_lettered", group: "g", topic: "t#{index}", partition: 0, offset: 1, attempts: 1,
                                           error: text, failure_id: "x", to: "d")
    end
    [io.string, $stderr.string].each do |written|
      assert_equal 9, written.lines.size, written
      assert(written.lines.all? { |line| line.match?(/\A\d{4}-\d\d-\d\dT\S+Z (WARN|ERROR) +pelton\[/) })
      refute_match(/\e/, written)
    end
  ensure
    $stderr = old
  end

  # A broker's, or its SASL mechanism's.
  def test_a_brokers_text_is_escaped_in_the_error
    error = Pelton::KafkaError.new(-169, :_AUTHENTICATION, "SASL authentication error: no#{FORGED}")
    refute_match(/[\n\e]/, error.message)
    refute_match(/[\n\e]/, error.reason)
  end
end
