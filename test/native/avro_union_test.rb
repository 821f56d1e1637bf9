# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "pelton"
require "date"
begin
  require "bigdecimal"
rescue LoadError
  nil # a gem since Ruby 3.4: what needs it says so
end

# Which branch of a union a Ruby value is written as: the one that Java's and Python's writers (fastavro) choose for the
# same kind of value, so that it is read as what it was. The order of the branches counts only between equals.
class NativeAvroUnionTest < Minitest::Test
  include NativeKit

  FIXED = { "type" => "fixed", "name" => "F", "size" => 2 }.freeze
  UUID = { "type" => "fixed", "name" => "U", "size" => 16, "logicalType" => "uuid" }.freeze
  ENUM = { "type" => "enum", "name" => "E", "symbols" => %w[ab A] }.freeze
  DECIMAL = { "type" => "bytes", "logicalType" => "decimal", "precision" => 9, "scale" => 2 }.freeze
  WIDE = { "type" => "bytes", "logicalType" => "decimal", "precision" => 40, "scale" => 2 }.freeze
  TIMESTAMP = { "type" => "long", "logicalType" => "timestamp-millis" }.freeze
  DATE = { "type" => "int", "logicalType" => "date" }.freeze
  TIME_MILLIS = { "type" => "int", "logicalType" => "time-millis" }.freeze
  TIME_MICROS = { "type" => "long", "logicalType" => "time-micros" }.freeze
  ID = "00000000-0000-0000-0000-000000000001"

  # [value, branches, the type that it is written as]
  CHOICES = [
    # Characters are a string before they are bytes; where there is none, they are bytes.
    ["é", %w[null bytes string], "string"], ["abc", %w[bytes string], "string"], ["", %w[bytes string], "string"],
    ["ab", [FIXED, "string"], "string"], ["ab", [FIXED, "bytes", ENUM], ENUM], ["abc", [FIXED, "bytes"], "bytes"],
    ["é".encode("UTF-16LE"), %w[bytes string], "string"], [:abc, %w[bytes string], "string"],
    [ID, ["bytes", UUID], UUID], [ID, [UUID, "string"], "string"],
    ["ab", [ENUM, "string"], ENUM], ["ab", ["string", ENUM], "string"], ["x", [ENUM, "string"], "string"],
    # A binary String is bytes before it is a string, whatever is in it.
    ["abc".b, %w[null string bytes], "bytes"], ["".b, %w[string bytes], "bytes"], ["\0\1".b, %w[string bytes], "bytes"],
    ["\xff".b, %w[string bytes], "bytes"], ["ab".b, ["string", FIXED], FIXED], ["ab".b, [ENUM, FIXED], FIXED],
    ["ab".b, ["bytes", FIXED], "bytes"], ["abc".b, %w[null string], "string"], ["ab".b, [ENUM, "long"], ENUM],
    ["0123456789abcdef".b, ["string", UUID], UUID], ["0123456789abcdef".b, [UUID, "bytes"], "bytes"],
    # An Integer is an int or a long, before it is what a logical type makes of it, a double, or a decimal.
    [36, [DECIMAL, "long"], "long"], [36, [DECIMAL, "double"], "double"], [5, [TIMESTAMP, "int"], "int"],
    [36, [DECIMAL, "string"], DECIMAL], [36, [DECIMAL, DATE], DATE],
    # What a double or float would round goes to a decimal that holds it.
    [2**53, [WIDE, "double"], "double"], [(2**53) + 1, ["double", WIDE], WIDE], [(2**24) + 1, ["float", WIDE], WIDE],
    [(2**53) + 1, ["string", "double"], "double"], [(2**53) + 1, ["double", DECIMAL], "double"],
    [5, [DATE, "long"], "long"], [5, ["double", TIMESTAMP], TIMESTAMP], [5, %w[float double], "double"],
    [5, %w[double int], "int"], [5, %w[long int], "long"],
    [2**40, %w[int long], "long"], [2**40, ["int", TIMESTAMP], TIMESTAMP], [5, [TIME_MILLIS, "long"], TIME_MILLIS],
    [100_000_000, [TIME_MILLIS, "long"], "long"], [-1, [TIME_MICROS, "int"], "int"],
    # A Float is a double where there is one.
    [0.5, %w[float double], "double"], [0.1, %w[float double], "double"], [0.5, %w[float string], "float"],
    [Date.new(2024, 2, 29), ["long", DATE], DATE], [Time.at(5), ["int", TIMESTAMP], TIMESTAMP]
  ].freeze

  def test_a_value_takes_the_branch_of_its_own_kind
    CHOICES.each do |value, branches, wanted|
      bytes = encode(value, branches)
      assert_equal wanted, branches[bytes.getbyte(0) / 2], "#{value.inspect} (#{value.class}) in #{branches}"
      # Also within a record, an Array and a Hash, where branches are tried.
      record = { "type" => "record", "name" => "R", "fields" => [{ "name" => "f", "type" => branches }] }
      assert_equal bytes, encode({ "f" => value }, record)
      both = [record, { "type" => "map", "values" => "boolean" }]
      assert_equal "\0".b + bytes, encode({ "f" => value }, both)
    end
  end

  def test_a_value_is_read_from_a_union_as_what_it_was
    [["é", %w[bytes string]], ["abc".b, %w[string bytes]], [36, [DECIMAL, "long"]], [5, [TIMESTAMP, "int"]],
     [0.1, %w[float double]], ["", %w[bytes string]]].each do |value, branches|
      made = Pelton::Avro::Decoder.new(schema: branches).decode(encode(value, branches))
      assert_equal [value, value.class], [made, made.class]
      assert_equal value.encoding, made.encoding if value.is_a?(String)
    end
  end

  # As fastavro does; a Hash that only the record takes is the record's.
  def test_a_hash_that_fits_a_map_and_a_record_is_written_as_the_map
    record = { "type" => "record", "name" => "R", "fields" => [{ "name" => "f", "type" => %w[int string] }] }
    map = { "type" => "map", "values" => "int" }
    assert_equal([0, 1], [[map, record], [record, map]].map { |union| encode({ f: 1 }, union).getbyte(0) / 2 })
    assert_equal([1, 0], [[map, record], [record, map]].map { |union| encode({ f: "a" }, union).getbyte(0) / 2 })
  end

  # A uuid's bytes were refused if they happened to be ASCII.
  def test_sixteen_bytes_are_a_fixed_uuid
    ["0123456789abcdef".b, "\xff".b * 16].each { |bytes| assert_equal bytes, encode(bytes, UUID) }
    [("0" * 36).b, "0" * 16, "0".b * 15].each { |other| assert_raises(Pelton::EncodeError) { encode(other, UUID) } }
  end

  def test_a_big_decimal_is_a_decimal
    skip "no gem bigdecimal for this Ruby" unless defined?(BigDecimal)
    assert_equal 2, encode(BigDecimal("1.5"), ["double", DECIMAL]).getbyte(0)
  end

  # Both came back as times of day that no clock shows.
  def test_a_time_of_day_beyond_its_day_is_an_encode_error
    days = [[TIME_MILLIS, 86_400_000, "milliseconds"], [TIME_MICROS, 86_400_000_000, "microseconds"]]
    days.each do |schema, day, unit|
      reader = Pelton::Avro::Decoder.new(schema: schema)
      [0, day - 1].each { |time| assert_equal time, reader.decode(encode(time, schema)) }
      [day, -1, 7 * day].each do |time|
        error = assert_raises(Pelton::EncodeError) { encode(time, schema) }
        assert_includes error.message, "expected time of day in #{unit} (0 to #{day - 1})"
      end
    end
  end

  # It became Infinity.
  def test_a_float_beyond_32_bits_is_an_encode_error
    error = assert_raises(Pelton::EncodeError) { encode(1e300, "float") }
    assert_includes error.message, "expected float, got 1e300: the largest float is 3.4028235e38"
    assert_equal 1, encode(1e300, %w[float double]).getbyte(0) / 2
    read = Pelton::Avro::Decoder.new(schema: "float")
    [Float::INFINITY, -Float::INFINITY].each { |it| assert_equal it, read.decode(encode(it, "float")) }
    assert_predicate read.decode(encode(Float::NAN, "float")), :nan?
  end

  # As registries give types without parts.
  def test_the_schema_null_without_quotes
    ["null", '"null"', " null\n", '{"type":"null"}'].each do |text|
      schema = Pelton::Registry::Schema.new(text)
      assert_equal ['"null"', ""], [schema.canonical, schema.encode(nil)], text
      assert_nil Pelton::Avro::Decoder.new(schema: schema).decode("")
    end
    assert_raises(Pelton::ConfigError) { Pelton::Registry::Schema.new('{"type":null}') }
    assert_raises(Pelton::ConfigError) { Pelton::Registry::Schema.new("[null]") }
  end

  private

  def encode(value, schema) = Pelton::Registry::Schema.of(schema).encode(value)
end
