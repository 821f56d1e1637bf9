# frozen_string_literal: true

# once: this is about the registry's state, whatever the Ruby

require "open3"
require "support/scenario"
require "support/schema_registry"

# A topic on a real Kafka with a real registry: the schema changes, the command line writes and reads it, the registry
# freezes and goes on, and comes back without its schemas. The route is that of docs/guides/registry-outages.md, with
# `where`.

PELTON = [*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton"].freeze
COUNT = 200
FIELDS = [{ name: "number", type: "int" }, { name: "kind", type: "string" }].freeze
TIME = { name: "at", type: { type: "long", logicalType: "timestamp-micros" }, default: 0 }.freeze
NOTE = { name: "note", type: %w[null string], default: nil }.freeze
# Without a default.
REFUSED = { name: "missing", type: "int" }.freeze
FIRST, SECOND, THIRD, WRONG = [[], [TIME], [TIME, NOTE], [REFUSED]].map do |more|
  Pelton::Registry::Schema.new({ type: "record", name: "shop.Order", fields: FIELDS + more })
end

Scenario.run do
  server = TestRegistry.start
  input, late, dead = Array.new(3) { topic(partitions: 2) }
  subject = "#{input}-value"
  client = lambda do |**options|
    Pelton::Registry.new(server.url, retries: 0, **{ timeout: 20 * Guard::PATIENCE, **options })
  end
  serializer = lambda do |schema, **options|
    Pelton::Avro::Serializer.new(registry: client.call(**options), schema: schema, subject: subject, register: true)
  end
  writer = app
  value = ->(number) { { "number" => number, "kind" => "paid" } }
  send = lambda do |numbers, &serialize|
    rows = numbers.map { |number| { topic: input, partition: number % 2, payload: serialize.call(number) } }
    writer.producer.produce_many_sync(rows)
  end

  seen = Thread::Queue.new
  reading = consumer do
    messages.each { |message| seen << [message.topic, message.partition, *message.payload.values_at("number", "at")] }
  end
  asked = Thread::Queue.new
  reader = lambda do |name, registry|
    app(group: unique("group")) do
      topic name, to: reading do
        decode :avro, registry: registry, schema: SECOND
        where("kind").not_eq("new")
        dead_letters dead, retries: :unlimited
        failures = ObjectSpace::WeakMap.new
        on_failure lambda { |failure|
          asked << failure.attempt
          case error = failure.error
          when Pelton::SchemaUnavailable, Pelton::RegistryError
            next :retry unless error.missing?
          end

          count = failures[failure.message] = failures[failure.message].to_i + 1
          error.is_a?(Pelton::DecodeError) || count > 3 ? :dead_letter : :retry
        }
      end
    end.tap(&:start)
  end
  got = []
  all = lambda do |count|
    eventually(40, -> { "#{count} messages, not #{got.size}" }) do
      got << seen.pop until seen.empty?
      got.size >= count
    end
    [0, 1].each do |partition|
      numbers = got.filter_map { |row| row[2] if row[1] == partition }
      equal((partition...count).step(2).to_a, numbers, "messages of partition #{partition}")
    end
  end
  errors = ->(app) { events(app, "error.occurred").map { |event| event[:error] } }

  # The schema changes.
  first, second = [FIRST, SECOND].map { |schema| serializer.call(schema) }
  timed = ->(number) { second.serialize(value.call(number).merge("at" => Time.at(number))) }
  send.call(0...COUNT) { |number| first.serialize(value.call(number)) }
  server.mode(subject, "BACKWARD")
  app = reader.call(input, client.call(timeout: 2))
  send.call(COUNT...(2 * COUNT), &timed)
  all.call(2 * COUNT)
  equal([Time.at(0), Time.at(COUNT)], got.to_h { |row| row[2, 2] }.values_at(COUNT - 1, COUNT), "default and value")
  error = raises(Pelton::RegistryError, /#{subject}: .*missing/) { serializer.call(WRONG).serialize({}) }
  equal([409, 2], [error.status, client.call.latest(subject).version], "status, and versions")

  # The command line.
  pelton = lambda do |*words, lines: ""|
    out, err, status = Open3.capture3({ "PELTON_BOOTSTRAP" => bootstrap }, *PELTON, *words, "--registry", server.url,
                                      stdin_data: lines)
    check(status.success?, "pelton #{words.join(" ")}: #{err}")
    out
  end
  lines = [{ number: 7, kind: "äöü", at: "2026-11-30T08:00:00.000001Z" }, { number: 8, kind: "new", at: 0 }]
  pelton.call("produce", late, "--format", "avro", "--subject", subject, "--partition", "0",
              lines: lines.map { |line| "#{JSON.generate(line)}\n" }.join)
  shown = pelton.call("consume", late, "--from", "beginning", "--until", "end", "--payload-only", "--where",
                      'where("at").gt(Time.utc(2026))')
  equal([lines.first], shown.lines.map { |line| JSON.parse(line, symbolize_names: true) }, "what `consume` prints")

  # The registry freezes.
  third = client.call.register(subject, THIRD)
  impatient = client.call(ttl: 0)
  equal(third, impatient.latest(subject).id, "latest")
  server.kill(:STOP)
  send.call((2 * COUNT)...(3 * COUNT), &timed)
  all.call(3 * COUNT)
  send.call((3 * COUNT)...(4 * COUNT)) { |number| [0, third].pack("CN") << THIRD.encode(value.call(number)) }
  eventually(30, "the registry is missed") { errors.call(app).any? }
  told = errors.call(app).first
  check(told.is_a?(Pelton::SchemaUnavailable) && !told.missing? && told.cause.status.nil?, told.full_message)
  check(told.message.include?("#{server.url} does not answer: "), told.message)
  eventually(60, "a message that failed alone, in where") { asked.size.positive? }
  raises(Pelton::RegistryError, /#{subject}: #{server.url} does not answer: /) do
    serializer.call(SECOND, timeout: 0.5).serialize({})
  end
  equal(third, impatient.latest(subject).id, "the last known schema")
  server.kill(:CONT)
  all.call(4 * COUNT)
  eventually(20, "all is committed") { committed(app.config.group_id, input, 2) == [2 * COUNT] * 2 }
  equal([Pelton::SchemaUnavailable], errors.call(app).map(&:class).uniq, "errors")

  # It comes back without its schemas. A process that knows them goes on; for another one they are missing.
  server.restart
  send.call((4 * COUNT)...(5 * COUNT), &timed)
  all.call(5 * COUNT)
  other = reader.call(late, client.call(missing_ttl: 0))
  letters = other.dead_letters(dead)
  eventually(20, "two dead letters") { letters.each.count == 2 }
  equal([true], errors.call(other).grep(Pelton::SchemaUnavailable).map(&:missing?).uniq, "missing")

  # Another order of schemas gives other numbers, and a reader takes the wrong one.
  wrong = { type: "record", name: "Weight", fields: [{ name: "kg", type: "int" }, { name: "of", type: "string" }] }
  client.call.register(unique("weights"), Pelton::Registry::Schema.new(wrong))
  decoder = Pelton::Avro::Decoder.new(registry: client.call)
  equal({ "kg" => 5, "of" => "paid" }, decoder.decode(first.serialize(value.call(5))), "the wrong schema")

  # The same order gives the same numbers, and the letters can be redriven.
  server.restart
  equal([1, 2, 3], [FIRST, SECOND, THIRD].map { |schema| client.call.register(subject, schema) }, "numbers")
  equal(2, letters.redrive.handled, "redriven")
  eventually(20, "one message dropped, one seen") { events(other, "message.dropped").any? && !seen.empty? }
  equal([[late, 7]], take(seen, seen.size).map { |row| row.values_at(0, 2) }, "what `where` lets through, now")
ensure
  server&.stop
end
