# frozen_string_literal: true

require "date"
require "test_helper"
require "pelton/app"
require "pelton/cli/cli"
require "pelton/cli/doctor"

# Conditions of `where` on Avro's fields, checked before a message arrives: by the start, and by `pelton doctor`.
class AvroFieldTypesTest < Minitest::Test
  class Consumer < Pelton::Consumer
    def process(_message) = nil
  end

  LINE = JSON.generate(type: "record", name: "shop.Line",
                       fields: [{ name: "price", type: { type: "bytes", logicalType: "decimal", precision: 9,
                                                         scale: 2 } }])
  ORDER = JSON.generate(
    type: "record", name: "shop.Order",
    fields: [{ name: "id", type: "long" }, { name: "lines", type: { type: "array", items: "Line" } },
             { name: "kind", type: ["null", { type: "enum", name: "Kind", symbols: %w[PAID OPEN] }] },
             { name: "tags", type: { type: "map", values: %w[null string] } },
             { name: "before", type: %w[null Order] }, { name: "last", type: "Kind" },
             { name: "at", type: { type: "long", logicalType: "timestamp-millis" } },
             { name: "day", type: { type: "int", logicalType: "date" } },
             { name: "vip", type: "boolean" }, { name: "any", type: %w[null string double] },
             { name: "mark", type: { type: "fixed", name: "other.Mark", size: 12, logicalType: "duration" } }]
  )
  SCHEMA = Pelton::Registry::Schema.new(ORDER, references: [LINE])
  TYPES = Pelton::Avro::FieldTypes.new(SCHEMA)

  def test_types_of_paths
    { ["id"] => %w[long], ["lines", 0, "price"] => %w[bytes], ["kind"] => %w[null enum],
      %w[tags x] => %w[null string],
      %w[before before id] => %w[long], ["last"] => %w[enum], %w[mark days] => %w[long], ["mark"] => %w[fixed],
      ["lines", "price"] => [], ["lines", 0, "prise"] => [], ["id", "x"] => [], ["tags", 0] => [], ["Kind"] => [],
      %w[mark years] => [], ["kind", "PAID"] => [] }.each do |path, types|
      assert_equal types, TYPES.at(path).map { |json| json["type"] }, path.inspect
    end
  end

  def test_values_that_no_field_ever_equals
    fits = [["id", 7], ["id", 7.5], ["kind", "PAID"], ["kind", nil], ["at", Time.now], ["day", Date.today],
            ["vip", true], ["any", "x"], ["any", 1], ["unknown", "x"]]
    fits.each { |name, value| assert_nil TYPES.mismatch([name], value), "#{name} #{value.inspect}" }
    { ["id", "7"] => '"7" never matches long: compare it with a number',
      %w[kind REFUNDED] => 'Kind has no symbol "REFUNDED"',
      ["kind", 1] => "1 never matches enum: compare it with a String",
      ["at", 5] => "5 never matches timestamp-millis: compare it with a Time",
      ["day", "x"] => '"x" never matches date: compare it with a Date',
      ["vip", "yes"] => '"yes" never matches boolean: compare it with true or false',
      ["any", true] => "true never matches string or double: compare it with a String or a number",
      ["lines", 1] => "1 never matches array: compare it with one of its fields" }.each do |(name, value), why|
      assert_equal why, TYPES.mismatch([name], value)
    end
    assert_equal '"9.99" never matches decimal: compare it with a number', TYPES.mismatch(["lines", 0, "price"], "9.99")
  end

  # All messages were dropped, without a word.
  def test_where_on_a_field_that_the_reader_schema_lacks_is_refused
    error = assert_raises(Pelton::ConfigError) { app { where("kund").eq("PAID") } }
    assert_includes error.message, 'topic orders: where("kund"): the schema shop.Order has no such field'
    error = assert_raises(Pelton::ConfigError) do
      app { where("id").gt(1).and(where.key.exists | where("id", 0).exists) }
    end
    assert_includes error.message, 'where("id", 0)'
    app { where("before", "lines", 0, "price").gt(1) }
    routes(decode: [:avro, { registry: "http://localhost:8081" }]) { where("kund").eq("PAID") } # each has its own
    schema = SCHEMA
    error = assert_raises(Pelton::ConfigError) do
      routes(decode: [:avro, { writer: schema, framing: :none }]) { where("kund").exists }
    end
    assert_includes error.message, "has no such field"
  end

  def test_doctor_warns_of_values_that_never_match
    report = Pelton::CLI::Doctor::Report.new
    app = app { where("kind").in("PAID", "REFUNDED").or(where("lines", 0, "price").gt("9.99")).and(where("id").exists) }
    Pelton::CLI::Doctor::Topics.new(app.config, app.routes.groups(app.config), {}, Pelton::Native).examine(report)
    warnings = report.findings.select { |finding| finding[:level] == :warning }.map { |finding| finding[:text] }
    assert_equal ['where("kind"): Kind has no symbol "REFUNDED"',
                  'where("lines", 0, "price"): "9.99" never matches decimal: compare it with a number'], warnings
  end

  private

  def app(&block) = routes(decode: [:avro, { registry: "http://localhost:8081", schema: SCHEMA }], &block)

  def routes(decode:, &block)
    app = Pelton::App.new
    app.configure { |config| config.group_id = "billing" }
    format, options = decode
    app.routes do
      topic("orders", to: Consumer) do
        decode(format, **options)
        instance_exec(&block)
      end
    end
    app
  end
end
