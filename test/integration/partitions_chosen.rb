# frozen_string_literal: true

require "support/scenario"

# `partitions 0..1`: two processes' worth of apps read what they name, in one group's name and without its coordination.
# Nothing is rebalanced when one comes or goes; a restart goes on where it was; others have what they take over.
#
# once: it is librdkafka and the broker who agree on it

Scenario.run do
  name = topic(partitions: 4)
  group = unique("group")
  seen = Thread::Queue.new
  writer = app.producer
  round = 0
  send = lambda do
    writer.produce_many_sync((0..3).map { |place| { topic: name, partition: place, payload: round.to_s } })
    round += 1
  end
  serve = lambda do |word, list, more = {}|
    reader = consumer { messages.each { |message| seen << [word, partition, message.raw_payload.to_i] } }
    app(group: group, kafka: more) { topic(name, to: reader) { partitions list } }.tap(&:start)
  end
  expect = ->(rows, what) { equal(rows.sort, take(seen, rows.size).sort, what) }

  2.times { send.call }
  first = serve.("one", 0..1)
  expect.([0, 1].product([0, 1]).map { |row| ["one", *row] }, "the first alone")
  second = serve.("two", [3])
  expect.([["two", 3, 0], ["two", 3, 1]], "the second's")
  equal([{ name => [0, 1] }, { name => [3] }], [first, second].map(&:assignments), "assignments")
  send.call
  expect.([["one", 0, 2], ["one", 1, 2], ["two", 3, 2]], "beside each other")

  # One goes; the other one takes over a part of what it had, from where it was.
  equal(true, first.stop, "stop")
  send.call
  expect.([["two", 3, 3]], "the one that is left")
  equal(true, second.stop, "stop")
  equal([3, 3, nil, 4], committed(group, name, 4), "committed in the group's name")
  second = serve.("again", 1..3)
  rows = [["again", 1, 3], *(0..3).map { |number| ["again", 2, number] }]
  expect.(rows, "after a restart, with more")
  equal([], seen.size.times.map { seen.pop }, "anything twice")

  # No session: what a consumer does for long, or not at all, costs it nothing.
  quick = { "session.timeout.ms" => 2000, "heartbeat.interval.ms" => 300 }
  gate = Thread::Queue.new
  holder = consumer { gate.pop }
  held = app(group: unique("held"), kafka: quick) { topic(name, to: holder) { partitions [0] } }
  held.start
  eventually(20, "a job") { held.stats[:jobs][:running] == 1 }
  work(2.5)
  gate.close
  eventually(20, "the end of the topic") { held.stats[:lags] == { held.config.group_id => { name => { 0 => 0 } } } }
  equal(true, held.stop, "stop")
  equal([4], committed(held.config.group_id, name, 1), "committed")

  # What is not there is told, and the rest is read.
  odd = serve.("odd", [0, 9])
  told = -> { events(odd, "error.occurred").map { |event| event[:error].class } }
  eventually(20, -> { "the complaint: #{told.call}" }) { told.call.include?(Pelton::ConfigError) }
  send.call
  expect.([["odd", 0, 3], ["odd", 0, 4], ["again", 1, 4], ["again", 2, 4], ["again", 3, 4]], "beside the complaint")
  [second, odd].each { |server| equal(true, server.stop, "stop") }
  [first, second, held].each do |server|
    equal([], events(server, "partition.revoked").to_a, "revoked")
    equal([], events(server, "error.occurred").map { |event| event[:error] }, "errors")
  end
end
