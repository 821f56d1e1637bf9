# frozen_string_literal: true

require "test_helper"
require "pelton"
require "date"
begin
  require "bigdecimal"
rescue LoadError
  nil # a gem since Ruby 3.4: its values are left out
end

# test/vectors/avro/unions.jsonl has the branches that Java's Avro and fastavro choose. A Ruby value may stand for
# several of Java's: an Integer for an Integer and a Long, a Hash for a Map and a record. If only one of them has a
# branch, Pelton takes that branch. If several have, fastavro chooses among them. If none has, fastavro chooses.
class NativeAvroUnionsOfOthersTest < Minitest::Test
  HEAD, *ROWS = File.readlines(File.expand_path("../vectors/avro/unions.jsonl", __dir__)).map { JSON.parse(_1) }
  TYPES = HEAD.fetch("types")
  DAY = { "time-millis" => 86_400_000, "time-micros" => 86_400_000_000 }.freeze
  UUID = /\A\h{8}-\h{4}-\h{4}-\h{4}-\h{12}\z/

  def test_a_value_takes_the_branch_that_java_or_fastavro_choose
    checked = 0
    each_choice do |names, key, value, wanted|
      next unless wanted # nobody takes it; what Pelton takes nevertheless is in avro_union_test.rb

      assert_equal wanted, chosen(names, value), "#{key} in #{names}"
      checked += 1
    end
    assert_operator checked, :>, 1_500
  end

  def test_a_value_within_an_array_or_a_record_takes_the_same_branch
    each_choice do |names, key, value, wanted|
      next unless wanted

      union = names.map { TYPES.fetch(_1) }
      alone = encode(union, value)
      field = { "type" => "record", "name" => "Around", "fields" => [{ "name" => "f", "type" => union }] }
      assert_equal alone, encode(field, { "f" => value }), "#{key} in #{names}"
      list = encode({ "type" => "array", "items" => union }, [value])
      assert_equal "\2".b + alone + "\0".b, list, "#{key} in #{names}"
    end
  end

  private

  def each_choice
    ROWS.each do |row|
      row["choices"].each do |key, choices|
        value = HEAD.fetch("values").fetch(key)
        java, python = choices.map { |names| [*names].reject { |name| refused?(name, value) } }
        python = python.first
        made = ruby(value)
        next if made == :none

        wanted = java.size < 2 || !java.include?(python) ? java.first || python : python
        yield row["union"], key, made, wanted
      end
    end
  end

  # Pelton writes no value that is read as another one, or without a part of it.
  def refused?(name, value)
    kind = value.is_a?(Hash) && value.keys.first
    case name
    when *DAY.keys then !(0...DAY[name]).cover?(value)
    when "date" then kind != "$date" && !value.is_a?(Integer) # fastavro parses texts, and drops a Time's time of day
    when "uuid" then !(value.is_a?(String) && UUID.match?(value)) # all texts, for the others
    # Bytes are taken for the digits, and Python's are a sequence of numbers.
    when "decimal", "fixed decimal", "ints", "numbers", "strings" then kind == "$bytes"
    else (fields = TYPES[name]["fields"]) && !(value.keys - fields.map { |field| field["name"] }).empty?
    end
  end

  def chosen(names, value)
    names[encode(names.map { TYPES.fetch(_1) }, value).getbyte(0) / 2]
  rescue Pelton::EncodeError
    nil
  end

  def encode(schema, value) = Pelton::Registry::Schema.of(schema).encode(value)

  def ruby(value)
    return value.map { ruby(_1) } if value.is_a?(Array)
    return value unless value.is_a?(Hash)

    case value.first
    in ["$symbol", text] then text.to_sym
    in ["$bytes", digits] then [digits].pack("H*")
    in ["$decimal", digits] then defined?(BigDecimal) ? BigDecimal(digits) : :none
    in ["$date", day] then Date.iso8601(day)
    in ["$time", millis] then Time.at(0, millis, :millisecond)
    else value.transform_values { ruby(_1) }
    end
  end
end
