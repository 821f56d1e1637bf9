# frozen_string_literal: true

require "support/scenario"

# A message that consume cannot stand, at the first, a middle and the last offset of its partition, and at all of them:
# `then: :skip` skips it and nothing else after the retries it is given; `then: :stop` leaves it, and all after it, to
# who comes next.

Scenario.run do
  count = 30
  poison = [[0], [14], [29], (0...30).to_a]
  name = topic(partitions: poison.size)
  rows = (0...count).flat_map do |number|
    poison.each_index.map do |place|
      { topic: name, partition: place, payload: poison[place].include?(number) ? "poison" : number.to_s }
    end
  end
  app.producer.produce_many_sync(rows)

  # Of the healthy ones of each partition, by their number among these.
  book = ledger
  number = poison.map { |offsets| ((0...count).to_a - offsets).each_with_index.to_h }
  tries = Thread::Queue.new
  healthy = Thread::Queue.new
  reader = consumer do
    messages.each do |message|
      if message.raw_payload == "poison"
        tries << [partition, message.offset, attempt]
        raise IOError, "on purpose"
      end
      book&.processed(object_id.to_s, partition.to_s, number[partition][message.offset])
      healthy << [partition, message.offset]
      mark_as_consumed(message)
    end
  end

  # --- skipped -----------------------------------------------------------------------------------------------------
  skipping = app(group: group = unique("group"), max_messages: 10) do
    topic(name, to: reader) { retries 2, backoff: 0..0, then: :skip }
  end
  skipping.start
  eventually(40, "the end of the topic") { committed(group, name, poison.size) == [count] * poison.size }
  equal(true, skipping.stop, "stop")
  expected = poison.each_with_index.flat_map { |offsets, place| offsets.map { |offset| [place, offset] } }
  skipped = events(skipping, "message.skipped")
  equal(expected, skipped.map { |event| [event[:partition], event[:offset]] }.sort, "what was skipped")
  equal([[3, IOError]], skipped.map { |event| [event[:attempts], event[:error].class] }.uniq, "after so many attempts")
  all = take(tries, tries.size).group_by { |row| row.first(2) }
  equal(expected, all.keys.sort, "what was tried again")
  all.each { |place, list| equal(3, list.size, "how often #{place} was tried") }
  done = take(healthy, healthy.size)
  poison.each_index do |place|
    mine = done.filter_map { |at, offset| offset if at == place }
    equal((0...count).to_a - poison[place], mine, "healthy ones of partition #{place}, once and in order")
  end

  in_order(book, number.each_with_index.to_h { |those, place| [place, those.size] })
  book = nil

  # --- left to the next one ----------------------------------------------------------------------------------------
  stopping = app(group: group = unique("group"), max_messages: 10) do
    topic(name, to: reader) do
      retries 1, backoff: 0..0
    end
  end
  stopping.start
  eventually(20, "four partitions that stopped") { events(stopping, "partition.stopped").size == poison.size }
  equal(true, stopping.stop, "stop")
  firsts = poison.map(&:first)
  stopped = events(stopping, "partition.stopped").map { |event| [event[:partition], event[:offset]] }
  equal(firsts, stopped.sort.map(&:last), "where they stopped")
  equal(firsts.map { |offset| offset.zero? ? nil : offset }, committed(group, name, poison.size), "what is committed")
  done = take(healthy, healthy.size)
  firsts.each_with_index do |first, place|
    equal((0...first).to_a, done.filter_map { |at, offset| offset if at == place }, "done in partition #{place}")
  end
end
