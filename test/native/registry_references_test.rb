# frozen_string_literal: true

require "test_helper"
require "json"
require "tmpdir"
require "pelton"
require "support/registry_double"

# Schemas that refer to types of other subjects: the number that the registry returns stands for the types that it has,
# so the serializer must write with the same.
class NativeRegistryReferencesTest < Minitest::Test
  include RegistryDoubles

  CALLS = %i[register id_of version_of].freeze

  def record(name, **fields)
    JSON.generate(type: "record", name: name, fields: fields.map { |field, type| { name: field, type: type } })
  end

  def schema(text, references = [], named = [])
    places = named.map { |name, subject, version| { "name" => name, "subject" => subject, "version" => version } }
    Pelton::Registry::Schema.new(text, references: references, named: places)
  end

  def client(double = @double, **options)
    Pelton::Registry.new(double.url, retries: 0, timeout: 10 * Guard::PATIENCE, **options)
  end

  def setup
    super
    @double = new_double
    @address = record("shop.Address", city: "string")
    @other = record("shop.Address", zip: "int", city: "string")
    @order = record("shop.Order", to: "shop.Address")
    @named = [["shop.Address", "address", 1]]
    client.register("address", schema(@address))
    client.register("orders", schema(@order, [@address], @named))
  end

  def refused(schema, call = :id_of, subject = "orders")
    assert_raises(Pelton::RegistryError, call) { client.public_send(call, subject, schema) }.message
  end

  def test_types_that_the_registry_has_are_taken
    assert_equal([2, 2, 1], CALLS.map { |call| client.public_send(call, "orders", schema(@order, [@address], @named)) })
  end

  # It returned the number of the old schema, and messages with the new address were unreadable.
  def test_another_type_than_the_named_version_has_is_refused
    CALLS.each do |call|
      message = refused(schema(@order, [@other], @named), call)
      assert_includes message, "subject orders: shop.Address in references: is not that of address version 1"
      assert_includes message, "put that version's text into references:, or register yours and name its version"
    end
    asked = @double.requests.count { |line| line == "GET /subjects/address/versions/1" }
    assert_equal 1 + CALLS.size, asked, "nothing is asked but the version"
  end

  def test_serializer_sends_nothing_with_another_type
    [true, false].each do |register|
      serializer = Pelton::Avro::Serializer.new(registry: client, schema: schema(@order, [@other], @named),
                                                subject: "orders", register: register)
      assert_raises(Pelton::RegistryError) { serializer.serialize({ to: { zip: 1, city: "Rome" } }) }
    end
  end

  def test_new_version_is_taken_once_it_is_named
    registry = client
    registry.register("address", schema(@other))
    number = registry.version_of("address", schema(@other))
    order = schema(@order, [@other], [["shop.Address", "address", number]])
    assert_equal [2, 4], [number, registry.register("orders", order)]
    assert_equal [1, 2], [[@address, @named], [@other, order.named.map(&:values)]].map { |text, named|
      registry.version_of("orders", schema(@order, [text], named))
    }
  end

  # The same registry object, which knows the number of the other schema already.
  def test_schemas_with_the_same_text_and_other_references_have_their_own_numbers
    registry = client
    CALLS.each do |call|
      known, other = [@address, @other].map { |text| schema(@order, [text], @named) }
      registry.public_send(call, "orders", known)
      assert_raises(Pelton::RegistryError, call) { registry.public_send(call, "orders", other) }
    end
  end

  def test_versions_are_asked_for_once
    registry = client
    before = @double.requests.size
    3.times { registry.id_of("orders", schema(@order, [@address], @named)) }
    assert_equal ["GET /subjects/address/versions/1", "POST /subjects/orders"], @double.requests.drop(before)
  end

  # Other spaces, documentation, defaults and order of keys, and a name that the namespace completes.
  def test_types_that_readers_read_alike_are_the_same
    text = '{ "name": "Address", "doc": "where", "namespace": "shop", "type": "record", "fields": [
      { "default": "Rome", "name": "city", "aliases": ["town"], "type": { "type": "string" } } ] }'
    assert_equal 2, client.id_of("orders", schema(@order, [text], @named))
  end

  def test_differences_of_which_canonical_forms_say_nothing_are_seen
    decimal = { type: "bytes", logicalType: "decimal", precision: 9 }
    types = [decimal, { **decimal, scale: 2 }, { **decimal, precision: 8 }, "bytes",
             { type: "long", logicalType: "timestamp-millis" }, { type: "long", logicalType: "timestamp-micros" },
             { type: "enum", name: "K", symbols: %w[A B] }, { type: "enum", name: "K", symbols: %w[B A] },
             { type: "fixed", name: "F", size: 2 }, { type: "fixed", name: "F", size: 3 },
             { type: "array", items: "int" }, { type: "map", values: "int" }, %w[null int], %w[int null]]
    texts = types.map { |type| record("shop.Address", city: type) }
    texts.each.with_index(2) { |text, version| assert_equal version, register_address(text, version) }
    texts.permutation(2).each do |text, other|
      assert_includes refused(schema(@order, [text], [["shop.Address", "address", texts.index(other) + 2]])),
                      "in references: is not that of address version #{texts.index(other) + 2}"
    end
  end

  def register_address(text, version)
    client.register("address", schema(text))
    client.register("orders", schema(@order, [text], [["shop.Address", "address", version]]))
    client.version_of("address", schema(text))
  end

  def test_type_that_a_reference_refers_to_is_compared
    line = record("shop.Line", to: "shop.Address")
    cart = record("shop.Cart", lines: { type: "array", items: "shop.Line" })
    client.register("line", schema(line, [@address], @named))
    named = [["shop.Line", "line", 1]]
    number = client.register("carts", schema(cart, [@address, line], named))
    assert_equal number, client.id_of("carts", schema(cart, [@address, line], named))
    assert_includes refused(schema(cart, [@other, line], named), :id_of, "carts"),
                    "shop.Address in references: is not that of line version 1"
  end

  def test_type_that_contains_itself
    tree = ->(type) { record("shop.Tree", leaf: type, next: ["null", "shop.Tree"]) }
    list = record("shop.List", first: "shop.Tree")
    client.register("tree", schema(tree.call("int")))
    named = [["shop.Tree", "tree", 1]]
    number = client.register("lists", schema(list, [tree.call("int")], named))
    assert_equal number, client.id_of("lists", schema(list, [tree.call("int")], named))
    assert_includes refused(schema(list, [tree.call("long")], named), :id_of, "lists"), "shop.Tree in references:"
  end

  # Some registries take a schema whose types they lack.
  def test_type_that_is_not_named_is_refused
    [[], [["shop.Order", "orders", 1]]].each do |named|
      schema = schema(record("shop.Cart", to: "shop.Price"), [record("shop.Price", cents: "long")], named)
      assert_includes refused(schema, :register, "carts"),
                      "subject carts: shop.Price is in references:, but not in named: name its subject and version"
    end
  end

  def test_reference_that_nothing_uses_needs_no_name
    assert_equal 3, client.register("prices", schema(record("shop.Price", cents: "long"), [@address]))
  end

  def test_version_that_the_registry_lacks
    error = assert_raises(Pelton::RegistryError) do
      client.id_of("orders", schema(@order, [@address], [["shop.Address", "address", 7]]))
    end
    assert_predicate error, :missing?
    assert_includes error.message, "subject address version 7: Version not found"
  end

  def test_named_without_a_version_is_a_config_error
    [{ "subject" => "address" }, "address", { subject: "address", version: "1" }].each do |wrong|
      schema = Pelton::Registry::Schema.new(@order, references: [@address], named: [wrong])
      error = assert_raises(Pelton::ConfigError, wrong.inspect) { client.id_of("orders", schema) }
      assert_includes error.message, "expected objects such as { \"name\" => \"shop.Price\""
    end
    symbols = [{ name: "shop.Address", subject: "address", version: 1 }]
    assert_equal 2, client.id_of("orders", Pelton::Registry::Schema.new(@order, references: [@address], named: symbols))
  end

  def test_outage_while_the_versions_are_asked_for_is_an_error
    registry = client
    @double.fail(503)
    error = assert_raises(Pelton::RegistryError) { registry.id_of("orders", schema(@order, [@address], @named)) }
    assert_equal 503, error.status
  end

  # So a consumer's account needs the right to read the references' subjects, too.
  def test_a_schema_s_references_are_asked_for_by_subject_and_version
    line = record("shop.Line", to: "shop.Address")
    client.register("line", schema(line, [@address], @named))
    named = [["shop.Line", "line", 1]]
    number = client.register("carts", schema(record("shop.Cart", first: "shop.Line"), [@address, line], named))
    references = ["GET /subjects/line/versions/1", "GET /subjects/address/versions/1"]
    { schema: [number, "GET /schemas/ids/#{number}"],
      latest: ["carts", "GET /subjects/carts/versions/latest"] }.each do |call, (wanted, request)|
      before = @double.requests.size
      assert_equal number, client.public_send(call, wanted).id
      assert_equal [request, *references], @double.requests.drop(before)
    end
    [nil, nil, 403].each { |fault| @double.fail(fault) }
    decoder = Pelton::Avro::Decoder.new(registry: client)
    error = assert_raises(Pelton::SchemaUnavailable) { decoder.decode([0, number].pack("CN")) }
    assert_equal [false, 403], [error.missing?, error.cause.status]
    assert_includes error.message, "reference address version 1 of schema #{number}"
  end

  # So many references take longer than the table of docs/guides/registry-outages.md says for one schema.
  def test_each_reference_has_rounds_of_its_own_and_the_first_that_fails_ends_the_look_up
    price = record("shop.Price", cents: "long")
    client.register("price", schema(price))
    named = [*@named, ["shop.Price", "price", 1]]
    cart = schema(record("shop.Cart", to: "shop.Address", total: "shop.Price"), [@address, price], named)
    number = client.register("carts", cart)
    registry = client(retries: 2, backoff: 0..0)
    before = @double.requests.size
    [nil, 503, 503, nil, 503, 503, 503].each { |fault| @double.fail(fault) }
    error = assert_raises(Pelton::RegistryError) { registry.schema(number) }
    assert_includes error.message, "reference price version 1 of schema #{number}"
    assert_equal [["GET /schemas/ids/#{number}"], ["GET /subjects/address/versions/1"] * 3,
                  ["GET /subjects/price/versions/1"] * 3].flatten, @double.requests.drop(before)
  end

  def test_schema_that_came_from_the_registry_is_taken
    assert_equal 2, client.id_of("orders", client.latest("orders"))
  end

  def test_version_of_a_schema_that_is_not_registered
    error = assert_raises(Pelton::RegistryError) { client.version_of("address", schema(@other)) }
    assert_predicate error, :missing?
    @double.fail({ status: 200, body: '{"id":1}' })
    error = assert_raises(Pelton::RegistryError) { client.version_of("address", schema(@address)) }
    assert_includes error.message, "its answer has no version"
  end

  def test_folder_has_versions_in_the_order_of_its_numbers
    Dir.mktmpdir do |folder|
      { "address.7" => @address, "address.9" => @other, "orders.8" => record("shop.Order", to: "string"),
        "plain" => '"int"' }.each { |name, text| File.write("#{folder}/#{name}.avsc", text) }
      registry = Pelton::Registry.files(folder)
      assert_equal([1, 2], [@address, @other].map { |text| registry.version_of("address", schema(text)) })
      assert_equal 1, registry.version_of("plain", schema('"int"'))
      error = assert_raises(Pelton::RegistryError) { registry.version_of("plain", schema('"long"')) }
      assert_predicate error, :missing?
    end
  end
end
