# frozen_string_literal: true

require "support/scenario"
require "support/registry_double"

# Avro on a real broker: a producer whose serializers register, and a consumer that reads what two versions of a schema
# wrote as one, filtered, and keys; the registry is away when the second version appears, and nothing is lost.

COUNT = 500

Scenario.run do
  double = RegistryDouble.new
  registry = -> { Pelton::Registry.new(double.url, retries: 0) }
  old = { type: "record", name: "shop.Order",
          fields: [{ name: "number", type: "int" }, { name: "kind", type: "string" }] }
  new = { **old, fields: [*old[:fields], { name: "at", type: { type: "long", logicalType: "timestamp-micros" },
                                           default: 0 }] }
  name = topic(partitions: 2)
  writer = app
  keys = Pelton::Avro::Serializer.new(registry: registry.(), schema: '"long"', subject: :topic_key, register: true)
  send = lambda do |schema, numbers|
    serializer = Pelton::Avro::Serializer.new(registry: registry.(), schema: schema, register: true)
    rows = numbers.map do |number|
      value = { number: number, kind: (number % 10).zero? ? "paid" : "new", at: Time.at(number) }
      value.delete(:at) if schema.equal?(old)
      { topic: name, partition: number % 2, key: keys.serialize(number, topic: name),
        payload: serializer.serialize(value, topic: name) }
    end
    writer.producer.produce_many_sync(rows)
  end
  send.(old, 0...COUNT)

  seen = Thread::Queue.new
  named = Thread::Queue.new
  reader = consumer do
    messages.each do |message|
      named << [message.key, message.payload["number"], message.headers]
      seen << message.payload.values_at("number", "at")
    end
  end
  from = registry.()
  asked = Thread::Queue.new
  from.define_singleton_method(:schema) do |id|
    asked << [id, Thread.current.name]
    super(id)
  end
  group = unique("group")
  app = app(group: group) do
    topic name, to: reader do
      decode :avro, registry: from, schema: new
      key_deserializer :avro, registry: from
      headers_deserializer ->(message) { message.raw_headers.size }
      where("kind").eq("paid")
      retries 1000, backoff: 0.05..0.5
    end
  end
  app.start
  got = []
  all = lambda do |numbers|
    eventually(40, -> { "#{(numbers - got.map(&:first)).size} messages are missing" }) do
      got << seen.pop until seen.empty?
      (numbers - got.map(&:first)).empty?
    end
  end
  all.((0...COUNT).step(10).to_a)
  equal([Time.at(0)], got.map(&:last).uniq, "the default of what was not written")
  names = take(named, named.size)
  equal([true, [0]], [names.all? { |key, number, _| key == number }, names.map(&:last).uniq], "keys and headers")

  send.(new, COUNT...(COUNT + 1))
  double.fail(503, times: 100_000)
  send_more = Pelton::Avro::Serializer.new(schema: { **new, doc: "a third" }, framing: :none)
  third = double.add("#{name}-value", JSON.generate({ **new, doc: "a third" }))
  rows = (COUNT...(2 * COUNT)).map do |number|
    value = { number: number, kind: (number % 10).zero? ? "paid" : "new", at: Time.at(number) }
    { topic: name, partition: number % 2, payload: [0, third].pack("CN") << send_more.serialize(value) }
  end
  writer.producer.produce_many_sync(rows)
  failures = -> { events(app, "error.occurred").map { |event| event[:error] } }
  eventually(40, "the registry is missed") { failures.().any?(Pelton::SchemaUnavailable) }
  double.heal
  wanted = (0...(2 * COUNT)).step(10).to_a
  all.(wanted)
  equal(wanted, got.map(&:first).uniq.sort, "nothing else")
  equal(Time.at(COUNT), got.to_h.fetch(COUNT), "what was written")
  eventually(20, "all is committed") { committed(group, name, 2) == [COUNT + 1, COUNT] }
  equal(true, app.stop, "stop")
  equal([Pelton::SchemaUnavailable], failures.().map(&:class).uniq, "errors")
  threads = Array.new(asked.size) { asked.pop }.filter_map { |id, thread| thread.delete("0-9") if id == third }
  equal(["pelton.worker#"], threads.uniq - ["pelton.schemas"], "where threads wait for the registry")
ensure
  double&.close
end
