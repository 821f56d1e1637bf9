# frozen_string_literal: true

require "pelton/server/server"
require "support/scenario"

# With order per key on a real broker: messages that fail, pause at themselves or seek back, at random. None is lost or
# comes before an earlier one of its key is done, and all is committed in the end. Then marks by hand: filtered messages
# and dead letters need none, and a partition with too many unmarked messages waits for marks.

COUNT = 250
KEYS = 9
LIMIT = 60

Scenario.run do
  # Fewer messages than in real life.
  backlog = Pelton::Consuming::Unmarked
  backlog.send(:remove_const, :LIMIT)
  backlog.const_set(:LIMIT, LIMIT)

  seeks, filtered, unmarked, dead = Array.new(4) { |at| topic(partitions: at.zero? ? 2 : 1) }
  seed = Integer(ENV.fetch("SEED", Random.new_seed % 100_000))
  puts "SEED=#{seed}"
  random = Random.new(seed)
  lock = Mutex.new
  done = Hash.new { |all, partition| all[partition] = {} } # {partition => {offset => true}}
  wrong = []
  calls = Hash.new(0)
  call = ->(name) { lock.synchronize { calls[name] += 1 } }

  moving = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      at = message.offset
      before = at - KEYS
      lock.synchronize { wrong << [partition, at] unless before.negative? || done[partition][before] }
      case lock.synchronize { random.rand(100) }
      when 0..3 then call.(:failed) && raise("on purpose")
      when 4..7 then call.(:paused) && pause(0.02, at: message)
      when 8..9 then call.(:sought) && seek([at - lock.synchronize { random.rand(30) }, 0].max)
      else lock.synchronize { done[partition][at] = true }
      end
    end
  end
  dropping = Class.new(Pelton::Consumer) do
    define_method(:process) { |message| message.key == "bad" ? raise("poison") : mark_as_consumed(message) }
  end
  seen = []
  waiting = Class.new(Pelton::Consumer) do
    define_method(:process) { |message| lock.synchronize { seen << [self, message] } }
  end

  group = unique("keyed-seeks")
  all = app(group: group, concurrency: 8, kafka: { "auto.commit.interval.ms" => 200 }) do
    defaults { from :beginning }
    topic(seeks, to: moving) do
      concurrency 4
      backoff 0.02..0.1
    end
    topic(filtered, to: dropping) do
      manual_offsets
      where.key.in("good", "bad")
      retries 0
      dead_letters dead
    end
    topic(unmarked, to: waiting) do
      manual_offsets
      concurrency 3
    end
  end
  rows = (0...COUNT).flat_map do |at|
    key = "k#{at % KEYS}"
    [{ topic: seeks, partition: 0, key: key, payload: "x" }, { topic: seeks, partition: 1, key: key, payload: "x" },
     { topic: filtered, key: { 10 => "good", 20 => "bad" }.fetch(at, "other"), payload: "x" },
     { topic: unmarked, key: key, payload: "x" }]
  end
  all.producer.produce_many_sync(rows)
  all.start

  eventually(90, -> { "all to be done, #{done.transform_values(&:size)}, #{calls}" }) do
    lock.synchronize { [0, 1].all? { |partition| done[partition].size == COUNT } }
  end
  check(calls.values_at(:failed, :paused, :sought).all?(&:positive?), "not everything happened: #{calls}")
  equal([], wrong, "messages that came before an earlier one of their key was done")
  eventually(30, -> { "the commit of what was sought, #{committed(group, seeks, 2)}" }) do
    committed(group, seeks, 2) == [COUNT, COUNT]
  end
  eventually(30, -> { "the commit of filtered messages, #{committed(group, filtered, 1)}" }) do
    committed(group, filtered, 1) == [COUNT]
  end
  equal(1, read(dead, 1, 1).size, "dead letters")

  told = -> { events(all, "error.occurred").count { |event| event[:error].message.include?("not marked as consumed") } }
  eventually(30, "the limit of unmarked messages") { told.call == 1 }
  count = -> { lock.synchronize { seen.size } }
  check(count.call.between?(LIMIT, LIMIT + 300), "#{count.call} unmarked messages")
  eventually(60, -> { "all to be seen and marked, #{count.call} are" }) do
    lock.synchronize { seen.dup }.each { |consumer, message| consumer.mark_as_consumed(message) }
    count.call >= COUNT && committed(group, unmarked, 1) == [COUNT]
  end
  check(all.stop, "a stop in order")
  puts "#{calls}; told #{told.call} times of unmarked messages"
end
