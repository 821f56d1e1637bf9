# frozen_string_literal: true

require "test_helper"
require "json"
require "tmpdir"
require "pelton"
require "support/registry_double"

# A schema that CI checks before it is registered.
class NativeRegistryCompatibleTest < Minitest::Test
  include RegistryDoubles

  INT = Pelton::Registry::Schema.new('"int"')
  LONG = Pelton::Registry::Schema.new('"long"')
  ASKED = "POST /compatibility/subjects/a%20b%2Fc/versions/latest"

  def client(double, **options)
    Pelton::Registry.new(double.url, retries: 0, timeout: 10 * Guard::PATIENCE, **options)
  end

  def answered(status, body)
    double = new_double
    double.fail({ status: status, body: JSON.generate(body) })
    client(double).compatible?("r-value", INT)
  end

  def test_registry_says_whether_a_schema_is_compatible_and_registers_nothing
    double = new_double
    double.add("a b/c", INT.text)
    registry = client(double)
    assert_equal true, registry.compatible?("a b/c", LONG)
    double.registers = false
    assert_equal [false, true], [LONG, INT].map { |schema| registry.compatible?("a b/c", schema) }, "asked each time"
    assert_equal [ASKED] * 3, double.requests
    assert_equal 1, registry.latest("a b/c").version
  end

  # CI would fail for each new topic.
  def test_new_subject_accepts_any_schema
    assert_equal true, client(new_double).compatible?("new-value", INT)
    [40_401, 40_402].each { |code| assert_equal true, answered(404, { error_code: code, message: "not found" }) }
  end

  def test_schema_with_references_is_sent_with_their_names
    double = new_double
    named = [{ "name" => "Price", "subject" => "price", "version" => 1 }]
    references = ['{"type":"fixed","name":"Price","size":2}']
    schema = Pelton::Registry::Schema.new('{"type":"array","items":"Price"}', named: named, references: references)
    double.add("price", references.first)
    registry = client(double)
    registry.version("price", 1)
    double.fail(:echo)
    error = assert_raises(Pelton::RegistryError) { registry.compatible?("prices", schema) }
    assert_includes error.message, JSON.generate(schema: schema.text, schemaType: "AVRO", references: named)
  end

  # The registry would compare with the version that it has, and CI would let the schema pass.
  def test_schema_with_another_type_than_the_named_version_has_is_an_error
    double = new_double
    double.add("price", '{"type":"fixed","name":"Price","size":3}')
    schema = Pelton::Registry::Schema.new('{"type":"array","items":"Price"}',
                                          references: ['{"type":"fixed","name":"Price","size":2}'],
                                          named: [{ "name" => "Price", "subject" => "price", "version" => 1 }])
    error = assert_raises(Pelton::RegistryError) { client(double).compatible?("prices", schema) }
    assert_includes error.message, "subject prices: Price in references: is not that of price version 1"
  end

  # A commit may change both. Then the registry does not have the types yet.
  def test_schema_with_references_but_without_names_is_sent_with_its_types
    price = '{"type":"record","name":"Price","namespace":"shop","doc":"net","fields":[{"name":"kind","type":{' \
            '"type":"enum","name":"Kind","symbols":["A"]}},{"name":"more","type":["null","Price"],"default":null},' \
            '{"name":"code","type":"Code"}]}'
    order = '{"type":"record","name":"Order","aliases":["Sale"],"fields":[{"name":"kind","type":"shop.Kind"},' \
            '{"name":"prices","type":{"type":"array","items":"shop.Price"}},{"name":"last","type":"shop.Price"},' \
            '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}}]}'
    references = ['{"type":"fixed","name":"Code","size":2}', price, '{"type":"fixed","name":"Unused","size":1}']
    schema = Pelton::Registry::Schema.new(order, references: references)
    sent = compared(schema)
    assert_equal schema.canonical, sent.canonical
    kind, prices, last, at = JSON.parse(sent.text)["fields"].map { |field| field["type"] }
    found = prices["items"]
    assert_equal %w[enum shop.Price timestamp-millis], [kind["type"], last, at["logicalType"]]
    assert_equal ["net", "shop.Kind", { "name" => "more", "type" => %w[null shop.Price], "default" => nil }],
                 [found["doc"], found["fields"][0]["type"], found["fields"][1]]
    assert_equal [["Sale"], [], []], [JSON.parse(sent.text)["aliases"], sent.references, sent.named]
    refute_includes sent.text, "Unused"
  end

  # What the registry is asked about.
  def compared(schema)
    source = Object.new
    source.define_singleton_method(:compatible?) { |_subject, given| given }
    Pelton::Registry.new(source: source).compatible?("orders", schema)
  end

  # A wrong URL, a login that is refused and an outage would all let the schema pass.
  def test_anything_but_an_answer_is_an_error
    [[404, { error_code: 404 }], [404, { error_code: 40_403 }], [401, { error_code: 40_101 }], [422, {}],
     [200, {}], [200, { is_compatible: "true" }], [200, { is_compatible: nil }]].each do |status, body|
      error = assert_raises(Pelton::RegistryError, [status, body].inspect) { answered(status, body) }
      assert_includes error.message, "schema registry, subject r-value: "
    end
    error = assert_raises(Pelton::RegistryError) { client(new_double.tap(&:close)).compatible?("r-value", INT) }
    assert_nil error.status
  end

  def test_folder_in_place_of_a_registry_cannot_compare
    Dir.mktmpdir do |folder|
      error = assert_raises(Pelton::RegistryError) { Pelton::Registry.files(folder).compatible?("r-value", INT) }
      assert_includes error.message, "subject r-value: a folder has no compatibility mode: ask a registry by its URL"
    end
  end
end
