# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "date"
require "set"
begin
  require "bigdecimal"
rescue LoadError
  nil # a gem from Ruby 3.4 on
end
require "pelton/cli/messages/json_input"
require "pelton/cli/messages/json_line"
require "pelton/cli/messages/line_format"
require "pelton/cli/messages/lines"
require "pelton/cli/messages/message_text"
require "pelton/cli/messages/sent_lines"
require "pelton/cli/output"
require "stringio"

# Messages as lines: what `pelton consume` prints and `pelton produce` reads.
class MessageLinesTest < Minitest::Test
  CLI = Pelton::CLI
  Part = CLI::MessagePart

  class TerminalIO < StringIO
    def tty? = true
  end

  def consumed(payload, key: nil, headers: {}, timestamp_ms: 1_700_000_000_123)
    Fakes::Message.new("orders", 3, 42, payload, key: key, headers: headers, timestamp_ms: timestamp_ms)
  end

  def line(message, payload = Part.new(message.raw_payload), key = Part.new(message.raw_key))
    CLI::JsonLine.of(message, key, payload)
  end

  # --- a message as a line of JSON, and back ---

  def test_line_has_the_documented_fields
    message = consumed('{"total":12.5}', key: "7", headers: { "trace" => "42", "tags" => ["a", nil] })
    assert_equal '{"topic":"orders","partition":3,"offset":42,"timestamp":"2023-11-14T22:13:20.123Z","key":"7",' \
                 '"headers":{"trace":"42","tags":["a",null]},"payload":{"total":12.5}}',
                 line(message, Part.new(message.raw_payload, value: { "total" => 12.5 }))
  end

  BYTES = [nil, "", "null", "true", "false", "12", "1.0", "1e2", '"text"', "text", "a\nb\e[2J\u0000", '{"a":1}',
           '{ "a" : 1 }', "{\"a\":\"\u00e9\\u00e9\"}", "[]", "{\"a\":1,\"a\":2}", "\xff\x00".b, "\xff", "\u2028", "{",
           "9" * 400, '"\ud800"', "{\"a\":\"\xff\"}", "x" * 100_000,
           "#{"[" * 100}#{"]" * 100}"].freeze

  # Later versions of json warn of a name that comes twice.
  TWICE = Gem::Version.new(JSON::VERSION) < Gem::Version.new("2.13") ? {} : { allow_duplicate_key: true }

  def decoded(bytes)
    bytes ? Part.new(bytes, value: JSON.parse(bytes, TWICE)) : Part.new(nil)
  rescue JSON::ParserError, EncodingError
    Part.new(bytes)
  end

  def test_no_byte_of_payloads_and_keys_is_lost
    BYTES.each do |bytes|
      [decoded(bytes), Part.new(bytes), Part.new(bytes, value: bytes&.unpack1("H*")),
       Part.new(bytes, value: { 1 => Float::NAN, at: Time.at(0), "\xff" => "\xff".b })].each do |part|
        read = CLI::JsonInput.new(line(consumed(bytes, key: bytes), part, part)).message
        assert_equal [bytes&.b, bytes&.b], [read[:payload], read[:key]], bytes.inspect[0, 80]
      end
    end
  end

  PIECES = ["{", "}", "[", "]", '"', "\\", "\\u00e9", "\\ud83d", "\u00e9", "\u{1F600}", "\xff", "\x00", "1", "-0",
            "0.1", "1e5", "null", "true", ",", ":", " ", "\n", '{"a":', "\u2028", "NaN"].map(&:b).freeze

  def random_part(random)
    return if random.rand(9).zero?
    return random.bytes(random.rand(20)) if random.rand(3).zero?

    Array.new(random.rand(9)) { PIECES.sample(random: random) }.join
  end

  def test_no_byte_of_random_parts_is_lost
    random = Random.new(7)
    2000.times do
      key, payload, *values = Array.new(5) { random_part(random) }
      message = consumed(payload, key: key, headers: { "one" => values[0], "two" => values })
      read = CLI::JsonInput.new(line(message, decoded(payload), decoded(key))).message
      found = [read[:key], read[:payload], read[:headers]["one"], *read[:headers]["two"]]
      assert_equal([key, payload, values[0], *values].map { |part| part&.b }, found.map { |part| part&.b })
    end
  end

  def test_no_byte_of_headers_is_lost
    headers = { "text" => "1", "none" => nil, "empty" => "", "many" => ["a", nil, "a"], "bin" => "\xff\x00".b,
                "mixed" => ["a", "\xfe".b, nil], "\u00fc" => "\u00fc" }
    read = CLI::JsonInput.new(line(consumed("", headers: headers))).message[:headers]
    bytes = ->(value) { value.is_a?(Array) ? value.map { |text| text&.b } : value&.b }
    assert_equal headers.transform_values(&bytes), read.transform_values(&bytes)
    fields = JSON.parse(line(consumed("", headers: headers)))
    assert_equal %w[bin mixed], fields["headers_base64"].keys
    assert_equal ["YQ==", "/g==", nil], fields["headers_base64"]["mixed"]
    assert_equal({}, JSON.parse(line(consumed("")))["headers"])
    assert_equal ["bad\uFFFD"], JSON.parse(line(consumed("", headers: { "bad\xff" => "1" })))["headers"].keys
  end

  def test_partition_and_timestamp_survive
    [1, 1_700_000_000_123, 253_402_300_799_999, 253_402_300_800_000, 9_000_000_000_000_000].each do |milliseconds|
      read = CLI::JsonInput.new(line(consumed("x", timestamp_ms: milliseconds))).message
      time = read[:timestamp]
      assert_equal milliseconds, time.is_a?(Time) ? (time.to_r * 1000).to_i : time
      assert_equal 3, read[:partition]
    end
    refute CLI::JsonInput.new(line(consumed("x", timestamp_ms: -1))).message.key?(:timestamp)
  end

  def test_line_says_why_a_part_is_not_decoded
    part = Part.new("\xff".b, error: "payload cannot be decoded")
    assert_equal({ "payload_base64" => "/w==", "payload_error" => "payload cannot be decoded" },
                 JSON.parse(line(consumed("\xff".b), part)).slice("payload", "payload_base64", "payload_error"))
  end

  def test_values_of_decoders_become_plain_json
    struct = Struct.new(:id)
    { nil => nil, 7 => 7, 1.5 => 1.5, Float::INFINITY => "Infinity", :a => "a", "\xff".b => { "base64" => "/w==" },
      "\u00e9".b => "\u00e9", [1, [:b]] => [1, ["b"]], { 1 => 2, b: 3 } => { "1" => 2, "b" => 3 },
      Time.at(1, 500, :microsecond) => "1970-01-01T00:00:01.000500Z", Time.at(1) => "1970-01-01T00:00:01.000Z",
      Date.new(2026, 11, 23) => "2026-11-23", struct.new(7) => { "id" => 7 },
      1r => "1/1" }.each do |value, plain|
      plain.nil? ? assert_nil(CLI::Plain.of(value)) : assert_equal(plain, CLI::Plain.of(value))
    end
  end

  def test_decimals_become_text
    skip "no gem bigdecimal for this Ruby" unless defined?(::BigDecimal)
    assert_equal "12.5", CLI::Plain.of(BigDecimal("12.50"))
    assert_equal "0.000000000000000000001", CLI::Plain.of(BigDecimal("1e-21"))
  end

  def test_wrong_lines_are_refused_with_the_field
    { "" => /the line: is not valid JSON/, "nope" => /the line: is not valid JSON/, "[]" => /expected a JSON object/,
      "7" => /expected a JSON object/, "{\"payload\":\"\xff\"}" => /the line: is not valid UTF-8/,
      "{}" => /payload: is missing: use null for a tombstone/,
      '{"payload":1,"paylod":2}' => /paylod: unknown field of the line, did you mean payload\?/,
      '{"payload":1,"partition":-1}' => /partition = -1: expected an Integer >= 0/,
      '{"payload":1,"partition":"1"}' => /partition = "1"/,
      '{"payload":1,"timestamp":"yesterday"}' => /timestamp = "yesterday": expected ISO 8601/,
      '{"payload":1,"headers":[]}' => /headers: expected an object/,
      '{"payload":1,"headers":{"a":1}}' => /headers: expected an object/,
      '{"payload":1,"headers":{"a":["b",{}]}}' => /headers: expected an object/,
      '{"payload":1,"headers_base64":{"a":"%"}}' => /headers_base64: is not valid base64/,
      '{"payload_base64":"%"}' => /payload_base64: is not valid base64/,
      '{"payload_hex":"abc"}' => /payload_hex: is not valid hex/,
      '{"payload_text":7}' => /payload_text: expected a String/,
      "{\"payload\":#{"[" * 200}#{"]" * 200}}" => /the line: is not valid JSON/,
      '{"payload":1,"key_base64":null}' => /key_base64: expected a String/ }.each do |text, error|
      found = assert_raises(Pelton::ConfigError, text) { CLI::JsonInput.new(text.b).message }
      assert_match error, found.message
    end
    assert_equal "\xAB".b, CLI::JsonInput.new('{"payload_hex":"aB","payload":1}').message[:payload]
  end

  def test_number_beyond_float_is_refused_and_not_changed
    capture_io do # Ruby warns about the number
      error = assert_raises(Pelton::ConfigError) { CLI::JsonInput.new('{"payload":[1e400]}').message }
      assert_match(/payload: has a number or text that JSON cannot express: use payload_text/, error.message)
      assert_equal "1e400", CLI::JsonInput.new(line(consumed("1e400"), decoded("1e400"))).message[:payload]
    end
  end

  class Endless
    def to_h = { again: self }
  end

  class Raising
    def to_s = raise("no text")
  end

  # A deserializer may return anything.
  def test_objects_without_json_are_shown
    cyclic = []
    cyclic << cyclic
    pair = Struct.new(:a)
    { Set[1, :b] => [1, "b"], (1..) => "1..", pair.new(nil) => { "a" => nil },
      Raising.new => "#<MessageLinesTest::Raising>", 3r => "3/1" }.each do |value, shown|
      assert_equal shown, CLI::Plain.of(value)
      assert_equal "x", JSON.parse(line(consumed("x"), Part.new("x", value: value)))["payload_text"]
    end
    [cyclic, { a: cyclic }, Endless.new].each do |value|
      written = line(consumed("x"), Part.new("x", value: value))
      assert_includes written, '"(nested too deeply)"'
      assert_equal "x", CLI::JsonInput.new(written).message[:payload]
    end
  end

  # --- a message on a terminal ---

  def block(message, payload, color: true)
    output = CLI::Output.new(color ? TerminalIO.new : StringIO.new, env: {})
    CLI::MessageText.new(output).of(message, Part.new(message.raw_key), payload)
  end

  def test_terminal_gets_a_block_with_color
    message = consumed("", key: "7", headers: { "trace" => "42", "tags" => %w[a b], "none" => nil })
    assert_equal "\e[1morders/3 offset 42\e[0m  \e[2m2023-11-14T22:13:20.123Z\e[0m  key \e[33m7\e[0m  " \
                 "\e[2mtrace=42\e[0m  \e[2mtags=a\e[0m  \e[2mtags=b\e[0m  \e[2mnone\e[0m\n" \
                 "{\n  \"a\": [\n    \e[33m1\e[0m,\n    \e[32m\"b: \\\"c\\\"\"\e[0m,\n    \e[33mnull\e[0m\n  ]\n}",
                 block(message, Part.new("", value: { "a" => [1, "b: \"c\"", nil] }))
    assert_equal "orders/3 offset 42  no timestamp\ntombstone",
                 block(consumed(nil, timestamp_ms: -1), Part.new(nil), color: false)
  end

  # A message could move the cursor, change the title of the window, or hide text.
  def test_no_message_can_control_the_terminal
    evil = "\e]0;title\a\e[2J\u009b31m\u202e\r\n\x7f"
    message = consumed(evil, key: evil, headers: { evil => evil, "bin" => "\xff\e".b })
    [Part.new(evil), Part.new(evil, value: evil), Part.new(evil, value: { evil => [evil] }), Part.new("\xff\e".b),
     Part.new(evil, error: evil)].each do |part|
      text = block(message, part, color: false)
      refute_match(/[\e\a\r\u007f\u0080-\u009f\u202e]/, text)
      assert_operator text.lines.size, :<=, 7
    end
  end

  # One text would have two encodings.
  def test_headers_with_names_and_values_of_any_bytes_are_shown
    message = consumed("", headers: { "\u00e9" => "\xff".b, "\xfe".b => "\u00e9", "both\xfe".b => ["\xff".b, nil] })
    text = block(message, Part.new(""), color: false)
    assert_includes text, "\u00e9=\\xFF  \\xFE=\u00e9  both\\xFE=\\xFF  both\\xFE"
    row = JSON.parse(line(message))
    assert_equal({ "\ufffd" => "\u00e9" }, row["headers"])
    assert_equal({ "\u00e9" => "/w==", "both\ufffd" => ["/w==", nil] }, row["headers_base64"])
  end

  # With --json on a terminal. Programs read the same line.
  def test_json_line_for_a_terminal_means_the_same
    text = line(consumed("\u009b31m\u007f\u202e\e\u2028", key: "\u0085"))
    assert_match(/[\u007f\u0085\u009b\u202e]/, text)
    safe = CLI::JsonLine.for_terminal(text)
    refute_match(/[\u0000-\u001f\u007f-\u009f\u2028\u202e]/, safe)
    assert_equal JSON.parse(text), JSON.parse(safe)
  end

  # --- lines of an input ---

  # Returns these pieces, one per read.
  class Pieces
    def initialize(*pieces) = @pieces = pieces
    def readpartial(_size) = @pieces.shift&.dup || raise(EOFError)
  end

  def lines(*pieces) = [].tap { |all| CLI::Lines.new(Pieces.new(*pieces)).each { |some| all << some } }

  def test_eof_error_of_the_block_is_not_the_end_of_the_input
    failing = ->(_) { raise EOFError }
    assert_raises(EOFError) { CLI::Lines.new(Pieces.new("a\n", "b\n")).each(&failing) }
  end

  def test_lines_come_as_they_arrive
    assert_equal [], lines
    assert_equal [["a"]], lines("a")
    assert_equal [["a"]], lines("a\n")
    assert_equal [["a", "b"], ["cd", "", "e"], ["f"]], lines("a\nb\nc", "d\n\ne\n", "f")
    assert_equal [[""]], lines("\n")
    assert_equal [["", ""], ["x\r"]], lines("\n\n", "x\r\n")
    assert_equal [["\xC3\xA9".b]], lines("\xC3", "\xA9", "\n")
    assert_equal Encoding::BINARY, lines("a\n").first.first.encoding
    big = "x" * 1_000_000
    assert_equal [[big], ["y"]], lines(*"#{big}\ny".scan(/.{1,4096}\n?/m))
  end

  # --- lines become messages ---

  def format(**options) = CLI::LineFormat.new("t", **options)

  def test_options_shape_the_message
    assert_equal({ topic: "t", payload: "a:b" }, format.message("a:b"))
    assert_equal({ topic: "t", payload: "b:c", key: "a" }, format(key_separator: ":").message("a:b:c"))
    assert_equal({ topic: "t", payload: "", key: "" }, format(key_separator: "::").message("::"))
    assert_equal({ topic: "t", payload: nil, key: "a" }, format(key_separator: ":", null_value: "-").message("a:-"))
    assert_equal({ topic: "t", payload: "x", key: "k", partition: 3, headers: { "h" => "1" } },
                 format(key: "k", partition: 3, headers: { "h" => "1" }).message("x"))
    assert_equal "\xAB".b, format(format: "hex").message("ab")[:payload]
    assert_equal "[1]", format(format: "json").message("[1]")[:payload]
    json = '{"payload":1,"key":"own","partition":5,"headers":{"h":"2","i":"3"}}'
    assert_equal({ topic: "t", payload: "1", key: "own", partition: 5, headers: { "h" => "2", "i" => "3" } },
                 format(json_lines: true, key: "k", headers: { "h" => "1" }).message(json))
    assert_equal 4, format(json_lines: true, partition: 4).message(json)[:partition]
    refute format(json_lines: true, partition: :auto).message(json).key?(:partition)
  end

  def test_lines_that_do_not_fit_are_refused
    { { key_separator: ":" } => /--key-separator = ":": is not in the line/,
      { format: "json" } => /the line: is not valid JSON/,
      { format: "hex" } => /the line: is not hexadecimal/,
      { json_lines: true } => /the line: is not valid JSON/ }.each do |options, error|
      found = assert_raises(Pelton::ConfigError) { format(**options).message("xyz") }
      assert_match error, found.message
    end
    assert_match(/UTF-8/, assert_raises(Pelton::ConfigError) { format(format: "json").message("\xff".b) }.message)
  end

  def test_options_that_exclude_each_other_are_refused
    url = "http://127.0.0.1:1"
    { { registry: url, format: "json" } => /--registry: works only with --format avro/,
      { format: "avro" } => /--format avro: needs --registry URL/,
      { subject: "x" } => /--subject: works only with --format avro/,
      { json_lines: true, key_separator: ":" } => /--json-lines: cannot be combined with --key-separator/,
      { json_lines: true, null_value: "" } => /--json-lines: cannot be combined with --null-value/,
      { json_lines: true, format: "hex" } => /--json-lines: works with --format avro only/ }.each do |options, error|
      assert_match error, assert_raises(Pelton::ConfigError) { format(**options) }.message
    end
  end

  # --- what became of the lines ---

  # A producer that takes `room` messages per call and refuses payloads "bad" at once and "lost" later.
  class Producer
    attr_reader :taken

    def initialize(room) = (@room = room) && @taken = []

    def produce_many_async(messages)
      bad = messages.index { |message| message[:payload] == "bad" }
      raise Pelton::InvalidMessageError.new(:payload, "bad", "better ones", bad) if bad

      @taken.concat(messages.first(@room).map { |message| message[:payload] })
      reports = messages.each_with_index.map { |message, index| ["t", 0, 1, failure(message, index)] }
      delivery = Struct.new(:reports) { def done? = true }.new(reports)
      raise Pelton::QueueFullError.new("t", 1, delivery) if messages.size > @room

      delivery
    end

    def flush = true

    private

    def failure(message, index)
      return Pelton::DeliveryError.new(-184, :_QUEUE_FULL, "full") if index >= @room

      Pelton::DeliveryError.new(10, :MSG_SIZE_TOO_LARGE, "too large") if message[:payload] == "lost"
    end
  end

  def numbered(payloads)
    payloads.each_with_index.map { |payload, index| [index + 1, { topic: "t", payload: payload }] }
  end

  def test_lines_that_the_queue_did_not_take_are_returned_when_the_user_stops
    sent = CLI::SentLines.new(Producer.new(2)) { flunk }
    assert_equal [3, 4], sent.add(numbered(%w[a b c d])) { true }.map(&:first)
    sent.finish
    assert_equal [2, 0], [sent.delivered, sent.failed]
  end

  def test_each_line_has_one_result_also_when_the_queue_is_full
    failures = []
    producer = Producer.new(2)
    sent = CLI::SentLines.new(producer) { |line, reason| failures << [line, reason[/better|large/]] }
    payloads = %w[a bad b lost c d bad]
    assert_empty(sent.add(numbered(payloads)) { false })
    sent.finish
    assert_equal %w[a b lost c d], producer.taken
    assert_equal [4, 3], [sent.delivered, sent.failed]
    assert_equal [[2, "better"], [4, "large"], [7, "better"]], failures.sort
  end
end
