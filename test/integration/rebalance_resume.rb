# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# In a cooperative rebalance, a partition that stays with its owner goes on where it was. When new topics match a
# pattern, librdkafka resumes all partitions. It once resumed at a position read long before (its issues 4637 and
# 4686). Here the owner also pauses, and the records behind it are deleted. An old position would therefore be reset.

PARTITIONS = 3
ROUNDS = 3

Scenario.run do
  prefix = unique("resume")
  quick = { "topic.metadata.refresh.interval.ms" => 300, "heartbeat.interval.ms" => 200 }
  kafka = { **quick, "partition.assignment.strategy" => "cooperative-sticky" }
  names = []
  places = -> { names.product([*0...PARTITIONS]) }
  add = -> { names << topic(partitions: PARTITIONS, name: "#{prefix}-#{names.size}") }
  add.call
  book = ledger
  lock = Mutex.new
  # {[place, consumer's number] => offsets}, in their order; {place => next offset}.
  read = Hash.new { |all, key| all[key] = [] }
  reached = Hash.new(0)
  reader = consumer do
    place = [topic, partition]
    lock.synchronize do
      read[[place, object_id]].concat(messages.map(&:offset))
      reached[place] = [reached[place], messages.last_offset + 1].max
    end
    messages.each { |message| book.processed(object_id.to_s, place.join("/"), message.offset) }
    mark_as_consumed(messages.last)
    pause(0.02) if (messages.last_offset % 7).zero?
  end
  group = unique("group")
  join = -> { app(group: group, kafka: kafka, concurrency: 3) { topic(/\A#{prefix}-/, to: reader) }.tap(&:start) }
  stay = join.call

  sent = Hash.new(0)
  over = false
  writer = app(kafka: quick).producer
  producing = Thread.new do
    until over
      rows = places.call.map { |name, partition| { topic: name, partition: partition, payload: "x" } }
      writer.produce_many_sync(rows)
      rows.each { |row| sent[row.values_at(:topic, :partition)] += 1 }
      work(0.005)
    end
  end
  shared = lambda do |*members|
    all = members.flat_map { |member| member.assignments.flat_map { |name, list| [name].product(list) } }
    all.sort == places.call && members.all? { |member| member.assignments.any? }
  end
  going_on = lambda do |what|
    before = sent.dup
    eventually(30, what) { lock.synchronize { before.all? { |place, count| reached[place] > count } } }
  end
  ROUNDS.times do |round|
    going_on.("all to go on, round #{round}")
    stay.admin.delete_records(lock.synchronize { reached.dup })
    add.call
    eventually(30, "the new topic") { shared.(stay) }
    guest = join.call
    eventually(30, "a share each") { shared.(stay, guest) }
    going_on.("both to go on, round #{round}")
    equal(true, guest.stop, "the guest's stop")
    eventually(30, "all of it again") { shared.(stay) }
  end
  over = true
  producing.value
  eventually(30, "the rest") { lock.synchronize { sent == reached } }
  equal(true, stay.stop, "stop")

  jumps = read.transform_values { |list| list.each_cons(2).reject { |offset, following| following == offset + 1 } }
  equal({}, jumps.reject { |_, list| list.empty? }, "an owner that went elsewhere")
  in_order(book, sent.transform_keys { |place| place.join("/") }, duplicates: nil)
  equal([], events(stay, "kafka.log").map { |event| event[:message] }.grep(/reset/i), "offsets that were reset")
  revoked = events(stay, "partition.revoked")
  check(revoked.size >= ROUNDS && revoked.none? { |event| event[:lost] }, "revocations: #{revoked.map(&:payload)}")
end
