# frozen_string_literal: true

require "support/scenario"

# Payloads made by a pool of workers, Ractors where the Ruby has them: each message comes once, in order, with the value
# or the error that its deserializer makes of it, while another member joins and leaves, and is committed.

PARTITIONS = 4
COUNT = 1500
WAY = Pelton::Parallel::RactorWorker.available? ? :ractor : :thread

# Reads "7" from {"number":7}, and nothing else.
class Numbers
  def call(message) = Integer(JSON.parse(message.raw_payload).fetch("number"))
end

Scenario.run do
  name = topic(partitions: PARTITIONS)
  writer = app
  send = lambda do |from, to|
    rows = (from...to).flat_map do |number|
      value = (number % 500) == 499 ? "none" : number
      Array.new(PARTITIONS) do |partition|
        { topic: name, partition: partition, payload: { number: value, pad: "x" * 300 }.to_json }
      end
    end
    writer.producer.produce_many_sync(rows)
  end

  seen = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    define_method(:process) { |message| seen << [message.partition, message.offset, message.payload] }
  end
  group = unique("group")
  routes = lambda do |*|
    topic name, to: reader do
      decode :bytes
      deserializer Numbers.new, parallel: WAY
      retries 1, backoff: 0..0, then: :skip
    end
  end
  first = app(group: group, max_messages: 200, parallel_workers: 2, &routes)
  second = app(group: group, max_messages: 200, parallel_workers: 2, &routes)
  good = ->(upto) { (0...upto).reject { |number| number % 500 == 499 } }
  got = []
  all = lambda do |upto|
    wanted = (0...PARTITIONS).to_a.product(good.(upto)).map { |partition, number| [partition, number, number] }
    eventually(60, -> { "#{(wanted - got).size} messages are missing" }) do
      got << seen.pop until seen.empty?
      got.size >= wanted.size && (wanted - got).empty?
    end
    equal([], got - wanted, "nothing else")
    eventually(20, "all is committed") { committed(group, name, PARTITIONS) == [upto] * PARTITIONS }
  end

  send.(0, COUNT)
  first.start
  all.(COUNT)
  equal(got.uniq, got, "once")
  (0...PARTITIONS).each do |partition|
    numbers = got.filter_map { |place, number,| number if place == partition }
    equal(numbers.sort, numbers, "the order in partition #{partition}")
  end

  # Another member in the middle, and its end.
  producing = Thread.new { 4.times { |part| send.(COUNT * (4 + part) / 4, COUNT * (5 + part) / 4) } }
  second.start
  producing.join
  equal(true, second.stop, "the second one's stop")
  all.(2 * COUNT)
  equal(true, first.stop, "the first one's stop")

  errors = [first, second].flat_map { |each| events(each, "error.occurred") }.map { |event| event[:error] }
  equal([Pelton::DecodeError], errors.map(&:class).uniq, "errors")
  equal([ArgumentError], errors.map { |error| error.cause.class }.uniq, "their causes")
  equal([], [first, second].flat_map { |each| events(each, "worker.replaced") }, "workers that were replaced")
end
