# frozen_string_literal: true

require "test_helper"
require "pelton"
require "support/registry_double"

# What a registry object asks once, and what it asks again.
class NativeRegistryMemoryTest < Minitest::Test
  include RegistryDoubles

  ADDRESS = '{"type":"record","name":"shop.Address","fields":[{"name":"city","type":"string"}]}'
  ORDER = '{"type":"record","name":"shop.Order","fields":[{"name":"to","type":"shop.Address"}]}'
  NAMED = { "name" => "shop.Address", "subject" => "shop.Address-value", "version" => 1 }.freeze
  CALLS = %i[register id_of version_of].freeze

  def setup
    super
    @double = new_double
    client.register("shop.Address-value", address)
    client.register("orders-value", order)
    @before = @double.requests.size
  end

  def client = Pelton::Registry.new(@double.url, retries: 0, timeout: 10 * Guard::PATIENCE)

  # New objects each time.
  def address(text = ADDRESS) = Pelton::Registry::Schema.new(+text)

  def order(version = 1)
    Pelton::Registry::Schema.new(+ORDER, references: [+ADDRESS], named: [{ **NAMED, "version" => version }])
  end

  def asked = @double.requests.drop(@before)

  def test_equal_schema_is_asked_about_once
    registry = client
    3.times { assert_equal([1, 1, 1], CALLS.map { |call| registry.public_send(call, "shop.Address-value", address) }) }
    found = "POST /subjects/shop.Address-value"
    assert_equal ["#{found}/versions", found, found], asked
  end

  def test_equal_schema_with_references_is_asked_about_once
    registry = client
    2.times { assert_equal([2, 2, 1], CALLS.map { |call| registry.public_send(call, "orders-value", order) }) }
    found = "POST /subjects/orders-value"
    assert_equal ["GET /subjects/shop.Address-value/versions/1", "#{found}/versions", found, found], asked
  end

  # A process that asks at boot needs no registry for a schema that it builds later.
  def test_known_answers_stay_during_an_outage
    registry = client
    known = CALLS.map { |call| registry.public_send(call, "orders-value", order) }
    @double.fail(503, times: 100)
    assert_equal(known, CALLS.map { |call| registry.public_send(call, "orders-value", order) })
    assert_raises(Pelton::RegistryError) { registry.version_of("copies-value", order) }
    assert_raises(Pelton::RegistryError) { registry.version_of("orders-value", order(2)) }
    assert_raises(Pelton::RegistryError) { registry.version_of("shop.Address-value", address("#{ADDRESS} ")) }
  end

  # Also where routes or serializers get a URL, because each makes an object of its own.
  def test_each_registry_object_asks_by_itself
    2.times { assert_equal 1, client.version_of("shop.Address-value", address) }
    decoders = Array.new(2) { Pelton::Avro::Decoder.new(registry: @double.url) }
    decoders.each { |decoder| assert_equal({ "city" => "Rome" }, decoder.decode("\0\0\0\0\1\x08Rome".b)) }
    assert_equal ["POST /subjects/shop.Address-value", "GET /schemas/ids/1"].flat_map { |line| [line] * 2 }, asked
    registry = client
    2.times { Pelton::Avro::Decoder.new(registry: registry).decode("\0\0\0\0\1\x08Rome".b) }
    assert_equal 3, asked.grep(/GET/).size
  end
end
