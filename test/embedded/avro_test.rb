# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/registry_double"

# Avro through real clients, with schemas of a registry.
class EmbeddedAvroTest < Minitest::Test
  include EmbeddedApp

  FIELDS = [{ name: "n", type: "int" }, { name: "kind", type: { type: "enum", name: "Kind", symbols: %w[NEW PAID] } },
            { name: "at", type: { type: "long", logicalType: "timestamp-millis" } }].freeze
  OLD = JSON.generate(type: "record", name: "shop.Order", fields: FIELDS)
  NEW = JSON.generate(type: "record", name: "shop.Order",
                      fields: [{ name: "n", type: "long" }, *FIELDS.drop(1),
                               { name: "note", type: "string", default: "-" }])

  def setup
    super
    @double = RegistryDouble.new
  end

  def teardown
    super
    @double.close
  end

  def registry = Pelton::Registry.new(@double.url, retries: 0, missing_ttl: 0)

  def serializer(schema) = Pelton::Avro::Serializer.new(registry: registry, schema: schema, register: true)

  # Of five the third is paid.
  def order(number) = { n: number, kind: number % 5 == 2 ? "PAID" : "NEW", at: Time.at(number) }

  def orders(name, schema, numbers)
    writer = serializer(schema)
    numbers.map { |number| writer.serialize(order(number), topic: name) }
  end

  def test_messages_of_old_and_new_schemas_are_read_with_one_schema_and_filtered
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << [message.dig("n"), message.payload] } }
    from = registry
    app = app(max_messages: 10) do
      topic(name, to: reader) do
        decode :avro, registry: from, schema: NEW, freeze: true
        where("kind").eq("PAID")
      end
    end
    produce(app, name, orders(name, OLD, 0...50))
    app.start
    produce(app, name, orders(name, NEW, 50...100).each_slice(10).flat_map(&:itself))
    taken = take(20)
    assert_equal (2...100).step(5).to_a, taken.map(&:first)
    assert_equal({ "n" => 2, "kind" => "PAID", "at" => Time.at(2), "note" => "-" }, taken[0][1])
    assert taken.all? { |_, payload| payload.frozen? }
    assert app.stop
    assert_empty errors
    assert_equal 2, @double.requests.grep(/GET/).size, "each schema is asked for once"
  end

  # As Confluent's clients do: a number or a GUID in a header, or the number in the payload, in one topic.
  def test_header_names_the_schema_of_a_payload
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << [message.dig("n"), message.payload["note"]] } }
    from = registry
    app = app(max_messages: 10) do
      topic(name, to: reader) do
        decode :avro, registry: from, schema: NEW
        where("kind").eq("PAID")
      end
    end
    writer = app.producer
    writer.middleware.append(Pelton::Avro::Serializer.new(registry: registry, schema: OLD, register: true,
                                                          framing: :headers))
    30.times { |number| writer.produce_sync(topic: name, payload: order(number), headers: { "x" => "y" }) }
    produce(app, name, orders(name, NEW, 30...40))
    bare = Pelton::Avro::Serializer.new(schema: OLD, framing: :none)
    guid = "\x01#{[@double.guid(1).delete("-")].pack("H*")}"
    (40...60).each do |number|
      writer.produce_sync(topic: name, payload: bare.serialize(order(number)), headers: { "__value_schema_id" => guid })
    end
    app.start
    assert_equal (2...60).step(5).to_a, take(12).map(&:first)
    assert app.stop
    assert_empty errors
    assert_equal ["GET /schemas/guids/#{@double.guid(1)}", "GET /schemas/ids/1", "GET /schemas/ids/2"],
                 @double.requests.grep(/GET/).sort
    first = app.each(name, decode: { format: :avro, registry: from }).first
    assert_equal [["x", "__value_schema_id"], 0], [first.headers.keys, first.payload["n"]]
  end

  def test_iterator_takes_a_registry_or_a_decoder
    name = topic
    app = app()
    produce(app, name, orders(name, OLD, 0...3))
    keys = Pelton::Avro::Serializer.new(registry: registry, schema: '"long"', subject: :topic_key, register: true)
    app.producer.produce_sync(topic: name, key: keys.serialize(7, topic: name), payload: orders(name, OLD, [3]).first)
    decoder = Pelton::Avro::Decoder.new(registry: registry, symbolize_names: true, freeze: true)
    [{ registry: @double.url }, { decode: :avro, registry: registry },
     { decode: { format: :avro }, registry: registry }, { decode: Pelton::Avro::Decoder.new(registry: registry) },
     { deserializer: Pelton::Avro::Decoder.new(registry: registry) }].each do |options|
      assert_equal [0, 1, 2, 3], app.each(name, **options).map { |message| message.payload["n"] }, options.keys
    end
    last = app.each(name, from: -1, decode: decoder, key_deserializer: decoder).first
    assert_equal [3, 7, true], [last.payload[:n], last.key, last.payload.frozen?]
    reader = consumer { nil }
    route = app(group: "other") { topic(name, to: reader) { decode decoder } }
    assert_equal true, route.routes.groups(route.config).first.decode[name][:symbolize_names]
  end

  def test_header_without_a_valid_schema_is_an_error_of_its_message
    name = topic
    app = app()
    app.producer.produce_sync(topic: name, payload: "\x02", headers: { "__value_schema_id" => "7" })
    message = app.each(name, decode: { format: :avro, registry: registry }).first
    assert_includes assert_raises(Pelton::DecodeError) { message.payload }.message, "not a schema number or GUID"
  end

  def test_a_registry_that_comes_back
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << message.payload["n"] } }
    from = registry
    app = app do
      topic(name, to: reader) do
        decode :avro, registry: from
        retries 100, backoff: 0.01..0.1
      end
    end
    payloads = orders(name, OLD, 0...3)
    @double.fail(:close, times: 1000)
    produce(app, name, payloads)
    app.start
    eventually(20, "a failure") { errors.any? }
    error = errors.first
    assert_instance_of Pelton::SchemaUnavailable, error
    assert_equal [name, 0, 0], [error.topic, error.partition, error.offset]
    assert_instance_of Pelton::RegistryError, error.cause
    @double.heal
    assert_equal [0, 1, 2], take(3).uniq
    assert app.stop
  end

  # Who reads nothing has it looked up all the same, and finds it known when the registry is gone.
  def test_a_schema_is_looked_up_while_its_batch_waits
    name = topic
    seen = @seen
    gate = Thread::Queue.new
    reader = consumer do
      gate.pop
      messages.each { |message| seen << message.payload["n"] }
    end
    from = registry
    app = app(max_messages: 10) { topic(name, to: reader) { decode :avro, registry: from } }
    produce(app, name, orders(name, OLD, 0...20))
    app.start
    eventually(20, "the look-up") { @double.requests.include?("GET /schemas/ids/1") }
    assert_equal "shop.Order", from.schema(1).name, "the answer, for which we wait as a reader would"
    @double.fail(:close, times: 1000)
    gate.close
    assert_equal (0...20).to_a, take(20)
    assert app.stop
    assert_empty errors
    assert_equal 1, @double.requests.grep(/GET/).size
  end

  # The registry lacks the schema at first, so `where` lets all messages through.
  def test_redriven_messages_pass_where_and_filters_again_but_not_in_a_retry_topic
    name, dead = Array.new(2) { topic }
    ["#{name}.retry.0.1", "#{dead}.status"].each { |other| @cluster.create_topic(other, 1) }
    seen = @seen
    reader = consumer { messages.each { |message| seen << [message.topic, message.payload["n"]] } }
    from = registry
    app = app do
      topic(name, to: reader) do
        decode :avro, registry: from
        where("kind").eq("PAID")
        filter { |message| message.dig("n") < 5 }
        retry_in 0.1
        dead_letters dead
        on_failure { :dead_letter }
      end
    end
    schema = Pelton::Registry::Schema.new(OLD)
    produce(app, name, (0...10).map { |number| [0, 1].pack("CN") << schema.encode(order(number)) })
    app.start
    eventually(30, "ten letters") { happened("message.dead_lettered").size == 10 }
    @double.add("#{name}-value", OLD)
    letters = app.dead_letters(dead)
    assert_equal 10, letters.redrive.handled
    assert_equal [[name, 2]], take(1)
    dropped = -> { happened("message.dropped").sum { |event| event[:count] } }
    eventually(20, "what is dropped") { dropped.call == 9 }
    assert_equal 10, letters.redrive(status: :redriven, retry_topic: 0.1).handled
    assert_equal((0...10).map { |number| ["#{name}.retry.0.1", number] }, take(10))
    assert app.stop
    assert_equal 9, dropped.call
  end

  # Not the decoding threads nor the listener: messages of other topics go on meanwhile.
  def test_where_on_a_field_waits_for_the_schema_on_a_worker
    first, second = Array.new(2) { topic }
    seen = @seen
    reader = consumer { messages.each { |message| seen << [message.topic, message.payload["n"]] } }
    gate = Thread::Queue.new
    asked = Thread::Queue.new
    slow = registry
    slow.define_singleton_method(:schema) do |id|
      asked << Thread.current.name
      gate.pop
      super(id)
    end
    from = registry
    app = app(concurrency: 2) do
      topic(first, to: reader) do
        decode :avro, registry: slow
        where("kind").eq("PAID")
      end
      topic(second, to: reader) { decode :avro, registry: from }
    end
    produce(app, first, orders(first, OLD, 0...5))
    app.start
    assert_equal ["pelton.schemas", "pelton.worker#"], take(2, asked).map { |name| name.delete("0-9") }.sort
    produce(app, second, orders(second, OLD, 7...8))
    assert_equal [second, 7], take(1).first
    gate.close
    assert_equal [first, 2], take(1).first
    assert app.stop
    assert_empty errors
  end

  def test_a_stop_in_the_middle_of_a_look_up
    name = topic
    reader = consumer { messages.size }
    hanging = Pelton::Registry.new(@double.url, timeout: 60)
    app = app { topic(name, to: reader) { decode :avro, registry: hanging } }
    payloads = orders(name, OLD, 0...3)
    @double.fail(:hang, times: 1000)
    produce(app, name, payloads)
    app.start
    eventually(20, "the look-up") { @double.requests.include?("GET /schemas/ids/1") }
    await_commits("group-0", name, 3)
    assert app.stop(timeout: 30)
    assert_empty errors
    assert_empty(Pelton::Threads.list.select { |thread| thread.name == "pelton.schemas" })
  end

  # As Confluent's clients do: the subject's name tells that it is a key's schema, and a header may name it.
  def test_keys_are_avro_too
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << [message.key, message.raw_key, message.payload] } }
    from = registry
    app = app do
      topic(name, to: reader) do
        key_deserializer :avro, registry: from, symbolize_names: true
        decode :bytes
      end
    end
    schema = { type: "record", name: "shop.Id", fields: [{ name: "id", type: "long" }] }
    keys = Pelton::Avro::Serializer.new(registry: registry, schema: schema, subject: :topic_key, register: true)
    framed = keys.serialize({ id: 7 }, topic: name)
    bare = Pelton::Avro::Serializer.new(schema: schema).serialize({ id: 8 })
    app.producer.produce_sync(topic: name, key: framed, payload: "a")
    app.producer.produce_sync(topic: name, key: bare, payload: "b", headers: { "__key_schema_id" => [0, 1].pack("CN") })
    app.start
    assert_equal [[{ id: 7 }, framed, "a"], [{ id: 8 }, bare, "b"]], take(2)
    assert app.stop
    assert_empty errors
    assert_equal ["GET /schemas/ids/1", "POST /subjects/#{name}-key/versions"], @double.requests.sort
  end

  def test_payload_that_is_not_avro_fails_only_its_own_message
    name = topic
    seen = @seen
    reader = consumer do
      messages.each do |message|
        seen << message.payload["n"]
      rescue Pelton::DecodeError => e
        seen << [e.offset, e.message]
      end
    end
    from = registry
    app = app { topic(name, to: reader) { decode :avro, registry: from } }
    good = orders(name, OLD, 0...2)
    produce(app, name, [good[0], "{}", "", good[1][0..-2], [0, 77].pack("CN"), good[1]])
    app.start
    taken = take(6)
    assert_equal [0, 1], taken.values_at(0, 5)
    assert_equal [1, 2, 3, 4], taken[1..4].map(&:first)
    assert_match(/start with byte 0 and a schema number/, taken[1][1])
    assert_match(/ends too early/, taken[3][1])
    assert_match(/schema 77: Schema not found/, taken[4][1])
    assert app.stop
  end

  def test_a_producer_with_a_serializer
    name = topic
    seen = @seen
    reader = consumer { messages.each { |message| seen << message.payload } }
    app = app { topic(name, to: reader) { decode :avro, schema: OLD, symbolize_names: true } }
    app.producer.middleware.append(Pelton::Avro::Serializer.new(schema: OLD))
    app.start
    app.producer.produce_sync(topic: name, payload: order(7), timeout: 20)
    app.producer.produce_many_sync([{ topic: name, payload: order(8) }, { topic: name, payload: nil }], timeout: 20)
    assert_equal [order(7), order(8), nil], take(3)
    error = assert_raises(Pelton::EncodeError) { app.producer.produce_sync(topic: name, payload: { n: "x" }) }
    assert_includes error.message, "n: expected int, got a String of 1 byte"
    assert app.stop
  end

  def test_routes_are_checked
    reader = collector
    [{}, { registry: 7 }, { schema: "{" }, { schema: OLD, framing: :confluent }, { schema: OLD, freeze: 1 },
     { schema: OLD, unheard: 1 }, { registry: "ftp://x" }].each do |options|
      error = assert_raises(Pelton::ConfigError, options) do
        Pelton::App.new.routes { topic("orders", to: reader) { decode :avro, **options } }
      end
      refute_empty error.message
    end
  end
end
