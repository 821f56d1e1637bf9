# frozen_string_literal: true

# once: this is about the registry's protocol and Avro, whatever the Ruby

require "bigdecimal"
require "date"
require "open3"
require "support/confluent_python"
require "support/scenario"
require "support/schema_registry"

# Confluent's client for Python and Pelton share a topic and a real registry: each reads what the other writes, in all
# of Avro's types, with a schema that refers to another one, and with keys.

Scenario.needs(ConfluentPython.missing)

# As Python registers "long". Apicurio takes them for two schemas.
KEY = '{"type":"long"}'
PROGRAM = File.join(Scenario::ROOT, "test/registry/clients.py")
DECIMAL = { type: "bytes", logicalType: "decimal", precision: 9, scale: 2 }.freeze
LINE = JSON.generate(type: "record", name: "shop.Line",
                     fields: [{ name: "name", type: "string" }, { name: "price", type: DECIMAL }])
TYPES = {
  number: "long", small: "int", name: "string", paid: "boolean", weight: "double", ratio: "float", raw: "bytes",
  code: { type: "fixed", name: "Code", size: 4 }, total: DECIMAL, at: { type: "long", logicalType: "timestamp-millis" },
  exact: { type: "long", logicalType: "timestamp-micros" }, day: { type: "int", logicalType: "date" },
  id: { type: "string", logicalType: "uuid" }, kind: { type: "enum", name: "Kind", symbols: %w[PAID OPEN] },
  lines: { type: "array", items: "shop.Line" }, tags: { type: "map", values: "long" }, note: %w[null string],
  either: %w[null long string], before: %w[null Order]
}.freeze
ORDER = JSON.generate(type: "record", name: "shop.Order", fields: TYPES.map { |name, type| { name: name, type: type } })

# clients.py has the same values.
FULL = {
  "number" => -(2**63), "small" => (2**31) - 1, "name" => "Größe € \u{1F600}", "paid" => true, "weight" => 0.1,
  "ratio" => 0.5, "raw" => (0..255).to_a.pack("C*"), "code" => "\0\1\2\3".b, "total" => BigDecimal("-12.07"),
  "at" => Time.at(-1, 999, :millisecond), "exact" => Time.utc(2026, 11, 30, 8, 0, 0, 1), "day" => Date.new(1970, 1, 31),
  "id" => "00112233-4455-6677-8899-aabbccddeeff", "kind" => "OPEN",
  "lines" => [{ "name" => "a", "price" => BigDecimal("9.99") }, { "name" => "", "price" => BigDecimal("0") }],
  "tags" => { "ä" => 1, "b" => -1 }, "note" => "n", "either" => 7, "before" => nil
}.freeze
EMPTY = {
  "number" => 0, "small" => 0, "name" => "", "paid" => false, "weight" => -0.0, "ratio" => 1.5, "raw" => "".b,
  "code" => "abcd".b, "total" => BigDecimal("9999999.99"), "at" => Time.at(0), "exact" => Time.at(0),
  "day" => Date.new(1969, 12, 31), "id" => "00000000-0000-0000-0000-000000000000", "kind" => "PAID", "lines" => [],
  "tags" => {}, "note" => nil, "either" => "seven", "before" => nil
}.freeze
VALUES = [FULL, EMPTY, { **FULL, "before" => EMPTY }].freeze

Scenario.run do
  server = TestRegistry.start
  registry = Pelton::Registry.new(server.url)
  name, headed = Array.new(2) { topic }
  line = "#{name}-line"
  registry.register(line, Pelton::Registry::Schema.new(LINE))
  order = Pelton::Registry::Schema.new(ORDER, references: [LINE],
                                              named: [{ "name" => "shop.Line", "subject" => line, "version" => 1 }])
  python = lambda do |action, topic, input = {}|
    out, err, status = Open3.capture3(ConfluentPython.python, PROGRAM, action, bootstrap, server.url, topic,
                                      stdin_data: JSON.generate(input))
    check(status.success?, "#{action}: #{out}#{err}")
    out.to_i
  end
  read = lambda do |topic|
    format = { decode: Pelton::Avro::Decoder.new(registry: Pelton::Registry.new(server.url)) }
    app.each(topic, **format).map { |message| [message.raw_key, message.payload] }
  end
  keys = Pelton::Avro::Serializer.new(registry: registry, schema: KEY, subject: :topic_key, register: true)
  send = lambda do |topic, **options|
    values = Pelton::Avro::Serializer.new(registry: registry, schema: order, **options)
    app.producer.produce_many_sync(VALUES.each_with_index.map do |value, place|
      { topic: topic, key: keys.serialize(place, topic: topic), payload: values.serialize(value, topic: topic),
        headers: values.headers(topic: topic) }
    end)
  end

  # Python writes and registers; Pelton finds the schemas that it registered.
  python.call("write", name, { key: KEY, value: ORDER, references: [["shop.Line", line, 1]] })
  found = read.call(name)
  equal(VALUES, found.map(&:last), "what Python wrote")
  latest = registry.latest("#{name}-value")
  equal([latest.id, order.named, 1], [registry.id_of("#{name}-value", order), latest.named, latest.version],
        "the schema that Python registered")
  keyed = Pelton::Avro::Decoder.new(registry: registry)
  equal([0, 1, 2], found.map { |key, _| keyed.decode(key) }, "Python's keys")

  # Pelton writes with it, and behind Python's messages; Python reads them all.
  send.call(name)
  equal(found, read.call(name).last(3), "the same bytes of keys, the same values")
  equal(6, python.call("read", name), "messages that Python reads")

  # Pelton registers, and names the schema in a header.
  send.call(headed, register: true, framing: :headers)
  equal(3, python.call("read", headed), "messages with the schema in a header")
  equal(VALUES, read.call(headed).map(&:last), "the same, read by Pelton")
ensure
  server&.stop
end
