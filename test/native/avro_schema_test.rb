# frozen_string_literal: true

require "test_helper"
require "pelton"

# Schemas: what is taken for one, what is none, and what they refer to.
class NativeAvroSchemaTest < Minitest::Test
  def decoder(schema) = Pelton::Avro::Decoder.new(schema: schema)
  def encode(value, schema) = Pelton::Registry::Schema.of(schema).encode(value)

  def test_schemas_as_deep_as_their_types_may_be
    nested = 60.times.inject("int") do |inside, number|
      { "type" => "record", "name" => "R#{number}", "fields" => [{ "name" => "f", "type" => inside }] }
    end
    value = 60.times.inject(1) { |inside, _| { "f" => inside } }
    assert_equal value, decoder(nested).decode(encode(value, nested))
    assert_equal value, decoder(JSON.generate(nested, max_nesting: false)).decode(encode(value, nested))
  end

  SCHEMAS = {
    "{" => "not valid JSON", '"foo"' => 'type "foo" is not defined', "{}" => 'no "type"', "[[]]" => "contains a union",
    '["int","int"]' => "int twice", '{"type":"record","name":"R"}' => 'no "fields"', "7" => "7 is not a type",
    '{"type":"record","name":"a b","fields":[]}' => "not a valid type name",
    '{"type":"record","name":"R","fields":[{"name":"x","type":"Y"}]}' => 'R: x: the type "Y" is not defined',
    '{"type":"record","name":"R","fields":[{"name":"x","type":"int"},{"name":"x","type":"int"}]}' => "defined twice",
    '{"type":"enum","name":"E","symbols":["A"],"default":"B"}' => "is not one of its symbols",
    '{"type":"fixed","name":"F","size":-1}' => '"size" of 0 or more', '{"type":"array"}' => 'no "items"'
  }.freeze

  def test_invalid_schema_is_a_config_error
    SCHEMAS.each do |text, reason|
      error = assert_raises(Pelton::ConfigError, text) { Pelton::Registry::Schema.new(text) }
      assert_includes error.message, reason
    end
  end

  # Payloads of JSON leave them to Ruby.
  def test_numbers_that_ruby_does_not_leave_to_us
    { "4.9E-324" => 0.0.next_float, "18446744073709551616" => 2.0**64, "-0.0" => -0.0,
      "0.1000000000000000055511151231257827021181583404541015625" => 0.1, "1e-400" => 0.0 }.each do |digits, value|
      schema = %({"type":"record","name":"R","most":18446744073709551615,
                  "fields":[{"name":"a","type":"double","default":#{digits}}]})
      assert_equal [value].pack("E"), encode({}, schema), digits
    end
    ["01", "1.", ".5", "+1", "-", "--1", "1e", "1.e5", "-.5", "1.2.3", "-01.5", "0x1", "1e5.0", "inf"].each do |digits|
      assert_raises(Pelton::ConfigError, digits) { Pelton::Registry::Schema.new(%({"type":"int","most":#{digits}})) }
    end
  end

  def test_schemas_in_every_encoding
    text = '{"type":"enum","name":"E","symbols":["A"],"doc":"é"}'
    [text.b, text.encode("UTF-16LE"), text.encode("ISO-8859-1")].each do |given|
      schema = Pelton::Registry::Schema.new(given)
      assert_equal [text, Encoding::UTF_8], [schema.text, schema.text.encoding]
    end
    ["\"\xff\"", "\xff".b, "\xff".dup.force_encoding("UTF-16LE"),
     { "type" => "int", "a" => Float::NAN }].each do |given|
      error = assert_raises(Pelton::ConfigError) { Pelton::Registry::Schema.new(given) }
      assert_includes error.message, "schema"
      assert_raises(Pelton::ConfigError) { Pelton::Registry::Schema.new('"int"', references: [given.to_s]) }
    end
  end

  def test_a_schema_that_has_no_end_or_no_json_is_a_config_error
    endless = { "type" => "array" }.tap { |hash| hash["items"] = hash }
    [endless, { "type" => "int", "doc" => Float::NAN }].each do |schema|
      error = assert_raises(Pelton::ConfigError) { Pelton::Registry::Schema.new(schema) }
      assert_includes error.message, "schema: cannot be written as JSON: "
    end
  end

  def test_route_error_describes_a_bad_schema_without_repeating_it
    text = '{"type":"record","name":"A","fields":[{"name":"x","type":"strnig"}]}'
    wrong = lambda do |*words, **options|
      route = -> { topic("o", to: "Orders") { public_send(*words, **options) } }
      assert_raises(Pelton::ConfigError) { Pelton::App.new.routes { instance_exec(&route) } }
    end
    payload = wrong.call(:decode, :avro, schema: text).message
    assert_match(/\Atopic o: decode: schema: .*the type "strnig" is not defined\z/, payload)
    key = wrong.call(:key_deserializer, :avro, schema: text).message
    assert_equal payload.sub("decode", "key_deserializer"), key
  end

  def test_schemas_refer_to_others
    line = '{"type":"record","name":"shop.Line","fields":[{"name":"sku","type":"string"}]}'
    order = '{"type":"record","name":"shop.Order","fields":[{"name":"line","type":"Line"}]}'
    schema = Pelton::Registry::Schema.new(order, references: [line])
    assert_equal "shop.Order", schema.name
    assert_equal "\x02a", schema.encode({ "line" => { "sku" => "a" } })
    assert_includes schema.canonical, '"name":"shop.Line"'
  end
end
