# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
begin
  require "msgpack"
rescue LoadError
  nil # not of every Ruby: what needs it says so
end

# What the extension makes of MessagePack is what the gem makes of it.
class NativeMsgpackTest < Minitest::Test
  include NativeKit

  EXTENSION = Pelton::ExtensionValue
  # Each kind in each of its sizes.
  DOCUMENTS = {
    "c0" => nil, "c2" => false, "c3" => true, "00" => 0, "7f" => 127, "e0" => -32, "ff" => -1,
    "ccff" => 255, "cdffff" => 65_535, "ceffffffff" => 4_294_967_295,
    "cf7fffffffffffffff" => (2**63) - 1, "cf8000000000000000" => 2**63, "cfffffffffffffffff" => (2**64) - 1,
    "d080" => -128, "d18000" => -32_768, "d280000000" => -(2**31), "d38000000000000000" => -(2**63),
    "ca3f9d70a4" => 1.2300000190734863, "cb3ff0000000000000" => 1.0, "cb7ff0000000000000" => Float::INFINITY,
    "a0" => "", "a2c3a9" => "é", "d90161" => "a", "da000161" => "a", "db0000000161" => "a", "a2fffe" => "\xff\xfe",
    "c400" => "".b, "c402c3a9" => "é".b, "c5000161" => "a".b, "c60000000161" => "a".b,
    "90" => [], "9201a161" => [1, "a"], "dc000101" => [1], "dd0000000101" => [1],
    "80" => {}, "81a16101" => { "a" => 1 }, "de0001c0c0" => { nil => nil }, "df00000001910190" => { [1] => [] },
    "8201010102" => { 1 => 2 }, "82a16101c4016102" => { "a" => 2 }, "81c401ff01" => { "\xff".b => 1 },
    "81cb7ff000000000000090" => { Float::INFINITY => [] }, "81818001c3" => { { {} => 1 } => true },
    "d40105" => EXTENSION.new(1, "\5".b), "d580aabb" => EXTENSION.new(-128, "\xaa\xbb".b),
    "c70007" => EXTENSION.new(7, "".b), "c800010705" => EXTENSION.new(7, "\5".b),
    "c9000000010705" => EXTENSION.new(7, "\5".b), "d87f#{"00" * 16}" => EXTENSION.new(127, "\0".b * 16),
    "d6ff00000001" => Time.at(1), "d7ff0000000400000001" => Time.at(1, 1, :nanosecond),
    "d7ff#{"ff" * 8}" => Time.at(0x3ffffffff, 0x3fffffff, :nanosecond),
    "c70cff00000005#{"ff" * 7}fd" => Time.at(-3, 5, :nanosecond)
  }.freeze

  MALFORMED = ["", "c1", "0102", "a361", "c4", "c402ff", "92", "9201", "81", "8101", "de0001", "ddffffffff",
               "dfffffffff", "dbffffffff00", "c6ffffffff", "c9ffffffff01", "d401", "cf00", "d4ff00", "c703ff000000",
               "91c1",
               "#{"91" * 129}c0", "c0#{"c0" * 100}"].freeze

  def test_every_kind
    DOCUMENTS.each do |hex, value|
      made = decode(bytes(hex))
      assert_equal describe(value), describe(made), hex
    end
    assert_predicate decode(bytes("ca7fc00000")), :nan?
  end

  def test_malformed_payload_raises_and_takes_no_memory
    MALFORMED.each do |hex|
      error = assert_raises(Pelton::DecodeError, hex) { decode(bytes(hex)) }
      assert_match(/too early|extra bytes|invalid byte|nested|timestamp/, error.message)
    end
  end

  def test_depth
    [[128, "c0"], [128, "90"]].each { |depth, inner| decode(bytes(("91" * depth) + inner)) }
    assert_raises(Pelton::DecodeError) { decode(bytes("#{"91" * 129}c0")) }
    assert_raises(Pelton::DecodeError) { decode(bytes("#{"81c0" * 129}c0")) }
  end

  def test_symbols_and_frozen_values
    document = bytes("82a16191a162c40163c4017a")
    made = decode(document, symbolize_keys: true, freeze: true)
    assert_equal({ a: ["b"], c: "z" }, made)
    assert [made, made[:a], made[:a][0], made[:c]].all?(&:frozen?)
    refute_predicate decode(document), :frozen?
    assert decode(document).keys.all?(&:frozen?)
    assert Ractor.shareable?(decode(bytes("92d40105d6ff00000001"), freeze: true)[0])
    assert_raises(EncodingError) { decode(bytes("81a1ff01"), symbolize_keys: true) }
  end

  def test_extension_types_are_decoded_by_the_application
    ext = { 1 => ->(bytes) { bytes.unpack1("L>") }, -1 => ->(bytes) { [:time, bytes] } }
    document = bytes("93d60100000007d6ff00000001d40205")
    assert_equal [7, [:time, "\0\0\0\1".b], EXTENSION.new(2, "\5".b)], decode(document, ext: ext)
    assert_equal({ 7 => nil }, decode(bytes("81d60100000007c0"), ext: ext))
    assert_equal({ "é" => 1 }, decode(bytes("81d4010501"), ext: { 1 => ->(_) { "é" } }))
    assert_predicate decode(bytes("d40205")), :frozen?
  end

  # Whatever they do: a build of their own, a raise, another fiber, another thread, a key of their own kind.
  def test_extension_decoders_may_read_and_raise
    inner = { 2 => ->(_) { { "deep" => [1] } } }
    ext = { 1 => ->(data) { [data, decode(bytes("92a161d40205"), ext: inner)] } }
    assert_equal ["x", ["\5".b, ["a", { "deep" => [1] }]], "y"], decode(bytes("93a178d40105a179"), ext: ext)

    raising = { 1 => ->(_) { raise IndexError, "no" } }
    3.times { assert_raises(IndexError) { decode(bytes("93a178d40105a179"), ext: raising) } }
    assert_equal 5, catch(:out) { decode(bytes("92a178d40105"), ext: { 1 => ->(bytes) { throw :out, bytes.ord } }) }

    fiber = Fiber.new { decode(bytes("93a178d40105a179"), ext: { 1 => ->(_) { Fiber.yield(:away) } }) }
    assert_equal :away, fiber.resume
    assert_equal %w[a b], decode(bytes("92a161a162"))
    assert_equal ["x", :back, "y"], fiber.resume(:back)

    switching = { 1 => ->(bytes) { 3.times { Thread.pass } && bytes.ord } }
    document = bytes("9aa178#{"d40105a17a" * 4}a179")
    expected = decode(document, ext: switching)
    found = Array.new(4) { Thread.new { Array.new(50) { decode(document, ext: switching) }.uniq } }.map(&:value)
    assert_equal [["x", *([5, "z"] * 4), "y"]], [expected]
    assert_equal [[expected]] * 4, found
  end

  Key = Struct.new(:number) do
    def hash
      GC.start
      Pelton::Native.decode(:msgpack, "\x93\x01\x02\x03".b)
      number.hash
    end
  end

  def test_keys_with_code_of_their_own
    document = bytes("83d40101a161d40102a162a163a164")
    made = decode(document, ext: { 1 => ->(bytes) { Key.new(bytes.ord) } })
    assert_equal [Key.new(1), Key.new(2), "c"], made.keys
    assert_equal %w[a b d], made.values
  end

  def test_under_stress_and_compaction
    document = bytes("86a16192c0d40105c401620181a163d6ff00000001a16ecfffffffffffffffff90a2fffed40205" \
                     "a16dcb3ff8000000000000")
    ext = { 1 => ->(bytes) { ["made of", bytes] } }
    expected = decode(document, ext: ext, freeze: true)
    begin
      GC.stress = true
      made = Array.new(3) { decode(document, ext: ext, freeze: true) }
    ensure
      GC.stress = false
    end
    GC.compact if GC.respond_to?(:compact)
    assert_equal [describe(expected)] * 3, made.map { |value| describe(value) }
  end

  def test_messages
    format = { format: :msgpack, ext: { 1 => ->(bytes) { Integer(bytes) } } }
    documents = ["82a16192d4013705a1620a", "82a16192d4017805a1620a", "81a161", nil, "c0", "92a161c0"]
    list = round_trip(*documents.map { |hex| hex && bytes(hex) }, options: { decode: { "*" => format } })
    2.times { assert_equal({ "a" => [7, 5], "b" => 10 }, list[0].payload) }
    assert_equal [7, 5, 10, nil], [list[0].dig("a", 0), list[0].dig("a", -1), list[0].dig("b"), list[0].dig("c")]
    assert_equal [5, 10], [list[1].dig("a", 1), list[1].dig("b")]
    [-> { list[1].payload }, -> { list[1].dig("a", 0) }, -> { list[1].dig("a") }].each do |read|
      error = assert_raises(Pelton::DecodeError, &read)
      assert_match(/offset 1: payload cannot be decoded: ArgumentError at msgpack_test.rb:/, error.message)
      assert_instance_of ArgumentError, error.cause
    end
    2.times { assert_match(/it ends too early/, assert_raises(Pelton::DecodeError) { list[2].payload }.message) }
    assert_raises(Pelton::DecodeError) { list[2].dig("a") }
    assert_equal [nil, nil, ["a", nil], "a"], [list[3].payload, list[4].payload, list[5].payload, list[5].dig(0)]
    assert_raises(TypeError) { list[5].dig("a") }
  end

  def test_dig_reaches_into_extension_values
    format = { format: :msgpack, ext: { 1 => ->(bytes) { bytes }, 2 => ->(bytes) { { "in" => [bytes] } } } }
    documents = %w[81d4016107 82a16101d4016102 81a161d40205].map { |hex| bytes(hex) } # {ext("a") => 7} …
    list = round_trip(*documents, options: { decode: { "*" => format } })
    paths = [["a"], %w[a in], ["a", "in", 0], ["b"]]
    found = list.map { |message| paths.map { |path| outcome { message.dig(*path) } } }
    expected = list.map { |message| paths.map { |path| outcome { message.payload.dig(*path) } } }
    assert_equal expected.flatten.inspect, found.flatten.inspect
    assert_equal [7, 2, "\5".b], [list[0].dig("a"), list[1].dig("a"), list[2].dig("a", "in", 0)]
  end

  # What one thread changed in its payload was not in the other's.
  def test_threads_that_build_the_same_payload_at_the_same_time_have_one
    inside = Thread::Queue.new
    gate = Thread::Queue.new
    format = { format: :msgpack, ext: { 1 => ->(data) { inside.push(1) && gate.pop && data } } }
    message = round_trip(bytes("91d40105"), options: { decode: { "*" => format } }).first
    threads = Array.new(2) { Thread.new { message.payload } }
    2.times { inside.pop }
    2.times { gate << true }
    first, second = threads.map(&:value)
    assert_same first, second
    assert_same first, message.payload
  end

  # Thousands of documents and of what mutations make of them, each option: the same value, or an error here as there.
  def test_the_gem_says_the_same
    skip "no gem msgpack for this Ruby" unless defined?(::MessagePack)
    random = Random.new(Integer(ENV.fetch("SEED", "20251122")))
    checked = Hash.new(0)
    6_000.times do
      document = generate(random, 0)
      document = mutate(document, random) if random.rand(2).zero?
      # The gem makes room for as many elements as it is told of.
      next if document.match?(/[\xdd\xdf](?!\0\0)/n)

      options = { symbolize_keys: random.rand(4).zero?, freeze: random.rand(4).zero? }
      checked[compare(document, options)] += 1
    end
    assert_operator checked[:value], :>, 2_000
    assert_operator checked[:error], :>, 500
  end

  private

  def bytes(hex) = [hex].pack("H*")
  def decode(document, **options) = Pelton::Native.decode({ format: :msgpack, **options }, document)

  def compare(document, options)
    expected = outcome { gem.load(document, allow_unknown_ext: true, **options) }
    found = outcome { decode(document, **options) }
    assert_equal expected.first, found.first, "#{document.unpack1("H*")} #{options}: #{expected} and #{found}"
    return expected.first if expected.first == :error

    assert_equal describe(expected.last), describe(found.last), "#{document.unpack1("H*")} #{options}"
    assert_equal [frozen(expected.last)], [frozen(found.last)], "#{document.unpack1("H*")} #{options}"
    :value
  end

  def outcome
    [:value, yield]
  rescue StandardError => e
    [:error, e]
  end

  # With timestamps, and unknown types as values.
  def gem
    @gem ||= MessagePack::Factory.new.tap do |factory|
      factory.register_type(-1, Time, packer: MessagePack::Time::Packer, unpacker: MessagePack::Time::Unpacker)
    end
  end

  # All that can be told of a value, comparable: NaN, classes, encodings.
  def describe(value)
    case value
    when Hash then [:hash, value.map { |key, nested| [describe(key), describe(nested)] }]
    when Array then [:array, value.map { |nested| describe(nested) }]
    when String then [value.encoding, value.valid_encoding?, value.b]
    when Float then [:float, value.nan? ? "NaN" : [value].pack("G")]
    when Time then [:time, value.to_r, value.utc_offset]
    when Symbol then [:symbol, value.encoding, value.name.b]
    when Struct then [:extension, value.type, value.payload]
    else [value.class, value]
    end
  end

  def frozen(value)
    case value
    when Hash then [value.frozen?, value.map { |key, nested| [frozen(key), frozen(nested)] }]
    when Array then [value.frozen?, value.map { |nested| frozen(nested) }]
    when String then value.frozen?
    end
  end

  SCALARS = [nil, true, false, 0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32, (2**63) - 1, 2**63, (2**64) - 1, -1,
             -32, -33, -128, -129, -32_769, -(2**31) - 1, -(2**63), 0.0, -0.0, 1.5, Float::NAN, -Float::INFINITY].freeze

  def generate(random, depth)
    case random.rand(depth > 5 ? 6 : 9)
    when 0, 1 then SCALARS.sample(random: random).to_msgpack
    when 2, 3 then text(random).to_msgpack
    when 4 then text(random).b.to_msgpack
    when 5 then extension(random)
    when 6 then ("\x91".b * random.rand(1..3)) + generate(random, depth + 1)
    when 7 then container([0x90, 0xdc, 0xdd], random) { generate(random, depth + 1) }
    else container([0x80, 0xde, 0xdf], random) { key(random, depth) + generate(random, depth + 1) }
    end
  end

  def key(random, depth) = random.rand(3).zero? ? generate(random, depth + 1) : text(random).to_msgpack

  def text(random)
    some = ["", "a", "id", "naïve", "日本", "\xff", "a\xc3", "x" * random.rand(300), "key#{random.rand(5)}"]
    some.sample(random: random)
  end

  def extension(random)
    size = [0, 1, 2, 4, 8, 12, 16, 17, 300].sample(random: random)
    MessagePack::ExtensionValue.new([-128, -2, -1, 0, 1, 127].sample(random: random), random.bytes(size)).to_msgpack
  end

  def container((short, middle, long), random, &inner)
    size = random.rand(5).zero? ? random.rand(20) : random.rand(4)
    heads = [[short | size].pack("C"), [middle, size].pack("CS>"), [long, size].pack("CL>")]
    heads[size > 15 ? 1 : random.rand(3)] + Array.new(size, &inner).join
  end

  def mutate(document, random)
    document = document.dup
    case random.rand(3)
    when 0 then document[0, random.rand(document.bytesize + 1)]
    when 1 then document << random.bytes(random.rand(3))
    else
      document.setbyte(random.rand(document.bytesize), random.rand(256)) unless document.empty?
      document
    end
  end
end
