# frozen_string_literal: true

require "support/scenario"

# A partition that gave up (`then: :stop`, the default) on a real broker: its neighbor goes on, nothing is committed
# past the bad message, also by a restart, and a `seek` past that message lets it go on, with and without keys.

COUNT = 40
BAD = 10

Scenario.run do
  plain, keyed = Array.new(2) { topic(partitions: 2) }
  seen = Thread::Queue.new
  consumers = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      if message.partition.zero? && message.offset == BAD
        consumers << self
        raise IOError, "on purpose"
      end
      seen << [message.topic, message.partition, message.offset]
    end
  end
  group = unique("given-up")
  routes = lambda do |*|
    topic(plain, to: reader) { retries 1, backoff: 0.05..0.1 }
    topic keyed, to: reader do
      retries 1, backoff: 0.05..0.1
      concurrency 3
    end
  end
  first = app(group: group, kafka: { "auto.commit.interval.ms" => 200 }, &routes)
  rows = [plain, keyed].product([0, 1], (0...COUNT).to_a).map do |name, partition, at|
    { topic: name, partition: partition, key: "k#{at % 5}", payload: "x" }
  end
  first.producer.produce_many_sync(rows)

  got = Hash.new { |all, place| all[place] = [] }
  collect = -> { seen.size.times { seen.pop.then { |name, partition, at| got[[name, partition]] << at } } }
  all = (0...COUNT).to_a
  gave_up = lambda do |running|
    eventually(30, "both partitions give up") { events(running, "partition.stopped").size == 2 }
    eventually(30, "the neighbours are done") do
      collect.call
      [plain, keyed].all? { |name| got[[name, 1]].uniq.sort == all && committed(group, name, 2) == [BAD, COUNT] }
    end
    stopped = events(running, "partition.stopped").map { |event| event.payload.values_at(:topic, :partition, :offset) }
    equal([[plain, 0, BAD], [keyed, 0, BAD]].sort, stopped.sort, "what gave up")
  end

  first.start
  gave_up.call(first)
  equal((0...BAD).to_a, got[[plain, 0]], "nothing behind the bad message")
  equal(true, first.stop, "the first stop")
  equal([[BAD, COUNT]] * 2, [plain, keyed].map { |name| committed(group, name, 2) }, "a stop passes nothing")

  # It gives up again after a restart: the message is still there.
  consumers.clear
  second = app(group: group, kafka: { "auto.commit.interval.ms" => 200 }, &routes)
  second.start
  gave_up.call(second)
  last = take(consumers, consumers.size).group_by(&:topic).transform_values(&:last)
  equal([plain, keyed].sort, last.keys.sort, "a consumer of each")
  equal([true, true], last.values.map { |consumer| consumer.seek(BAD + 1) }, "seeks")
  eventually(30, -> { "all behind the bad message: #{got.transform_values(&:tally)}" }) do
    collect.call
    [plain, keyed].all? { |name| got[[name, 0]].uniq.sort == all - [BAD] }
  end
  eventually(30, "all is committed") { [plain, keyed].all? { |name| committed(group, name, 2) == [COUNT, COUNT] } }
  equal(all - [BAD], got[[plain, 0]].uniq, "in order")
  equal(true, second.stop, "the second stop")
end
