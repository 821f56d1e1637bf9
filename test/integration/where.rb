# frozen_string_literal: true

# once: filters are native, whatever the Ruby

require "support/scenario"

# Filters before Ruby: each message that passes comes once and in order, the others are counted and committed, also when
# whole partitions fail, while another member joins, and after a restart.

PARTITIONS = 4
COUNT = 3000

Scenario.run do
  name = topic(partitions: PARTITIONS)
  writer = app
  send = lambda do |from, to|
    rows = (from...to).flat_map do |number|
      Array.new(PARTITIONS) do |partition|
        type = partition.positive? && (number % 50).zero? ? "paid" : "new"
        { topic: name, partition: partition, key: "k#{number}", headers: { "kind" => number.even? ? "e" : "o" },
          payload: { number: number, type: type, pad: "x" * 300 }.to_json }
      end
    end
    writer.producer.produce_many_sync(rows)
  end
  send.(0, COUNT)

  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << [message.partition, message.payload["number"]] } }
  group = unique("group")
  # Partition 0 has none that passes.
  routes = lambda do |*|
    topic name, to: reader do
      where("type").eq("paid").and(where.header("kind").eq("e"))
      where("number").gteq(100) | where.key.eq("k0")
    end
  end
  first = app(group: group, &routes)
  second = app(group: group, &routes)
  wanted = ->(upto) { (1...PARTITIONS).to_a.product([0, *(100...upto).step(50)]) }
  got = []
  all = lambda do |upto|
    eventually(40, -> { "#{(wanted.(upto) - got).size} messages are missing" }) do
      got << seen.pop until seen.empty?
      (wanted.(upto) - got).empty?
    end
    eventually(20, "all is committed") { committed(group, name, PARTITIONS) == [upto] * PARTITIONS }
  end

  first.start
  all.(COUNT)
  equal(wanted.(COUNT).sort, got.sort, "each that passes, once")
  (1...PARTITIONS).each do |partition|
    numbers = got.select { |place,| place == partition }.map(&:last)
    equal(numbers.sort, numbers, "the order in partition #{partition}")
  end
  dropped = -> { events(first, "message.dropped").sum { |event| event[:count] } }
  others = (COUNT * PARTITIONS) - wanted.(COUNT).size
  eventually(20, -> { "#{others} that were dropped: #{dropped.()}" }) { dropped.() >= others } # told of after the rest
  equal(others, dropped.(), "what was dropped")

  # Another member in the middle.
  second.start
  send.(COUNT, 2 * COUNT)
  all.(2 * COUNT)
  equal(wanted.(2 * COUNT), got.uniq.sort, "nothing else")
  equal([true, true], [first.stop, second.stop], "stops")
  errors = [first, second].flat_map { |each| events(each, "error.occurred") }
  equal([], errors.map { |event| event[:error].message }, "errors")
end
