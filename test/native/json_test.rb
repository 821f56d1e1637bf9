# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# What the extension builds from JSON is what JSON.parse gives, and dig is Ruby's dig on that.
class NativeJsonTest < Minitest::Test
  include NativeKit

  DATA = File.expand_path("../../../shared/data", __dir__)

  DOCUMENTS = ["{}", "[]", "null", "true", "false", "0", "-0", "1.5", '""', '"a"', '{"a":null}', "[[[[]]]]",
               '{"":{"":[]}}', '{"a":1,"b":2,"a":3}', '["\u0000"]', '{"é":"ü","日本":"語"}',
               "[9007199254740993,9223372036854775807,-9223372036854775808,4611686018427387904,-4611686018427387905]",
               "[1e3,1E-3,0.1,-0.0,5e-324,1.7976931348623157e308,123456789.125]",
               '"\u00e9\ud83d\ude00\n\t\"\\\\\/"',
               "0.0053463368124240540",
               " \t\r\n{ \"a\" : [ 1 , 2 ] } \n",
               "[#{(["1"] * 300).join(",")}]",
               "{#{Array.new(50) { |i| "\"key#{i}\":#{i}" }.join(",")}}",
               "{#{Array.new(9) { |i| "\"k\":#{i}" }.join(",")}}",
               "#{"[" * 100}#{"]" * 100}", "\"#{"x" * 100_000}\"", "{\"#{"k" * 300}\":1}"].freeze
  # Keys that differ in one byte, wherever that is.
  KEYS = [*1..17, 30, 64, 65].flat_map { |size| Array.new(size) { |at| ("k" * size).tap { _1[at] = "x" } } }.freeze
  # What only Ruby decides: values that the native side leaves to it, and errors.
  DOUBTFUL = ["18446744073709551616", "[123456789012345678901234567890]", "1e400", "[-1e999]", "/* c */ [1]",
              "[1] // c",
              "[NaN]", "", " ", "[1", "{\"a\":}", "[1,]", "nul", "{1:2}", "[1]x", "\"\\ud800\"", "\"\\q\"", "\"\x01\"",
              "\xEF\xBB\xBF[]", "\"\xff\"", "[\"a\xC3\"]", "#{"[" * 101}#{"]" * 101}", "01", "[+1]", "'a'", ".5", "1.",
              "\xff\xfe[\x00]\x00", '"\ud83d\ue000"', '"\ud83d\ud7ff"'].freeze # (half a pair: newer versions refuse it)

  def test_payloads_equal_the_result_of_json_parse
    [true, false].each do |ahead|
      compare(DOCUMENTS, ahead: ahead) { |document, message| assert_same_value parse(document), message.payload }
    end
  end

  def test_nearly_equal_keys_are_distinguished
    document = "{#{KEYS.map { |key| "\"#{key}\":\"#{key}\"" }.join(",")}}"
    2.times { assert_same_value KEYS.to_h { |key| [key, key] }, round_trip(document).first.payload }
    names = Pelton::Native.decode({ format: :json, symbolize_names: true }, document)
    assert_same_value(KEYS.to_h { |key| [key.to_sym, key] }, names)
  end

  def test_strings_are_as_json_parse_makes_them
    document = '{"a":"é","b":"plain","c":["\u00e9"],"":""}'
    made = round_trip(document).first.payload
    expected = JSON.parse(document)
    strings = ->(value) { [value.keys, value.values].flatten }
    assert_equal strings.call(expected).map(&:encoding), strings.call(made).map(&:encoding)
    assert_equal strings.call(expected).map(&:valid_encoding?), strings.call(made).map(&:valid_encoding?)
    assert_equal strings.call(expected).map(&:ascii_only?), strings.call(made).map(&:ascii_only?)
    assert made.keys.all?(&:frozen?)
    refute_predicate made, :frozen?
    refute_predicate made["b"], :frozen?
    made["b"] << "!"
    assert_equal "plain!", made["b"]
  end

  def test_documents_that_the_native_parser_leaves_get_rubys_value_or_error
    [true, false].each do |ahead|
      compare(DOUBTFUL, ahead: ahead) do |document, message|
        expected = outcome { JSON.parse(document.dup.force_encoding("UTF-8")) }
        found = outcome { message.payload }
        if expected.first == :error
          assert_equal :error, found.first, document.inspect
          assert_instance_of Pelton::DecodeError, found.last, document.inspect
          assert_equal [message.topic, 0, message.offset], [found.last.topic, found.last.partition, found.last.offset]
          assert_kind_of expected.last.class, found.last.cause
          assert_raises(Pelton::DecodeError) { message.dig("a") }
        else
          assert_same_value expected.last, found.last
        end
      end
    end
  end

  def test_files
    skip "no #{DATA}" unless File.directory?(DATA)
    files = Dir.glob(File.join(DATA, "*.json"))
    texts = files.map { |file| File.binread(file) }
    texts.zip(files) do |text, file|
      [{}, { decode: :json }].each do |options|
        made = read([text], ahead: options.any?).first
        expected = JSON.parse(text.dup.force_encoding("UTF-8"))
        assert expected == made.payload, file
        random_paths(expected, Random.new(1), 20).each { |path| assert_same_dig(expected, made, path) }
      end
    end
    assert_operator files.size, :>, 5
  end

  def test_a_document_by_itself
    ['{"a":[1,2.5,"é",null,true,{}],"b":{"c":-1}}', "[]", "7", '"x"', " null ", '{"a":1e400}'].each do |document|
      expected = [JSON.parse(document)]
      assert_equal expected, [Native.parse_json(document)], document
      assert_equal expected, [Native.parse_json(document.b.freeze)], document
    end
    ["", "{", '{"a":}'].each { |broken| assert_raises(Pelton::DecodeError) { Native.parse_json(broken) } }
    [nil, 7, :a].each { |other| assert_raises(TypeError) { Native.parse_json(other) } }
  end

  def test_random_documents_and_paths
    random = Random.new(Integer(ENV.fetch("SEED", 7)))
    3.times do |round|
      values = Array.new(700) { random_value(random, 0) }
      fresh = read(values.map { |value| JSON.generate(value) }, ahead: round.odd?)
      values.zip(fresh) do |value, message|
        expected = JSON.parse(JSON.generate(value))
        paths = random_paths(expected, random, 5)
        paths.each { |path| assert_same_dig(expected, message, path) }
        assert_same_value expected, message.payload
        paths.each { |path| assert_same_dig(expected, message, path) }
      end
    end
  end

  def test_dig_in_every_kind_of_value
    document = '{"a":{"b":[10,{"c":null}]},"n":1,"s":"x","f":1.5,"t":true,"z":null,"":{"":7},"é":8}'
    steps = ["a", "b", "n", "s", "f", "t", "z", "", "é", "none", 0, 1, -1, -3, 5, 1.9, nil, :a, 2**70,
             "a".encode("UTF-16LE"),
             "é".encode("ISO-8859-1"), "é".b, "".encode("UTF-16LE"), Class.new(String).new("a"), Object.new, [], true]
    paths = steps.flat_map do |step|
      [[step], ["a", step], ["a", "b", step], ["a", "b", 1, step], [step, step], ["z", step]]
    end
    plain = JSON.parse(document)
    fresh = read([document] * paths.size, ahead: true)
    paths.zip(fresh) { |path, message| assert_same_dig(plain, message, path) }
    fresh.each(&:payload)
    paths.zip(fresh) { |path, message| assert_same_dig(plain, message, path) }
    ["1", '"x"', "true", "null", "[1]", "1.5"].each do |scalar|
      message = read([scalar], ahead: true).first
      [["a"], [0], [0, 1]].each { |path| assert_same_dig(JSON.parse(scalar), message, path) }
    end
    assert_raises(ArgumentError) { fresh.first.dig }
    assert_nil round_trip([nil]).first.dig("a")
  end

  # They were decoded anew at each read. The comment makes Ruby's own parser do it, which can be counted.
  def test_false_null_numbers_and_errors_are_kept_too
    documents = ["false", "null", "7", "1.5", "true", "18446744073709551616", '"x"'].map { |text| "/* c */ #{text}" }
    good = read(documents, ahead: true)
    bad = read(["[1", "nul", "\xff"], ahead: true)
    parsed = counting_parses do
      2.times do
        documents.zip(good) { |document, message| assert_same_value JSON.parse(document), message.payload }
        assert_nil good[1].dig("a")
        assert_raises(TypeError) { good.first.dig("a") }
        bad.each { |message| [-> { message.payload }, -> { message.dig(0) }].each { |read| assert_undecodable(read) } }
        GC.start
        GC.compact if GC.respond_to?(:compact)
      end
    end
    assert_equal good.size + bad.size, parsed
  end

  def test_a_kept_error_is_raised_where_it_is_read
    message = read(["[1"], ahead: false).first
    first = assert_raises(Pelton::DecodeError) { message.payload }
    second = assert_raises(Pelton::DecodeError) { message.payload }
    refute_same first, second
    assert_equal [first.message, first.topic, 0, 0], [second.message, second.topic, second.partition, second.offset]
    lines = [first, second].map { |error| error.backtrace.grep(/#{__FILE__}/).first[/:(\d+):/, 1].to_i }
    assert_equal 1, lines.last - lines.first, "each has a backtrace of its own"
  end

  def test_dig_builds_nothing_else
    # The Strings of a path are made before; what is dug out is a small number.
    message = read(["{\"big\":[#{(['"x"'] * 5000).join(",")}],\"a\":{\"b\":7}}"], ahead: true).first
    message.dig("a", "b")
    assert_operator allocations { assert_equal 7, message.dig("a", "b") }, :<, 20
  end

  def test_payloads_of_kept_messages_after_the_release
    batch = batches(topic_of_all(Array.new(100) { |i| "{\"i\":#{i}}" }), 100, options: { decode: {} }).first
    kept = batch.messages.last(1)
    offset = kept.first.offset
    batch.release
    batch = nil
    3.times { GC.start }
    assert_nil batch
    assert_equal [{ "i" => offset }, offset], [kept.first.payload, kept.first.dig("i")]
  end

  private

  def assert_undecodable(read)
    2.times { assert_match(/payload cannot be decoded: ./, assert_raises(Pelton::DecodeError, &read).message) }
  end

  def counting_parses(&block)
    count = 0
    TracePoint.new(:call) { |call| count += 1 if call.method_id == :parse && call.self == Pelton::Json }.enable(&block)
    count
  end

  # The last of several values of one key counts; newer versions warn of that unless told.
  def parse(document)
    known = Gem::Version.new(JSON::VERSION) >= Gem::Version.new("2.13")
    JSON.parse(document, **(known ? { allow_duplicate_key: true } : {}))
  end

  def read(documents, ahead:)
    documents.each_slice(400).flat_map do |slice|
      topic = topic_of_all(slice)
      messages(topic, slice.size, options: ahead ? { decode: { topic => :json } } : {})
    end
  end

  def compare(documents, ahead:)
    read(documents, ahead: ahead).zip(documents) { |message, document| yield document, message }
  end

  def outcome
    [:value, yield]
  rescue StandardError => e
    [:error, e]
  end

  def assert_same_dig(plain, message, path)
    expected = outcome { [plain].dig(0, *path) }
    found = outcome { message.dig(*path) }
    if expected.first == :error
      assert_equal [expected.last.class, expected.last.message], [found.last.class, found.last.message], path.inspect
    else
      assert_same_value expected.last, found.last, path.inspect
    end
  end

  # Equal, and of the same classes and order (1 == 1.0, and hashes do not mind their order).
  def assert_same_value(expected, found, hint = nil)
    assert expected.eql?(found) && expected.inspect == found.inspect,
           "#{hint} #{expected.inspect[0, 200]} expected, not #{found.inspect[0, 200]}"
  end

  STRINGS = ["", "a", "key", "é", "日本語", "\n\t\"\\/", "\u0000\u001f", "😀", "x" * 70, "k" * 200, "a b"].freeze

  def random_value(random, depth)
    case random.rand(depth > 4 ? 6 : 9)
    when 0 then [nil, true, false].sample(random: random)
    when 1 then random.rand(-10..10)
    when 2 then random.rand(-(2**63)...(2**63))
    when 3 then (random.rand - 0.5) * (10**random.rand(-30..30))
    when 4, 5 then STRINGS.sample(random: random)
    when 6, 7 then Array.new(random.rand(5)) { random_value(random, depth + 1) }
    else
      pairs = Array.new(random.rand(12)) do
        [STRINGS.sample(random: random) + random.rand(4).to_s, random_value(random, depth + 1)]
      end
      pairs.to_h
    end
  end

  # Paths that lead somewhere, and some that do not.
  def random_paths(value, random, count)
    Array.new(count) do
      here = value
      path = []
      loop do
        step = random_step(here, random)
        path << step
        here = here[step] if here.is_a?(Hash) || (here.is_a?(Array) && step.is_a?(Integer))
        break if random.rand(4).zero? || !(here.is_a?(Hash) || here.is_a?(Array))
      end
      random.rand(8).zero? ? path << ["a", 0, nil].sample(random: random) : path
    end
  end

  def random_step(here, random)
    case here
    when Hash then random.rand(6).zero? ? "absent" : here.keys.sample(random: random) || "a"
    when Array then random.rand(6).zero? ? "a" : random.rand((-here.size - 1)..here.size)
    else ["a", 0].sample(random: random)
    end
  end
end
