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

  # `from :error` reports it once per assignment and reads nothing, until another offset is committed.
  name = topic
  seen = Thread::Queue.new
  reader = consumer { messages.each { |message| seen << message.offset } }
  reader.define_method(:tick) { nil }
  3.times { |n| app.producer.produce_sync(topic: name, payload: n.to_s) }
  [nil, 60].each do |committed|
    group = unique("group")
    commit = lambda do |offset|
      writer = Pelton::Native::Subscription.new(unique("writer"), { "bootstrap.servers" => bootstrap,
                                                                    "group.id" => group }, {})
      writer.commit_offset(name, 0, offset, -1, nil, 20)
      writer.close(10)
    end
    commit.(committed) if committed
    server = app(group: group) do
      topic(name, to: reader) do
        from :error
        tick_every 0.1
      end
    end
    2.times do |times|
      server.start
      eventually(30, "the error") { events(server, "error.occurred").size > times }
      ticks = events(server, "consumer.ticked").size
      eventually(30, "30 more ticks") { events(server, "consumer.ticked").size > ticks + 30 }
      state = [server.server.healthy?, *server.stats.values_at(:stopped, :lags), server.assignments]
      equal([true, { group => {} }, { group => {} }, { name => [0] }], state, "the state of its partition")
      equal(true, server.stop, "stop")
    end
    equal([[:_AUTO_OFFSET_RESET, "kafka", name, 0]] * 2,
          events(server, "error.occurred").map do |event|
            [event[:error].name, *event.payload.values_at(:source, :topic, :partition)]
          end,
          "errors with the committed offset #{committed.inspect}")
    equal([committed], committed(group, name, 1), "committed")
    check(seen.empty?, "messages were read")
    commit.(1)
    server.start
    equal([1, 2], take(seen, 2), "read after another commit")
    equal(true, server.stop, "stop")
  end

  # There, a seek does not help.
  tries = Thread::Queue.new
  seeking = consumer { messages.each { |message| seen << message.offset } }
  seeking.define_method(:tick) do
    tries << seek(:beginning) if tries.empty?
  rescue Pelton::KafkaError => e
    tries << e.name
  end
  server = app(group: unique("group"), commit_timeout: 2) do
    topic(name, to: seeking) do
      from :error
      tick_every 0.1
    end
  end
  server.start
  # Usually it waits for an answer that never comes; seldom, librdkafka refuses it until its time is over.
  answer = take(tries, 1).first
  check(%i[_TIMED_OUT _STATE].include?(answer), "a seek: #{answer}")
  ticks = events(server, "consumer.ticked").size
  eventually(30, "30 more ticks") { events(server, "consumer.ticked").size > ticks + 30 }
  check(seen.empty?, "messages were read after a seek")
  equal(true, server.stop, "stop")
end
