# frozen_string_literal: true

# once: the parser is native, whatever the Ruby

require "support/scenario"

# A payload that is not JSON raises the error of JSON.parse when it is read, and the error says where. The other
# messages of its batch are unharmed. Elsewhere one bad message discarded its whole batch.

GOOD = '{"good":true}'
DOCUMENTS = [
  '{"cut":', '{"a":1', "[1,2", '"open', "tru", "", " ", "{}x", "[1,]", '{"a":1,}', "{'a':1}", "nul", "\u0000",
  "#{"[" * 1000}#{"]" * 1000}", "#{'{"a":' * 1000}1#{"}" * 1000}", "#{"[" * 100}#{"]" * 100}",
  "#{"[" * 101}#{"]" * 101}",
  "\"\xFF\xFE\"", "{\"a\":\"\xC3\"}", "\"\xED\xA0\x80\"", "\xEF\xBB\xBF{}", "{\"\xFF\":1}",
  "1#{"0" * 400}", "-1#{"0" * 400}", "[1#{"0" * 400}]", "1e400", "-1e400", "1e-400", "0.1e1", "-0", "-0.0",
  "01", "1.", ".5", "+1",
  "9007199254740993.0", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
  "123456789012345678901234567890",
  '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"\\ud83d\\ue000"', '"\\q"', '"\\u12"', "\"a\nb\"",
  "\"a\tb\"", "\"\u007F\"",
  '{"a":1,"a":2,"a":{"b":3}}', '{"":1}', '{"":{"":""}}', '{"a":{"a":{"a":null}}}', "[]", "{}", "null", "true", "0",
  '""',
  "/* c */ {}", "{} // c", "NaN", "Infinity", "-Infinity", "[NaN]", "\t{\r\n} ", '{"a":1}{"b":2}', "{\"\\u0061\":1}",
  '{"json_class":"String"}', "\"#{"é" * 50_000}\"", "[#{(["1.5"] * 50_000).join(",")}]"
].freeze

Scenario.run do
  name = topic(settings: { "max.message.bytes" => "40000000" })
  huge = "{\"text\":\"#{"x" * 10_000_000}\",\"list\":[#{(["12345"] * 1_600_000).join(",")}],\"last\":\"here\"}"
  check(huge.bytesize > 19_000_000, "a huge document")
  documents = DOCUMENTS.map(&:b) + [huge, huge[0..-2]]
  # Each among good neighbours: good, bad, good, bad … good.
  payloads = [GOOD, *documents.flat_map { |document| [document, GOOD] }]
  writer = app(kafka: { "message.max.bytes" => 40_000_000, "queue.buffering.max.kbytes" => 200_000 })
  writer.producer.produce_many_sync(payloads.map { |payload| { topic: name, payload: payload } })

  Warning[:deprecated] = false # newer versions of json warn about duplicate keys
  parsed = payloads.map do |payload|
    [:value, JSON.parse(payload.dup.force_encoding(Encoding::UTF_8))]
  rescue JSON::JSONError, EncodingError, ArgumentError => e
    [:error, e.class]
  end
  # Inspected, since neither -0.0 nor NaN is told by ==.
  expected = parsed.map { |kind, result| [kind, result.inspect] }
  check(expected.count { |kind, _| kind == :error }.between?(30, 60), "a good part of the documents is bad")

  big = { "fetch.message.max.bytes" => 60_000_000, "receive.message.max.bytes" => 200_000_000 }
  read_payload = lambda do |message|
    [:value, message.payload.inspect]
  rescue Pelton::DecodeError => e
    check(e.message.include?("#{name}/0 offset #{message.offset}"), "the error says where: #{e.message}")
    equal([name, 0, message.offset], [e.topic, e.partition, e.offset], "the facts of the error")
    [:error, e.cause.class]
  end

  [:json, nil].each do |decoding|
    raised = nil
    seen = Thread::Queue.new
    reader = consumer do
      before = messages.map(&:raw_payload) # reads every message, but decodes none
      messages.each_with_index do |message, index|
        seen << [message.offset, read_payload.(message).map do |fact|
                                   fact.is_a?(Class) ? fact.inspect : fact
                                 end, before[index]]
      end
    rescue StandardError => e
      raised = e
    end
    app = app(group: unique("group"), kafka: big) { topic(name, to: reader) { decode(decoding) if decoding } }
    app.start
    all = take(seen, payloads.size, 40)
    equal(true, app.stop, "stop")
    raise raised if raised

    equal((0...payloads.size).to_a, all.map(&:first), "each message once, in order")
    all.each do |offset, outcome, raw|
      shown = payloads[offset].byteslice(0, 60).inspect
      check(expected[offset] == outcome,
            "#{shown}: JSON.parse #{expected[offset].inspect[0, 200]}, Pelton #{outcome.inspect[0, 200]}")
      check(payloads[offset].b == raw, "the raw payload of #{shown}")
    end
    equal([], events(app, "error.occurred").map { |event| event[:error].message }, "errors")
  end

  # One field of a document. What is bad raises, what is good answers.
  answers = read(name, 1, payloads.size, big.transform_values(&:to_s)).map do |_, message|
    [:value, message.dig("last"), message.dig("good"), message.dig("no", 0, "such")]
  rescue Pelton::DecodeError
    [:error]
  rescue TypeError
    [:no_container]
  end
  parsed.zip(answers).each_with_index do |((kind, value), answer), offset|
    wanted = if kind == :error then [:error]
             elsif value.is_a?(Hash) then [:value, value["last"], value["good"], nil]
             else [:no_container]
             end
    answer = [:no_container] if wanted == [:no_container] && answer == [:value, nil, nil, nil] # a scalar has no fields
    equal(wanted, answer, "dig in #{payloads[offset].byteslice(0, 60).inspect}")
  end

  # `then: :skip` skips those that cannot be read, and only those.
  good = Thread::Queue.new
  skipping = consumer do
    messages.each do |message|
      message.payload
      good << message.offset
    end
  end
  last = app(group: group = unique("group"), kafka: big) do
    topic(name, to: skipping) do
      decode :json
      retries 1, backoff: 0..0, then: :skip
    end
  end
  last.start
  bad = expected.each_index.select { |offset| expected[offset][0] == :error }
  eventually(30, "the end of the topic") do
    committed(group, name, 1) == [payloads.size] || last.server.status != :running
  end
  equal(true, last.stop, "stop")
  skipped = events(last, "message.skipped")
  equal(bad, skipped.map { |event| event[:offset] }, "what was skipped")
  equal([Pelton::DecodeError], skipped.map { |event| event[:error].class }.uniq, "why")
  seen = Array.new(good.size) { good.pop }
  equal((0...payloads.size).to_a - bad, seen.uniq.sort, "all others were seen")
end
