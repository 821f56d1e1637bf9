# frozen_string_literal: true

require "test_helper"
require "pelton"
require "tmpdir"

# Schemas from a folder.
class NativeRegistryFilesTest < Minitest::Test
  INT = '{"type":"record","name":"shop.R","fields":[{"name":"a","type":"int"}]}'
  LONG = '{"type":"record","name":"shop.R","fields":[{"name":"a","type":"long"}]}'

  def test_files
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "orders-value.7.avsc"),
                 '{"type":"record","name":"shop.Order","fields":[{"name":"line","type":"Line"}]}')
      File.write(File.join(folder, "line.avsc"), '{"type":"record","name":"Line","namespace":"shop","fields":[]}')
      File.write(File.join(folder, "12.avsc"), '"long"')
      registry = Pelton::Registry.files(folder)
      assert_equal "shop.Order", registry.schema(7).name
      assert_equal 7, registry.latest("orders-value").id
      assert_equal "shop.Line", registry.latest("line").name
      assert_equal "\x0e", registry.schema(12).encode(7)
      print = registry.schema(12).fingerprint
      assert_equal 12, registry.fingerprint(print).id
      assert_predicate assert_raises(Pelton::RegistryError) { registry.schema(8) }, :missing?
      assert_equal 7, registry.id_of("orders-value", registry.schema(7))
    end
    assert_raises(Pelton::ConfigError) { Pelton::Registry.files("/nowhere") }
  end

  def in_files(texts)
    Dir.mktmpdir do |folder|
      texts.each { |name, text| File.write(File.join(folder, name), text) }
      yield Pelton::Registry.files(folder)
    end
  end

  def test_a_file_that_is_no_schema_fails_alone
    texts = { "7.avsc" => INT, "bad.avsc" => "{", "wrong.avsc" => '"nonsense"', "9.avsc" => "\xff",
              "12.avsc" => "[" * 2000, "deep.avsc" => ("[" * 1001) + ("]" * 1001) }
    in_files(texts) do |registry|
      assert_equal INT, registry.schema(7).text
      assert_equal 7, registry.fingerprint(registry.schema(7).fingerprint).id
      { "bad" => /bad.avsc: is not valid JSON/, "deep" => /deep.avsc: .*is not valid JSON/,
        "wrong" => /wrong.avsc: schema: the type "nonsense" is not defined/ }
        .each do |subject, reason|
        error = assert_raises(Pelton::RegistryError) { registry.latest(subject) }
        assert_match reason, error.message
        refute_predicate error, :missing?
      end
      [9, 12].each { |id| assert_raises(Pelton::RegistryError) { registry.schema(id) } }
      missing = assert_raises(Pelton::RegistryError) { registry.schema(8) }
      assert_predicate missing, :missing?
      assert_includes missing.message, "avsc: ", "one of the broken files may be the one"
    end
  end

  def test_files_with_versions_of_a_record
    texts = { "7.avsc" => INT, "9.avsc" => LONG, "r-value.10.avsc" => LONG, "r-value.8.avsc" => INT,
              "list.avsc" => '{"type":"array","items":"shop.R"}' }
    in_files(texts) do |registry|
      assert_equal [INT, LONG], [registry.schema(7).text, registry.schema(9).text]
      assert_equal [10, 8, 10], [registry.latest("r-value"), registry.version("r-value", 1),
                                 registry.version("r-value", 2)].map(&:id)
      assert_equal [8, 10], [7, 9].map { |id| registry.id_of("r-value", registry.schema(id)) }
      assert_predicate assert_raises(Pelton::RegistryError) { registry.version("r-value", 3) }, :missing?
      error = assert_raises(Pelton::RegistryError) { registry.latest("list") }
      assert_includes error.message, "shop.R: is defined differently in 7.avsc, 9.avsc, r-value.10.avsc, " \
                                     "r-value.8.avsc: keep one, and write the other type into the schemas that use it"
    end
  end

  # The serializer of docs/guides/shared-avro-types.md: only orders are written with a number.
  def test_shared_type_needs_no_number_in_its_file_s_name
    address = Pelton::Registry::Schema.new('{"type":"record","name":"shop.Address","fields":[]}')
    text = '{"type":"record","name":"shop.Order","fields":[{"name":"to","type":"shop.Address"}]}'
    in_files("shop.Address-value.avsc" => address.text, "orders-value.7.avsc" => text) do |registry|
      version = registry.version_of("shop.Address-value", address)
      order = Pelton::Registry::Schema.new(
        text, references: [address.text],
              named: [{ "name" => "shop.Address", "subject" => "shop.Address-value", "version" => version }]
      )
      assert_equal [1, 7, 7], [version, registry.id_of("orders-value", order), registry.register("orders-value", order)]
      serializer = Pelton::Avro::Serializer.new(registry: registry, schema: order, subject: "orders-value")
      assert_equal "\0\0\0\0\a".b, serializer.serialize({ "to" => {} })
      %i[id_of register].each do |call|
        error = assert_raises(Pelton::RegistryError) { registry.public_send(call, "shop.Address-value", address) }
        assert_includes error.message, "its file name has no id: rename it to shop.Address-value.<id>.avsc"
      end
    end
  end

  def test_folder_finds_a_schema_by_its_types_not_by_its_text
    other = INT.sub("{", '{ "doc": "x", ')
    in_files("r-value.8.avsc" => INT) do |registry|
      same, long = [other, LONG].map { |text| Pelton::Registry::Schema.new(text) }
      assert_equal [8, 1], [registry.id_of("r-value", same), registry.version_of("r-value", same)]
      error = assert_raises(Pelton::RegistryError) { registry.id_of("r-value", long) }
      assert_predicate error, :missing?
      assert_includes error.message, "with another schema"
    end
  end

  # A test reads an old message after the type of another file changed.
  def test_old_schema_has_the_old_type_itself
    list = ->(items) { %({"type":"record","name":"shop.L","fields":[{"name":"r","type":#{items}}]}) }
    in_files({ "l.1.avsc" => list.call(INT), "l.2.avsc" => list.call('"shop.R"'), "r.3.avsc" => LONG }) do |registry|
      canonical = [1, 2].map { |id| registry.schema(id).canonical }
      assert_equal([true, true], canonical.zip(%w[int long]).map { |text, type| text.include?(%("type":"#{type}")) })
    end
  end

  def test_a_file_that_has_what_another_one_is
    line = '{"type":"record","name":"shop.Line","fields":[]}'
    order = ->(type) { %({"type":"record","name":"shop.Order","fields":[{"name":"Line","type":#{type}}]}) }
    in_files("lines-value.avsc" => line, "orders-value.avsc" => order.call(line), "o.avsc" => order.call('"Line"'),
             "lists.avsc" => '{"type":"map","values":["null",{"type":"array","items":"shop.Line"}]}') do |registry|
      schemas = %w[lines-value orders-value o lists].map { |subject| registry.latest(subject) }
      assert_equal [0, 0, 1, 1], schemas.map { |schema| schema.references.size }
      assert_equal schemas[1].canonical, schemas[2].canonical
    end
  end
end
