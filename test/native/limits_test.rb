# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/native_kit"
require "support/registry_double"
require "pelton"
require "pelton/registry/references"
begin
  require "bigdecimal"
rescue LoadError
  nil # a gem since Ruby 3.4: what needs it says so
end

# Few bytes that would cost much time or memory: each has a limit, and an error that names it. What is within its limit
# takes time that is linear in its size, and other threads go on.
class NativeLimitsTest < Minitest::Test
  include NativeKit

  NAN = "cb7ff8000000000000"

  # Ruby compares such a key with all others: 16,000 of them took 2 s with Ruby's lock.
  def test_more_than_1000_nan_keys_are_a_decode_error
    { "a key" => NAN, "another NaN" => "caffc00001", "in an Array" => "91#{NAN}", "deeper" => "919201#{NAN}",
      "a map's value" => "8101#{NAN}", "a map's key" => "81#{NAN}01" }.each do |what, key|
      assert_equal 1000, msgpack("de03e8#{"#{key}c0" * 1000}").size, what
      error = assert_raises(Pelton::DecodeError, what) { msgpack("de03e9#{"#{key}c0" * 1001}") }
      assert_includes error.message, "more than 1000 map keys are NaN", what
      # In many maps, too: their keys are compared within each, but there may be any number of maps.
      assert_raises(Pelton::DecodeError, what) { msgpack("dc0200#{"82#{key}c0#{key}c0" * 512}") }
    end
  end

  def test_nan_values_have_no_limit
    assert_equal 5000, msgpack("dc1388#{NAN * 5000}").size
    assert_equal 5000, msgpack("de1388#{Array.new(5000) { |i| "cd#{format("%04x", i)}#{NAN}" }.join}").size
    assert_equal 2000, msgpack("dc07d0#{"81c092#{NAN}#{NAN}" * 2000}").size
  end

  # 100,000 fields took minutes, and no other thread ran.
  def test_a_schema_of_100_000_fields_is_read_in_linear_time_while_other_threads_run
    fields = Array.new(100_000) { |i| { "name" => "f#{i}", "type" => "int", "aliases" => ["a#{i}"], "default" => i } }
    symbols = Array.new(30_000) { |i| "S#{i}" }
    kind = { "type" => "enum", "name" => "E", "symbols" => symbols }
    count = 0
    thread = Thread.new { loop { count += 1 } }
    eventually(60) { count.positive? }
    before = count
    wide, turned = [fields.first(60_000), fields.first(60_000).reverse].map do |some|
      Pelton::Registry::Schema.of("type" => "record", "name" => "R", "fields" => some)
    end
    assert_operator count, :>, before
    thread.kill.join
    plain = fields.map { |field| field.slice("name", "type") }
    Pelton::Registry::Schema.of("type" => "record", "name" => "R", "fields" => plain)
    value = (0...60_000).to_h { |i| ["f#{i}", -i] }
    bytes = wide.encode(value)
    assert_equal value, Pelton::Avro::Decoder.new(schema: turned, writer: wide).decode(bytes)
    renamed = fields.first(60_000).map do |field|
      field.merge("name" => "n#{field["name"]}", "aliases" => [field["name"]])
    end
    reader = Pelton::Avro::Decoder.new(schema: { "type" => "record", "name" => "R", "fields" => renamed }, writer: wide)
    assert_equal(-59_999, reader.decode(bytes)["nf59999"])
    list = Pelton::Registry::Schema.of("type" => "array", "items" => kind)
    assert_equal symbols, Pelton::Avro::Decoder.new(schema: list).decode(list.encode(symbols))
  end

  def test_200_references_are_read_and_no_more
    assert_equal 200, read_references(200).size
    error = assert_raises(Pelton::RegistryError) { read_references(201) }
    assert_includes error.message, "are more than 200"
  end

  # So many, in chains of 40.
  def read_references(count)
    chains = references do |_, version|
      { "schema" => '"int"', "references" => version % 40 == 39 ? [] : [place(version + 1)] }
    end
    chains.texts((0...count).step(40).map { |first| place(first) })
  end

  def place(version) = { "name" => "a", "subject" => "s", "version" => version }

  def test_a_schema_beyond_its_limits_is_a_config_error_that_names_them
    many = Array.new(300_000) { |i| "s#{i}" }
    branches = Array.new(1025) { |i| { "type" => "fixed", "name" => "F#{i}", "size" => 1 } }
    { "more than 262144 types, fields, symbols" => { "type" => "enum", "name" => "E", "symbols" => many },
      "a union has 1025 branches; at most 1024 are read" => branches,
      "5000016 bytes with its references; at most 4194304 are read" => "{\"type\":\"int\"}#{" " * 5_000_002}" }
      .each do |reason, schema|
      error = assert_raises(Pelton::ConfigError, reason) { Pelton::Registry::Schema.of(schema) }
      assert_includes error.message, reason
    end
    references = ["\"int\"#{" " * 3_000_000}"] * 2
    assert_raises(Pelton::ConfigError) { Pelton::Registry::Schema.new('"int"', references: references) }
  end

  # Each field's default is expanded anew: 2,000 of them were 130 million values.
  def test_defaults_that_expand_each_other_end_for_all_fields_of_a_schema
    deep = (0..14).inject("int") do |inside, level|
      default = level.zero? ? 1 : {}
      pair = { "a" => inside, "b" => last(inside) }
      { "type" => "record", "name" => "D#{level}",
        "fields" => pair.map { |name, type| { "name" => name, "type" => type, "default" => default } } }
    end
    fields = Array.new(2000) { |i| { "name" => "f#{i}", "type" => i.zero? ? deep : last(deep), "default" => {} } }
    wide = { "type" => "record", "name" => "R", "fields" => fields }
    reader = Pelton::Avro::Decoder.new(schema: wide, writer: { "type" => "record", "name" => "R", "fields" => [] })
    assert_raises(Pelton::DecodeError) { reader.decode("") }
    assert_raises(Pelton::EncodeError) { Pelton::Registry::Schema.of(wide).encode({}) }
  end

  # It was written, and nothing but an error could be read again.
  def test_a_big_decimal_of_more_than_1024_bytes_is_an_encode_error
    skip "no gem bigdecimal for this Ruby" unless defined?(BigDecimal)
    type = { "type" => "bytes", "logicalType" => "big-decimal" }
    schema = Pelton::Registry::Schema.of(type)
    reader = Pelton::Avro::Decoder.new(schema: type)
    most = (2**8191) - 1
    [most, -most - 1].each { |number| assert_equal number, reader.decode(schema.encode(BigDecimal(number))) }
    [BigDecimal(most + 1), BigDecimal("1e4096")].each do |number|
      error = assert_raises(Pelton::EncodeError) { schema.encode(number) }
      assert_includes error.message, "expected big-decimal of at most 1024 bytes"
    end
  end

  # 1 was added to it, and that took 2 GB.
  def test_a_big_decimal_of_more_than_4096_digits_behind_the_point_is_a_decode_error
    reader = Pelton::Avro::Decoder.new(schema: { "type" => "bytes", "logicalType" => "big-decimal" })
    [(2**31) - 1, 4097, -4097, -(2**31)].each do |scale|
      error = assert_raises(Pelton::DecodeError) { reader.decode(big_decimal(7, scale)) }
      assert_includes error.message, "a big-decimal has the scale #{scale}; at most 4096 is read"
    end
    long = assert_raises(Pelton::DecodeError) { reader.decode(sized(sized("\1" * 1025) + number(0))) }
    assert_includes long.message, "a big-decimal has 1025 bytes; at most 1024 are read"
    skip "no gem bigdecimal for this Ruby" unless defined?(BigDecimal)
    { 4096 => "7e-4096", 2 => "0.07", 0 => "7", -3 => "7000", -4096 => "7e4096" }.each do |scale, text|
      assert_equal BigDecimal(text), reader.decode(big_decimal(7, scale))
    end
    schema = Pelton::Registry::Schema.of("type" => "bytes", "logicalType" => "big-decimal")
    assert_raises(Pelton::EncodeError) { schema.encode(BigDecimal("1e-4097")) }
  end

  def test_references_of_a_registry_have_a_limit_of_their_number
    named = ->(count) { Array.new(count) { |i| { "name" => "n", "subject" => "s#{i}", "version" => 1 } } }
    asked = 0
    answer = ->(_, _) { { "schema" => "\"int\"" }.tap { asked += 1 } }
    assert_equal 200, references(&answer).texts(named.call(200)).size
    asked = 0
    error = assert_raises(Pelton::RegistryError) { references(&answer).texts(named.call(20_000)) }
    assert_includes error.message, "references: are 20000 in one list, at most 200 are read"
    assert_equal 0, asked
    # Each with ten others: never the same.
    below = ->(subject) { named.call(10).each { |it| it["subject"] += ".#{subject}" } }
    more = ->(subject, _) { { "schema" => "1", "references" => below.call(subject) } }
    assert_includes assert_raises(Pelton::RegistryError) { references(&more).texts(named.call(10)) }.message,
                    "references: are nested deeper than 50 levels"
    wide = ->(subject, _) { { "schema" => "1", "references" => subject.count(".") < 2 ? below.call(subject) : [] } }
    assert_includes assert_raises(Pelton::RegistryError) { references(&wide).texts(named.call(10)) }.message,
                    "references: are more than 200"
  end

  def test_references_of_a_registry_have_a_limit_of_their_bytes_and_time
    named = Array.new(100) { |i| { "name" => "n", "subject" => "s#{i}", "version" => 1 } }
    asked = 0
    large = ->(_, _) { { "schema" => "\"int\"#{" " * 1_000_000}" }.tap { asked += 1 } }
    error = assert_raises(Pelton::RegistryError) { references(&large).texts(named) }
    assert_includes error.message, "references: have more than 4194304 bytes"
    assert_equal 5, asked
    read = 0
    slow = ->(_, _) { { "schema" => "1" }.tap { read += 1 } }
    Pelton::Clock.stub(:left, ->(_) { read < 3 ? 1.0 : 0.0 }) do
      error = assert_raises(Pelton::RegistryError) { references(&slow).texts(named) }
    end
    assert_includes error.message, "references: took longer than 60 s, 3 were read"
  end

  def test_a_schema_whose_references_have_no_end_is_a_registry_error
    double = RegistryDouble.new
    references = Array.new(201) { |i| { name: "n#{i}", subject: "s#{i}", version: 1 } }
    id = double.add("top", '"int"', references: references)
    error = assert_raises(Pelton::RegistryError) { Pelton::Registry.new(double.url, retries: 0).schema(id) }
    assert_includes error.message, "references of schema #{id}: are 201 in one list, at most 200 are read"
    assert_equal 1, double.requests.size
  ensure
    double.close
  end

  # Work of about a millisecond or more on an application's data leaves Ruby's lock to others.
  def test_long_work_on_large_documents_lets_other_threads_run
    schema = Pelton::Registry::Schema.of("type" => "array", "items" => "int")
    reader = Pelton::Avro::Decoder.new(schema: schema)
    value = [1] * 1_000_000
    bytes = beside { schema.encode(value) }
    assert_equal value.size, beside { reader.decode(bytes) }.size
    json = "[#{"1," * 1_000_000}1]"
    assert_equal 1_000_001, beside { Pelton::Native.parse_json(json) }.size
    assert_equal 1_000_001, beside { Pelton::Native.decode({ format: :json }, json) }.size
    assert_raises(Pelton::DecodeError) { reader.decode("\xff".b * 300_000) }
    assert_raises(Pelton::EncodeError) { schema.encode(value + [""]) }
  end

  private

  def msgpack(hex) = Pelton::Native.decode({ format: :msgpack }, [hex].pack("H*"))

  def references(&ask)
    Pelton::Registry::References.new(->(reason) { Pelton::RegistryError.new("references", reason) }, &ask)
  end

  def last(type) = type.is_a?(Hash) ? type["name"] : type

  # Whether another thread ran while the block did: one that waits for its turn ahead of it.
  def beside
    ran = 0
    thread = Thread.new { loop { ran += 1 } }
    eventually(60) { ran.positive? }
    before = ran
    yield.tap { assert_operator ran, :>, before }
  ensure
    thread.kill.join
  end

  def big_decimal(unscaled, scale) = sized(sized([unscaled].pack("c")) + number(scale))
  def sized(bytes) = number(bytes.bytesize) + bytes.b
  def number(value) = Pelton::Registry::Schema.of("long").encode(value)
end
