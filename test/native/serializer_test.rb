# frozen_string_literal: true

require "test_helper"
require "pelton"
require "support/registry_double"
require "support/zoned_time"
require "tmpdir"

# Avro payloads, keys and headers for producers, with numbers of a registry.
class NativeSerializerTest < Minitest::Test
  INT = '{"type":"record","name":"shop.R","fields":[{"name":"a","type":"int"}]}'
  LONG = '{"type":"record","name":"shop.R","fields":[{"name":"a","type":"long"}]}'

  def double = @double ||= RegistryDouble.new
  def client(**options) = Pelton::Registry.new(double.url, retries: 0, timeout: 20, open_timeout: 20, **options)
  def teardown = @double&.close

  def test_serializers
    registry = client(missing_ttl: 0)
    orders = Pelton::Avro::Serializer.new(registry: registry, schema: INT)
    assert_predicate assert_raises(Pelton::RegistryError) { orders.serialize({ a: 1 }, topic: "o") }, :missing?
    ready = Pelton::Avro::Serializer.new(registry: registry, schema: INT, register: true)
    assert_equal [0, 0, 0, 0, 1, 2], ready.serialize({ a: 1 }, topic: "o").bytes
    assert_equal [0, 0, 0, 0, 1, 2], orders.serialize({ a: 1 }, topic: "o").bytes
    latest = Pelton::Avro::Serializer.new(registry: registry)
    assert_equal [0, 0, 0, 0, 1, 4], latest.serialize({ a: 2 }, topic: "o").bytes
    assert_equal Encoding::BINARY, latest.serialize({ a: 2 }, topic: "o").encoding
    { record: "shop.R", topic_record: "o-shop.R", "mine" => "mine" }.each do |subject, name|
      Pelton::Avro::Serializer.new(registry: registry, schema: INT, subject: subject, register: true)
                              .serialize({ a: 1 }, topic: "o")
      assert_includes double.requests, "POST /subjects/#{name}/versions"
    end
    double.registers = false
    refused = Pelton::Avro::Serializer.new(registry: registry, schema: LONG, register: true)
    assert_equal 409, assert_raises(Pelton::RegistryError) { refused.serialize({ a: 1 }, topic: "o") }.status
  end

  # It was refused, though it is what each `created_at` in Rails is.
  def test_a_time_of_rails_is_written_like_a_time
    schema = JSON.generate(type: "record", name: "shop.T",
                           fields: [{ name: "at", type: { type: "long", logicalType: "timestamp-millis" } }])
    serializer = Pelton::Avro::Serializer.new(registry: client, schema: schema, register: true)
    time = Time.new(2026, 1, 1, 12, 0, Rational(5, 1000), "+02:00")
    written = [time, ZonedTime.new(time)].map { |at| serializer.serialize({ at: at }, topic: "o") }
    assert_equal written.first, written.last
  end

  def test_a_serializer_as_middleware
    double.add("o-value", INT)
    serializer = Pelton::Avro::Serializer.new(registry: client, topics: ["o"])
    assert_equal "\0\0\0\0\1\2".b, serializer.call({ topic: "o", payload: { a: 1 } })[:payload]
    [{ topic: "o", payload: "x" }, { topic: "o", payload: nil }, { topic: "p", payload: { a: 1 } }].each do |message|
      assert_same message, serializer.call(message)
    end
    assert_raises(Pelton::EncodeError) { serializer.call({ topic: "o", payload: { a: "x" } }) }
  end

  # As workers use one that is middleware: at the same time, and before the registry has answered.
  def test_serializer_is_used_by_several_threads_at_the_same_time
    id = double.add("o-value", INT)
    { "POST /subjects/o-value" => { schema: INT }, "POST /subjects/o-value/versions" => { schema: INT, register: true },
      "GET /subjects/o-value/versions/latest" => {} }.each do |request, options|
      serializer = Pelton::Avro::Serializer.new(registry: client, framing: :headers, **options)
      before = double.requests.size
      gate = Thread::Queue.new
      threads = Array.new(8) do |thread|
        Thread.new do
          gate.pop
          Array.new(200) { |i| serializer.call({ topic: "o", payload: { a: (thread * 200) + i } }) }
        end
      end
      gate.close
      made = threads.flat_map(&:value)
      reader = Pelton::Avro::Decoder.new(schema: INT)
      assert_equal([*0...1600], made.map { |message| reader.decode(message[:payload])["a"] })
      assert_equal([{ "__value_schema_id" => [0, id].pack("CN") }], made.map { |message| message[:headers] }.uniq)
      assert_equal [request], double.requests.drop(before)
    end
  end

  def test_the_number_in_a_header
    id = double.add("o-value", INT)
    serializer = Pelton::Avro::Serializer.new(registry: client, schema: INT, framing: :headers)
    assert_equal "\2".b, serializer.serialize({ a: 1 }, topic: "o")
    assert_equal({ "__value_schema_id" => [0, id].pack("CN") }, serializer.headers(topic: "o"))
    made = serializer.call({ topic: "o", payload: { a: 1 }, headers: { "x" => "y" } })
    assert_equal [%w[x __value_schema_id], "\2".b], [made[:headers].keys, made[:payload]]
    assert_equal ["__value_schema_id"], serializer.call({ topic: "o", payload: { a: 1 } })[:headers].keys
    assert_equal INT, client.guid(double.guid(id)).text
    assert_predicate assert_raises(Pelton::RegistryError) { client.guid(double.guid(9)) }, :missing?
    Dir.mktmpdir { |folder| assert_raises(Pelton::RegistryError) { Pelton::Registry.files(folder).guid("x") } }
    assert_empty Pelton::Avro::Serializer.new(schema: INT).headers
    assert_raises(Pelton::ConfigError) { Pelton::Avro::Serializer.new(schema: INT, framing: :headers) }
  end

  def test_the_number_of_a_keys_schema_is_in_a_header_of_its_own
    key = double.add("o-key", LONG)
    value = double.add("o-value", INT)
    registry = client
    keys = Pelton::Avro::Serializer.new(registry: registry, subject: :topic_key, framing: :headers)
    assert_equal({ "__key_schema_id" => [0, key].pack("CN") }, keys.headers(topic: "o"))
    values = Pelton::Avro::Serializer.new(registry: registry, framing: :headers)
    made = values.call(keys.call({ topic: "o", key: { a: 7 }, payload: { a: 8 } }))
    assert_equal({ "__key_schema_id" => [0, key].pack("CN"), "__value_schema_id" => [0, value].pack("CN") },
                 made[:headers])
    decoder = Pelton::Avro::Decoder.new(registry: registry)
    assert_equal [{ "a" => 7 }, { "a" => 8 }], [decoder.decode(made[:key], made[:headers]["__key_schema_id"]),
                                                decoder.decode(made[:payload], made[:headers]["__value_schema_id"])]
    assert_nil keys.call({ topic: "o", payload: { a: 8 } })[:key]
  end

  # The subject's latest may change between two questions.
  def test_payload_and_header_name_one_schema
    newest = [Pelton::Registry::Schema.new('"int"', id: 1), Pelton::Registry::Schema.new('"string"', id: 2)]
    registry = Class.new { define_method(:latest) { |_subject| newest.shift } }.new
    made = Pelton::Avro::Serializer.new(registry: registry, framing: :headers).call({ topic: "o", payload: 7 })
    assert_equal ["\x0e".b, "\0\0\0\0\1".b], [made[:payload], made[:headers]["__value_schema_id"]]
  end

  # As Confluent's Java clients write and read them.
  def test_bytes_alone_are_behind_the_number_as_they_are
    id = double.add("o-value", '"bytes"')
    registry = client
    decoder = Pelton::Avro::Decoder.new(registry: registry)
    payload = Pelton::Avro::Serializer.new(registry: registry).serialize("hello", topic: "o")
    assert_equal [0, id].pack("CN") << "hello", payload
    assert_equal "hello".b, decoder.decode(payload)
    headed = Pelton::Avro::Serializer.new(registry: registry, framing: :headers)
    assert_equal "hello".b, headed.serialize("hello", topic: "o")
    assert_equal "\x02a".b, decoder.decode("\x02a", headed.headers(topic: "o")["__value_schema_id"])
    alone = Pelton::Avro::Serializer.new(schema: '"bytes"').serialize("hello")
    assert_equal ["\x0ahello".b, "hello".b], [alone, Pelton::Avro::Decoder.new(schema: '"bytes"').decode(alone)]
  end

  def test_single_objects
    serializer = Pelton::Avro::Serializer.new(schema: INT, framing: :single_object)
    payload = serializer.serialize({ a: 1 })
    assert_equal [0xc3, 0x01], payload.bytes.first(2)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "r.avsc"), INT)
      decoder = Pelton::Avro::Decoder.new(registry: Pelton::Registry.files(folder), framing: :single_object)
      assert_equal({ "a" => 1 }, decoder.decode(payload))
    end
  end

  def test_serializers_are_checked
    [{}, { schema: INT, framing: :confluent }, { schema: INT, framing: :other }, { schema: INT, subject: :other },
     { registry: Pelton::Registry.new("http://x"), subject: :record }, { schema: 7 }, { schema: "{" },
     { schema: INT, topics: "orders" }, { schema: INT, topics: [:orders] }].each do |options|
      assert_raises(Pelton::ConfigError, options) { Pelton::Avro::Serializer.new(**options) }
    end
  end
end
