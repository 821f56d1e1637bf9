# frozen_string_literal: true

require_relative "../test_helper"
begin
  require "bigdecimal"
rescue LoadError
  nil # a gem from Ruby 3.4 on
end
require "pelton/cli/messages/avro_values"
require "pelton/registry"

# The values that `pelton produce --format avro` makes of a line's JSON.
class AvroValuesTest < Minitest::Test
  Values = Pelton::CLI::AvroValues
  DECIMAL = { type: "bytes", logicalType: "decimal", precision: 9, scale: 2 }.freeze
  MILLIS = { type: "long", logicalType: "timestamp-millis" }.freeze
  NOON = Time.utc(2026, 11, 29, 12)

  def of(type, json, references: [])
    schema = Pelton::Registry::Schema.new(JSON.generate(type), references: references)
    Values.new(schema).of(JSON.parse(json, decimal_class: Values::Number))
  end

  def record(name, **fields)
    { type: "record", name: name, fields: fields.map { |field, type| { name: field, type: type } } }
  end

  def test_decimals_keep_all_digits_of_numbers_and_texts
    skip "the gem bigdecimal is missing" unless defined?(BigDecimal)
    %w[9.99 12345678901234567.89 7 1e2].each do |digits|
      assert_equal [BigDecimal(digits)] * 2, of({ type: "array", items: DECIMAL }, %([#{digits},"#{digits}"]))
    end
    assert_equal ["x", true, nil], of({ type: "array", items: DECIMAL }, '["x",true,null]')
  end

  def test_times_and_dates_are_iso_8601_or_numbers
    assert_equal [NOON, 7], of({ type: "array", items: MILLIS }, '["2026-11-29T12:00:00.000Z",7]')
    assert_equal [NOON], of({ type: "array", items: MILLIS.merge(logicalType: "local-timestamp-micros") },
                            '["2026-11-29T12:00:00Z"]')
    assert_equal [Date.new(2026, 11, 29), "noon"],
                 of({ type: "array", items: { type: "int", logicalType: "date" } }, '["2026-11-29","noon"]')
  end

  def test_bytes_are_texts_or_base64
    assert_equal ["x", "\xFF".b, { "base64" => "?" }, { "a" => 1.5 }],
                 of({ type: "array", items: "bytes" }, '["x",{"base64":"/w=="},{"base64":"?"},{"a":1.5}]')
  end

  def test_numbers_are_floats_elsewhere_also_in_fields_that_the_schema_lacks
    assert_equal({ "a" => 1.5, "b" => [2.5, { "c" => 3.5 }] },
                 of(record("R", a: "double"), '{"a":1.5,"b":[2.5,{"c":3.5}]}'))
    assert_equal [1.5, "x"], of({ type: "array", items: "long" }, '[1.5,"x"]')
  end

  def test_unions_take_the_first_branch_that_fits_and_a_text_stays_a_text
    type = ["null", MILLIS, "double", record("R", at: MILLIS)]
    assert_equal [nil, NOON, 1.5, { "at" => NOON }, true],
                 of({ type: "array", items: type },
                    '[null,"2026-11-29T12:00:00Z",1.5,{"at":"2026-11-29T12:00:00Z"},true]')
    assert_equal "2026-11-29T12:00:00Z", of([MILLIS, "string"], '"2026-11-29T12:00:00Z"')
  end

  def test_names_are_found_in_namespaces_references_and_their_own_records
    inner = JSON.generate({ namespace: "a", **record("Inner", at: MILLIS) })
    tree = { namespace: "a.b", **record("Tree", one: "a.Inner", next: %w[null Tree], plain: "string") }
    json = '{"one":{"at":"2026-11-29T12:00:00Z"},"next":{"one":{"at":7},"next":null,"plain":"y"},"plain":"x"}'
    assert_equal({ "one" => { "at" => NOON }, "next" => { "one" => { "at" => 7 }, "next" => nil, "plain" => "y" },
                   "plain" => "x" }, of(tree, json, references: [inner]))
  end
end
