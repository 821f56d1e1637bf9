# frozen_string_literal: true

# once: it is librdkafka and the broker who agree on it
require "support/scenario"

# A group has committed an offset that the log does not have: its end was lost, or the topic is a new one. The reader
# begins at the start, and its progress is committed while it runs. librdkafka alone commits nothing below the lost
# offset. After a kill, the next reader would begin there in a log that has grown, and miss what lies before it.

Scenario.run do
  [1, 3].each do |jobs|
    name = topic
    group = unique("group")
    seen = Thread::Queue.new
    reader = consumer { messages.each { |message| seen << message.raw_payload } }
    writer = app.producer
    send = lambda do |numbers|
      writer.produce_many_sync(numbers.map { |n| { topic: name, partition: 0, key: "k#{n % 3}", payload: n.to_s } })
      equal(numbers.map(&:to_s).sort, take(seen, numbers.size).sort, "read")
    end
    options = { "bootstrap.servers" => bootstrap, "group.id" => group }
    stale = Pelton::Native::Subscription.new(unique("stale"), options, {})
    stale.commit_offset(name, 0, 60, -1, nil, 20)
    stale.close(10)
    equal([60], committed(group, name, 1), "committed before")

    often = { "auto.commit.interval.ms" => 100 }
    server = app(group: group, kafka: often) { topic(name, to: reader) { concurrency jobs } }
    server.start
    send.(0...20)
    eventually(20, "its commit") { committed(group, name, 1) == [20] }
    send.(20...40)
    eventually(20, "the next commit, which is librdkafka's own") { committed(group, name, 1) == [40] }
    equal(true, server.stop, "stop")
    equal([40], committed(group, name, 1), "committed at the stop")
  end
end
