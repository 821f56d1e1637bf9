# frozen_string_literal: true

# once: the limits are native, whatever the Ruby

require "support/scenario"
require "support/registry_double"
require "pelton/avro"
require "bigdecimal"

# Documents that are small and mean much work, on a real broker: maps whose keys are NaN, schemas with very many fields,
# decimals with a huge scale. What is beyond a limit is an error that names it, and goes to dead letters as it is; the
# messages around it are read.

NAN = "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00".b
FIELDS = 20_000
MANY = 262_144

Scenario.run do
  double = RegistryDouble.new
  registry = Pelton::Registry.new(double.url, retries: 0)
  packed, avro = Array.new(2) { topic }
  letters = { packed => topic, avro => topic }

  nans = ->(count) { "\xdf".b + [count].pack("N") + ((NAN + "\x01".b) * count) }
  amount = JSON.generate({ type: "record", name: "Price",
                           fields: [{ name: "amount", type: { type: "bytes", logicalType: "big-decimal" } }] })
  wide = JSON.generate({ type: "record", name: "Wide",
                         fields: Array.new(FIELDS) { |at| { name: "f#{at}", type: "int" } } })
  endless = JSON.generate({ type: "enum", name: "Endless", symbols: Array.new(MANY + 1) { |at| "s#{at.to_s(36)}" } })
  ids = [amount, wide, endless].map { |schema| double.add("#{avro}-value", schema) }
  framed = ->(at, bytes) { [0, ids[at]].pack("CN") + bytes.b }
  decimal = ->(bytes) { framed.(0, bytes) }

  # [topic, payload, what is wrong with it: nil if nothing is]
  rows = [
    [packed, nans.(1000), nil], [packed, nans.(1001), /more than 1000 map keys are NaN/],
    [packed, nans.(90_000), /more than 1000 map keys are NaN/], [packed, "\x81\xa1a\x01".b, nil],
    # Unscaled 1 with 2, 4,096, 4,097 and 2**31 - 1 digits after the decimal point.
    [avro, decimal.("\x06\x02\x01\x04"), nil], [avro, decimal.("\x08\x02\x01\x80\x40"), nil],
    [avro, decimal.("\x08\x02\x01\x82\x40"), /4,?096/], [avro, decimal.("\x0e\x02\x01\xfe\xff\xff\xff\x0f"), /4,?096/],
    [avro, framed.(1, "\x02" * FIELDS), nil], [avro, framed.(2, "\x00"), /262,?144|#{MANY}/],
    [avro, decimal.("\x06\x02\x01\x04"), nil]
  ]

  seen = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      payload = message.payload
      seen << [message.topic, message.offset, payload["amount"] || payload.size]
    end
  end
  group = unique("limits")
  server = app(group: group) do
    topic packed, to: reader do
      decode :msgpack
      dead_letters letters[packed], retries: 0
    end
    topic avro, to: reader do
      decode :avro, registry: registry
      dead_letters letters[avro], retries: 0
    end
  end
  server.producer.produce_many_sync(rows.map { |name, payload,| { topic: name, payload: payload } })
  server.start

  placed = [packed, avro].flat_map { |name| rows.select { |one_of,| one_of == name }.each_with_index.to_a }
  good, bad = placed.partition { |row, _| row[2].nil? }
  got = take(seen, good.size)
  equal(good.map { |row, at| [row[0], at] }.sort, got.map { |name, at,| [name, at] }.sort, "what was read")
  sizes = got.to_h { |name, at, value| [[name, at], value] }
  equal([1000, 1], sizes.values_at([packed, 0], [packed, 3]), "maps")
  equal(FIELDS, sizes[[avro, 4]], "fields of the wide record")
  equal([BigDecimal("0.01"), BigDecimal("1e-4096")], sizes.values_at([avro, 0], [avro, 1]), "decimals")

  eventually(40, "all is committed") { committed(group, packed, 1) == [4] && committed(group, avro, 1) == [7] }
  found = letters.values.flat_map { |name| server.each(name).to_a }
  equal(bad.map { |row, _| row[1] }.sort, found.map(&:raw_payload).sort, "dead letters")
  errors = events(server, "error.occurred").to_h { |event| [event.payload.values_at(:topic, :offset), event[:error]] }
  equal(bad.map { |row, at| [row[0], at] }.sort, errors.keys.sort, "errors")
  bad.each do |row, at|
    error = errors[[row[0], at]]
    check(error.is_a?(Pelton::DecodeError), "#{row[0]} #{at}: #{error.class}")
    said = [error, error.cause].compact.map(&:message)
    check(said.any? { |message| message.match?(row[2]) }, "#{row[0]} #{at}: #{said}")
  end
  equal(true, server.stop, "stop")
ensure
  double&.close
end
