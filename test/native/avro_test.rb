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

# Ruby values of Avro documents, and documents of Ruby values. What the bytes mean is compared with Java's Avro in
# ext/core/tests/avro.rs.
class NativeAvroTest < Minitest::Test
  include NativeKit

  ORDER = {
    "type" => "record", "name" => "shop.Order", "fields" => [
      { "name" => "id", "type" => "long" },
      { "name" => "kind", "type" => { "type" => "enum", "name" => "Kind", "symbols" => %w[NEW PAID] } },
      { "name" => "at", "type" => { "type" => "long", "logicalType" => "timestamp-micros" } },
      { "name" => "day", "type" => { "type" => "int", "logicalType" => "date" } },
      { "name" => "note", "type" => %w[null string], "default" => nil },
      { "name" => "raw", "type" => "bytes" },
      { "name" => "lines", "type" => { "type" => "array", "items" => {
        "type" => "record", "name" => "Line",
        "fields" => [{ "name" => "sku", "type" => "string" }, { "name" => "price", "type" => "double" }]
      } } },
      { "name" => "tags", "type" => { "type" => "map", "values" => "string" }, "default" => {} }
    ]
  }.freeze
  VALUE = {
    "id" => 2**61, "kind" => "PAID", "at" => Time.at(1_700_000_000, 123_456, :usec).utc, "day" => Date.new(2024, 2, 29),
    "note" => "é", "raw" => "\xff\x00".b,
    "lines" => [{ "sku" => "a", "price" => 1.25 }, { "sku" => "b", "price" => -0.0 }], "tags" => { "x" => "y" }
  }.freeze

  def decoder(schema = ORDER, **flags) = Pelton::Avro::Decoder.new(schema: schema, **flags)
  def encode(value, schema = ORDER) = Pelton::Registry::Schema.of(schema).encode(value)
  def round_trip(value, schema) = decoder(schema).decode(encode(value, schema))

  def test_written_values_are_read_back
    made = decoder.decode(encode(VALUE))
    assert_equal VALUE, made
    assert_equal VALUE.keys, made.keys
    assert_predicate made["at"], :utc?
    assert_equal Encoding::BINARY, made["raw"].encoding
    assert_equal Encoding::UTF_8, made["note"].encoding
    refute_predicate made, :frozen?
    refute_predicate made["note"], :frozen?
  end

  def test_symbols_as_keys_and_frozen_values
    made = decoder(ORDER, symbolize_names: true, freeze: true).decode(encode(VALUE))
    assert_equal({ sku: "a", price: 1.25 }, made[:lines][0])
    assert_equal({ x: "y" }, made[:tags])
    parts = [made, made[:lines], made[:lines][0], made[:note], made[:raw], made[:at], made[:day]]
    assert parts.all?(&:frozen?)
    assert_equal encode(VALUE), encode(made), "symbols are names, too"
  end

  def test_defaults_and_missing_fields
    made = decoder.decode(encode(VALUE.except("note", "tags")))
    assert_nil made["note"]
    assert_equal({}, made["tags"])
  end

  LOGICAL = {
    { "type" => "long", "logicalType" => "timestamp-millis" } => [Time.at(-1, 999_000, :usec).utc, "01"],
    { "type" => "long", "logicalType" => "timestamp-nanos" } => [Time.at(0, 7, :nsec).utc, "0e"],
    { "type" => "long", "logicalType" => "local-timestamp-millis" } => [Time.utc(1970, 1, 1, 0, 0, 1), "d00f"],
    { "type" => "int", "logicalType" => "time-millis" } => [3, "06"],
    { "type" => "int", "logicalType" => "date" } => [Date.new(1969, 12, 31), "01"],
    { "type" => "string", "logicalType" => "uuid" } =>
      ["123e4567-e89b-12d3-a456-426614174000", "48#{"123e4567-e89b-12d3-a456-426614174000".unpack1("H*")}"],
    { "type" => "fixed", "name" => "U", "size" => 16, "logicalType" => "uuid" } =>
      ["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
    { "type" => "fixed", "name" => "D", "size" => 12, "logicalType" => "duration" } =>
      [{ "months" => 1, "days" => 2, "millis" => (2**32) - 1 }, "0100000002000000ffffffff"]
  }.freeze

  def test_logical_types
    LOGICAL.each do |schema, (value, hex)|
      bytes = encode(value, schema)
      assert_equal hex, bytes.unpack1("H*"), schema if hex
      made = decoder(schema).decode(bytes)
      assert_equal value, made
      assert_equal value.class, made.class
    end
  end

  DECIMAL = { "type" => "bytes", "logicalType" => "decimal", "precision" => 12, "scale" => 3 }.freeze

  # Avro's calendar is ISO 8601's at all times; Ruby's own Dates before 1582 are in Caesar's.
  def test_dates_before_1582
    schema = { "type" => "int", "logicalType" => "date" }
    first = decoder(schema).decode(encode(-719_162, schema))
    assert_equal ["0001-01-01", 1, 1, 1], [first.to_s, first.year, first.month, first.day]
    assert_equal encode(-719_162, schema), encode(first, schema)
    assert_equal encode(-719_162, schema), encode(Date.new(1, 1, 3), schema), "the same day in Caesar's calendar"
    [Date.new(1970, 1, 1), Date.new(1600, 2, 29), Date.new(2024, 2, 29)].each do |day|
      assert_equal [day, day.to_s, day.hash], round_trip(day, schema).then { |made| [made, made.to_s, made.hash] }
    end
  end

  def test_local_timestamp_is_read_as_local_time
    noon = Time.new(2026, 1, 1, 12, 0, Rational(5, 1000), "+02:00")
    local = { "type" => "long", "logicalType" => "local-timestamp-millis" }
    made = round_trip(noon, local)
    assert_equal "2026-01-01 12:00:00.005 UTC", made.strftime("%F %T.%L %Z")
    assert_equal made, round_trip(made, local)
    assert_equal noon, round_trip(noon, { "type" => "long", "logicalType" => "timestamp-millis" })
    west = Time.new(1969, 12, 31, 23, 30, 0, "-09:30")
    assert_equal Time.utc(1969, 12, 31, 23, 30), round_trip(west, local)
  end

  def test_decimals
    skip "no gem bigdecimal for this Ruby" unless defined?(::BigDecimal)
    fixed = { **DECIMAL, "type" => "fixed", "name" => "M", "size" => 4, "precision" => 6, "scale" => 2 }
    big = { "type" => "bytes", "logicalType" => "big-decimal" }
    { DECIMAL => [["-12.5", "04cf2c"], ["0", "0200"], ["999999999.999", nil], ["-0.001", "02ff"]],
      fixed => [["-0.01", "ffffffff"], ["9999.99", "000f423f"]],
      { **DECIMAL, "precision" => 40, "scale" => 0 } => [["1e38", nil]],
      big => [["1207.5", "08042f2b02"], ["-1e30", nil]] }.each do |schema, values|
      values.each do |text, hex|
        bytes = encode(BigDecimal(text), schema)
        assert_equal hex, bytes.unpack1("H*"), text if hex
        made = decoder(schema).decode(bytes)
        assert_equal BigDecimal(text), made
        assert_kind_of BigDecimal, made
      end
    end
    error = assert_raises(Pelton::EncodeError) { encode(BigDecimal("1.2345"), DECIMAL) }
    assert_includes error.message, "expected decimal of 12 digits: at most 9 before and 3 after the decimal point, " \
                                   "got a decimal with 1 digits before and 4 after the decimal point"
    assert_raises(Pelton::EncodeError) { encode(BigDecimal("NaN"), DECIMAL) }
    assert_raises(Pelton::EncodeError) { encode(BigDecimal("1e99999999"), DECIMAL) }
  end

  # "123456789.00" with precision 10 and scale 2: the error named 0 digits after the decimal point, which are no fault.
  def test_decimal_with_too_many_digits_before_the_point_names_their_number
    skip "no gem bigdecimal for this Ruby" unless defined?(BigDecimal)
    schema = { **DECIMAL, "precision" => 10, "scale" => 2 }
    wanted = "expected decimal of 10 digits: at most 8 before and 2 after the decimal point, got"
    { BigDecimal("123456789.00") => "a decimal with 9 digits before and 0 after the decimal point",
      BigDecimal("-1.5e20") => "a decimal with 21 digits before and 0 after the decimal point",
      BigDecimal("0.001") => "a decimal with 0 digits before and 3 after the decimal point",
      -123_456_789 => "an Integer of 9 digits" }.each do |value, got|
      error = assert_raises(Pelton::EncodeError) { encode(value, schema) }
      assert_includes error.message, "#{wanted} #{got}"
    end
  end

  # A million million zeros would have ended the process.
  def test_a_fixed_that_is_larger_than_a_document
    huge = { "type" => "fixed", "name" => "F", "size" => 10**12, "logicalType" => "decimal", "precision" => 4 }
    assert_includes assert_raises(Pelton::EncodeError) { encode(1, huge) }.message, "more than 268435455 bytes"
    assert_raises(Pelton::EncodeError) { encode("x", huge.except("logicalType")) }
    assert_includes assert_raises(Pelton::DecodeError) { decoder(huge).decode("\x01") }.message, "ends too early"
  end

  # "é", of one byte, two, two other ones.
  def test_text_in_other_encodings
    latin, utf16 = %w[ISO-8859-1 UTF-16LE].map { |name| "é".encode(name) }
    both = { "type" => "map", "values" => %w[string bytes] }
    [latin, utf16].each do |text|
      assert_equal "é", round_trip(text, "string"), "characters are UTF-8"
      assert_equal text.b, round_trip(text, "bytes"), "bytes are what they are"
      assert_equal text.b, round_trip(text, { "type" => "fixed", "name" => "F", "size" => text.bytesize })
      assert_equal({ "é" => "é" }, round_trip({ text => text }, both))
    end
    assert_equal "A", round_trip("A".encode("UTF-16BE"), { "type" => "enum", "name" => "E", "symbols" => ["A"] })
    nowhere = "\x81\x82".dup.force_encoding("EUC-JP")
    error = assert_raises(Pelton::EncodeError) { encode(nowhere, "string") }
    assert_includes error.message, "expected string, got a String of 2 bytes in EUC-JP: it is not valid UTF-8"
    assert_equal nowhere.b, round_trip(nowhere, %w[string bytes])
    assert_includes assert_raises(Pelton::EncodeError) { encode("\xff".b, "string") }.message, "a binary String of 1"
    assert_includes assert_raises(Pelton::EncodeError) { encode("\xff", "string") }.message, "a binary String of 1"
  end

  def test_decimals_of_thousands_of_digits
    skip "no bigdecimal" unless defined?(BigDecimal)
    long = { "type" => "bytes", "logicalType" => "decimal", "precision" => 4096, "scale" => 4000 }
    text = "-#{"7" * 96}.#{"3" * 4000}"
    assert_equal BigDecimal(text), round_trip(BigDecimal(text), long)
    assert_equal BigDecimal("1"), round_trip(1, long)
    assert_raises(Pelton::EncodeError) { encode(10**96, long) }
  end

  # What may be null is no deeper for it.
  def test_values_as_deep_as_they_are_read
    list = { "type" => "record", "name" => "L", "fields" => [{ "name" => "next", "type" => %w[null L] }] }
    deep = ->(count) { count.times.inject(nil) { |inside, _| { "next" => inside } } }
    assert_equal deep[100], round_trip(deep[100], list)
    assert_raises(Pelton::EncodeError) { encode(deep[101], list) }
  end

  def test_integers_are_decimals_and_floats_are_none
    assert_equal "061e8480", encode(2000, DECIMAL).unpack1("H*")
    error = assert_raises(Pelton::EncodeError) { encode(10**12, DECIMAL) }
    assert_includes error.message, "got an Integer of 13 digits"
    assert_raises(Pelton::EncodeError) { encode(1.5, DECIMAL) }
  end

  def test_decimals_without_the_gem_bigdecimal_are_a_config_error
    said = in_child do
      Object.__send__(:remove_const, :BigDecimal) if defined?(::BigDecimal)
      Pelton::Avro.define_singleton_method(:require) { |name| raise LoadError, "cannot load such file -- #{name}" }
      assert_raises(Pelton::ConfigError) { decoder(DECIMAL).decode(encode(2, DECIMAL)) }.message
    end
    assert_includes said, "add the gem bigdecimal to the Gemfile"
  end

  def test_a_time_beyond_its_unit_is_rounded_down
    millis = { "type" => "long", "logicalType" => "timestamp-millis" }
    assert_equal Time.at(1, 5, :millisecond), round_trip(Time.at(1, 5_999_999, :nsec), millis)
    assert_equal Time.at(-2, 999, :millisecond), round_trip(Time.at(-2, 999_900, :usec), millis)
    assert_equal 1500, Pelton::Avro::Decoder.new(schema: "long").decode(encode(Time.at(1.5), millis))
  end

  UNFIT = {
    { "id" => "7" } => "id: expected long, got a String of 1 byte",
    { "id" => 2**63 } => "id: expected long, got a decimal with 19 digits before and 0 after the decimal point",
    { "kind" => "LOST" } => "kind: expected a symbol of enum shop.Kind, got a String of 4 bytes",
    { "day" => Time.now } => "day: expected date, got a Time",
    { "note" => 3 } => "note: expected null or string, got an Integer of 2 bits",
    { "lines" => [{ "sku" => "a", "price" => 1 }, { "sku" => "a", "price" => nil }] } =>
      "lines[1].price: expected double, got nil",
    { "lines" => [{ "sku" => "a" }] } => "lines[0].price: is missing",
    { "lines" => {} } => "lines: expected array, got a Hash of 0",
    { "tags" => { "a" => 1 } } => "tags[…]: expected string, got an Integer of 1 bits",
    { "tags" => { 1 => "a" } } => "tags: expected map, got a Hash with a key of class Integer",
    { "totl" => 1 } => "totl: shop.Order has no such field",
    { "raw" => Object.new } => "raw: expected bytes, got an object of class Object"
  }.freeze

  def test_value_that_does_not_fit_the_schema_is_named_with_its_path
    UNFIT.each do |change, reason|
      error = assert_raises(Pelton::EncodeError, reason) { encode(VALUE.merge(change)) }
      assert_includes error.message, "the value does not fit shop.Order: #{reason}"
      assert_equal "shop.Order", error.schema
    end
  end

  # Each took what 2 ** 101 (2 ** 40) values take, and nothing could interrupt it: hence a process of its own.
  def test_a_value_that_contains_itself_or_is_written_for_ever_is_refused_at_once
    skip "AddressSanitizer needs more addresses than the limit leaves" if ENV["ASAN_OPTIONS"]

    status, output = in_process(<<~RUBY, limit: 120)
      require "pelton"
      Process.setrlimit(:AS, 4 << 30)
      list = []
      list << list << list
      parent = { "children" => [] }
      2.times { parent["children"] << { "parent" => parent } }
      ints = Pelton::Registry::Schema.new('{"type":"array","items":"int"}')
      long = "x" * (1 << 20)
      shared, texts = [1, long].map { |part| 40.times.inject(part) { |value, _| [value, value] } }
      [list, parent, { list => 1 }, shared, texts].each do |endless|
        ints.encode(endless)
      rescue Pelton::EncodeError => e
        puts e.message
      end
    RUBY
    assert_predicate status, :success?, output[0, 400]
    deep = "it is nested deeper than 100 levels, or contains itself"
    large = "its values take more than 1000000000 bytes"
    assert_equal [deep, deep, deep, large, large],
                 output.lines(chomp: true).map { |line| line.delete_prefix("the value does not fit the schema: ") }
  end

  def test_a_field_left_out_nests_no_deeper_than_one_that_is_null
    list = { "type" => "record", "name" => "L", "fields" => [{ "name" => "next", "type" => %w[null L] }] }
    of = ->(depth, last) { (depth - 1).times.inject(last) { |inside, _| { "next" => inside } } }
    [{}, { "next" => nil }].each do |last|
      assert_equal 100, encode(of.(100, last), list).bytesize
      error = assert_raises(Pelton::EncodeError) { encode(of.(101, last), list) }
      assert_includes error.message, "is nested deeper than 100 levels"
    end
  end

  def test_unions_take_the_branch_that_fits_wholly
    a = { "type" => "record", "name" => "A", "fields" => [{ "name" => "x", "type" => "int" }] }
    b = { "type" => "record", "name" => "B", "fields" => [{ "name" => "x", "type" => "string" }] }
    union = ["null", "boolean", "int", "long", "double", "bytes", a, b]
    [nil, true, 5, 2**40, 0.5, "\xff".b, { "x" => 1 }, { "x" => "s" }].each_with_index do |value, branch|
      bytes = encode(value, union)
      assert_equal branch * 2, bytes.getbyte(0), value.inspect
      made = decoder(union).decode(bytes)
      value.nil? ? assert_nil(made) : assert_equal(value, made)
    end
    error = assert_raises(Pelton::EncodeError) { encode({ "y" => 1 }, union) }
    assert_includes error.message, "expected null or boolean or int or "
  end

  MALFORMED = { "" => "too early", "0e" => "too early", "0e02ff" => "too early",
                "0e#{"ff" * 10}" => "more than 64 bits" }.freeze

  def test_unions_take_the_number_that_loses_nothing
    assert_equal((2**60) + 1, decoder(%w[double long]).decode(encode((2**60) + 1, %w[double long])))
    assert_equal 0.1, decoder(%w[float double]).decode(encode(0.1, %w[float double]))
    assert_equal 0.5, decoder(%w[float string]).decode(encode(0.5, %w[float string]))
  end

  # Each level had doubled the time: for ever at 40.
  def test_a_deep_value_that_more_than_one_branch_could_take
    branches = ["null", "int", "And", "Or"]
    left = { "name" => "left", "type" => branches }
    or_type = { "type" => "record", "name" => "Or", "fields" => [left, { "name" => "or", "type" => "int" }] }
    and_type = { "type" => "record", "name" => "And",
                 "fields" => [{ "name" => "left", "type" => ["null", "int", "And", or_type] },
                              { "name" => "and", "type" => "int" }] }
    schema = Pelton::Registry::Schema.of(["int", and_type, "Or"])
    good = 40.times.inject(5) { |inside, _| { "left" => inside, "or" => 1 } }
    assert_equal good, decoder(schema).decode(schema.encode(good))
    bad = 40.times.inject("x") { |inside, _| { "left" => inside, "or" => 1 } }
    assert_raises(Pelton::EncodeError) { schema.encode(bad) }
  end

  # Such a default has no end, and took one.
  def test_defaults_that_contain_each_other
    field = ->(type) { { "name" => "f", "type" => type, "default" => {} } }
    second = { "type" => "record", "name" => "B", "fields" => [field.(%w[A B])] }
    first = { "type" => "record", "name" => "A", "fields" => [field.(["A", second])] }
    reader = decoder(first, writer: { "type" => "record", "name" => "A", "fields" => [] })
    assert_includes assert_raises(Pelton::DecodeError) { reader.decode("") }.message, "A.f"
  end

  def test_zero_without_digits_behind_the_point
    skip "no bigdecimal" unless defined?(BigDecimal)
    schema = { "type" => "bytes", "logicalType" => "decimal", "precision" => 4 }
    assert_equal [0, 0, 100], [BigDecimal("0"), BigDecimal("-0"), BigDecimal("1e2")].map { |value|
      decoder(schema).decode(encode(value, schema)).to_i
    }
  end

  def test_a_name_that_can_be_no_symbol_is_a_decode_error
    map = decoder({ "type" => "map", "values" => "int" }, symbolize_names: true)
    assert_raises(Pelton::DecodeError) { map.decode("\x02\x02\xff\x02\x00".b) }
  end

  def test_error_for_an_invalid_registry_does_not_show_it
    error = assert_raises(Pelton::ConfigError) { Pelton::Avro::Decoder.new(registry: ["http://me:hush@one"]) }
    refute_includes error.message, "hush"
  end

  def test_bytes_that_are_no_document_raise_a_decode_error
    MALFORMED.each do |hex, reason|
      error = assert_raises(Pelton::DecodeError) { decoder.decode([hex].pack("H*")) }
      assert_includes error.message, reason
    end
    assert_raises(TypeError) { decoder.decode(nil) }
  end

  # A String that is no UTF-8 stays what it is, as with the avro gem.
  def test_text_that_is_no_text
    made = decoder("string").decode("\x02\xff".b)
    assert_equal "\xff", made
    refute_predicate made, :valid_encoding?
  end

  def test_symbols_in_every_encoding
    assert_equal "\x04\xC3\xA9".b, encode("é".encode("ISO-8859-1").to_sym, "string")
    error = assert_raises(Pelton::EncodeError) { encode("\xff".b.to_sym, "string") }
    assert_includes error.message, "expected string, got"
    error = assert_raises(Pelton::EncodeError) { encode({ "\xff".b.to_sym => 1 }, { type: "map", values: "int" }) }
    assert_includes error.message, "expected map, got"
  end

  # Dates and decimals are calls of Ruby, in whose midst other threads build, too.
  def test_threads_that_build_at_the_same_time
    bytes = encode(VALUE)
    made = Array.new(8) { Thread.new { Array.new(300) { decoder.decode(bytes) } } }.flat_map(&:value)
    assert_equal [VALUE], made.uniq
  end

  def test_a_date_that_is_built_while_its_class_builds_too
    bytes = encode(VALUE)
    nested = []
    trace = TracePoint.new(:c_call) do |call|
      nested << decoder.decode(bytes) if call.method_id == :jd
    end
    made = trace.enable { decoder.decode(bytes) }
    assert_equal [VALUE, VALUE], [made, *nested], "a trace calls itself not"
  end

  def test_under_gc_stress
    bytes = encode(VALUE)
    frozen = decoder(ORDER, freeze: true)
    GC.stress = true
    made = [decoder.decode(bytes), frozen.decode(bytes), encode(VALUE)]
    schema = Pelton::Registry::Schema.new('{"type":"array","items":"long"}')
    assert_raises(Pelton::EncodeError) { schema.encode([1, "x"]) }
    GC.stress = false
    assert_equal [VALUE, VALUE, bytes], made
  ensure
    GC.stress = false
  end
end
