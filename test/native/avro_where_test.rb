# frozen_string_literal: true

require "date"
require "test_helper"
require "pelton/app"
require "support/native_kit"
require "support/where_kit"

# Filters on Avro's logical types: the native side decides as Ruby does, and decides about times and dates itself.
class NativeAvroWhereTest < Minitest::Test
  include NativeKit
  include WhereKit

  Condition = Pelton::Routing::Condition

  TYPES = { "millis" => "timestamp-millis", "micros" => "timestamp-micros", "nanos" => "timestamp-nanos",
            "local" => "local-timestamp-millis" }.transform_values { |name| { type: "long", logicalType: name } }
          .merge("day" => { type: "int", logicalType: "date" },
                 "cost" => { type: "bytes", logicalType: "decimal",
                             precision: 9, scale: 2 },
                 "count" => "long", "ratio" => "double", "text" => "string")
  SCHEMA = JSON.generate(type: "record", name: "R",
                         fields: TYPES.map { |name, type| { name: name, type: ["null", type], default: nil } })
  DAY = Date.new(2026, 1, 2)
  TIMES = [Time.utc(1969, 12, 31, 23, 59, 59.5r), Time.utc(2026), Time.utc(2026, 1, 1, 0, 0, 0.001r)].freeze
  VALUES = { "millis" => TIMES, "micros" => [*TIMES, Time.at(7, 1, :usec)], "local" => TIMES,
             "nanos" => [*TIMES, Time.at(7, 1, :nsec)], "day" => [DAY, DAY - 1, Date.new(1960, 1, 1)],
             "cost" => WhereKit.decimals("10.5", "-1"), "count" => [10, (2**53) + 1, -1],
             "ratio" => [10.5, DAY.ajd.to_f, -1.0], "text" => ["10.5", "2026-01-01"] }.freeze
  LITERALS = [*TIMES, Time.at(7, 1, :nsec), Time.at(7, 0.5r, :nsec), Time.at(-7, -0.5r, :nsec), Time.at(2**60), DAY,
              DAY - 1, Date.new(1500, 1, 1), *WhereKit.decimals("10.5", "-1", "9007199254740993"), 10, 10.5,
              DAY.ajd.to_f, TIMES[1].to_i, TIMES[1].to_i * 1000, "2026-01-01", "10.5"].freeze

  def test_every_type_with_every_literal
    decoder = Pelton::Avro::Decoder.new(schema: SCHEMA)
    rows = [{}, *VALUES.flat_map { |name, values| values.map { |value| { name => value } } }]
    topic = topic_of_all(rows.map { |row| decoder.serializer.serialize(row) })
    format = { format: :avro, decoder: decoder }
    all = read_decoded(topic, rows.size, format)
    TYPES.keys.product(%i[in gt gteq lt lteq], LITERALS).each do |name, check, literal|
      tree = [:is, [:field, name], check, check == :in ? [literal] : literal].freeze
      wanted = all.select { |message| Condition.admits?(tree, message) }.map(&:offset)
      undecided, decided = read_decoded(topic, rows.size, format, tree).partition(&:undecided?)
      assert_equal wanted - undecided.map(&:offset), decided.map(&:offset), tree.inspect
      fields = undecided.flat_map { |message| message.payload.compact.keys }.uniq
      assert_empty fields - (WhereKit.decimal?(literal) ? %w[cost count ratio] : %w[cost]), tree.inspect
    end
  end

  def test_times_and_dates_are_compared
    decoder = Pelton::Avro::Decoder.new(schema: SCHEMA)
    rows = [{ "millis" => TIMES[1], "day" => DAY }, { "micros" => Time.at(7, 1, :usec) }, { "nanos" => TIMES[2] }, {}]
    topic = topic_of_all(rows.map { |row| decoder.serializer.serialize(row) })
    { -> { where("millis").eq(TIMES[1]) } => [0], -> { where("millis").gteq(TIMES[1].localtime("+09:00")) } => [0],
      -> { where("millis").not_eq(TIMES[1]) } => [1, 2, 3], -> { where("millis").gt(TIMES[1]) } => [],
      -> { where("micros").gt(Time.at(7, 0.5r, :usec)) } => [1],
      -> { where("micros").lt(Time.at(7, 1.5r, :usec)) } => [1],
      -> { where("nanos").in(TIMES) } => [2], -> { where("nanos").lteq(TIMES[1]) } => [],
      -> { where("day").eq(DAY) } => [0],
      -> { where("day").lt(DAY + 1) } => [0], -> { where("millis").exists & where("millis").gt(0) } => [] }
      .each do |words, expected|
      tree = tree_of(&words)
      told = read_decoded(topic, rows.size, { format: :avro, decoder: decoder }, tree)
      assert_equal [expected, []], [told.map(&:offset), told.select(&:undecided?)], tree.inspect
    end
  end
end
