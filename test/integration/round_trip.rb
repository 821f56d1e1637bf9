# frozen_string_literal: true

require "support/scenario"

# 20,000 messages to four partitions: each is seen once, in order, with its value, in batches of 4 KB at most;
# all of it is committed.

Scenario.run do
  count = 20_000
  name = topic(partitions: 4)
  group = unique("group")
  document = lambda { |number|
    { "n" => number, "text" => "Zürich #{number}", "list" => [1.5, nil, true, { "k" => -number }] }
  }
  key = ->(number) { "key-#{number}" }

  writer = app(kafka: { "linger.ms" => 5 })
  deliveries = (0...count).each_slice(1_000).map do |numbers|
    writer.producer.produce_many_async(numbers.map do |number|
      { topic: name, partition: number % 4, key: key.(number), payload: JSON.generate(document.(number)) }
    end)
  end
  deliveries.each(&:wait)
  reports = deliveries.flat_map(&:reports)
  equal(count, reports.count { |_, _, offset, error| offset && error.nil? }, "delivered")
  reports.each_with_index do |row, number|
    equal([name, number % 4, number / 4, nil], row, "report of message #{number}")
  end

  seen = Thread::Queue.new
  sizes = Thread::Queue.new
  reader = consumer do
    sizes << messages.sum { |message| message.raw_key.to_s.bytesize + message.raw_payload.bytesize }
    messages.each do |message|
      seen << [message.partition, message.offset, message.key, message.payload, message.timestamp]
    end
  end
  first = app(group: group, concurrency: 4, max_batch_bytes: 4_096) { topic(name, to: reader) { decode :json } }
  first.start
  all = take(seen, count)
  equal(true, first.stop, "stop")
  check(seen.empty?, "#{seen.size} messages were seen twice")
  largest = Array.new(sizes.size) { sizes.pop }.max
  check(largest <= 4_096, "a batch of #{largest} bytes")
  4.times do |partition|
    mine = all.select { |row| row[0] == partition }
    equal((0...(count / 4)).to_a, mine.map { |row| row[1] }, "offsets of partition #{partition}")
    mine.each do |_, offset, its_key, payload, time|
      number = (offset * 4) + partition
      equal([key.(number), document.(number)], [its_key, payload], "message #{number}")
      check((Time.now - time).abs < 600, "the timestamp #{time} of message #{number}")
    end
  end
  equal([count / 4] * 4, committed(group, name, 4), "committed offsets")
  equal([], events(first, "error.occurred").map { |event| event[:error] }, "errors")

  # Another app of that group gets what is new, and only that.
  second = app(group: group) { topic(name, to: reader) { decode :json } }
  second.start
  eventually(20, "all partitions") { events(second, "partition.assigned").size == 4 }
  4.times { |partition| writer.producer.produce_sync(topic: name, partition: partition, payload: "-1") }
  new = take(seen, 4)
  equal([0, 1, 2, 3].map { |partition| [partition, count / 4, -1] }, new.sort.map do |row|
                                                                       row.values_at(0, 1, 3)
                                                                     end, "what was new")
  equal(true, second.stop, "the second stop")
  check(seen.empty?, "the second app saw more than what was new")
  equal([(count / 4) + 1] * 4, committed(group, name, 4), "committed offsets at the end")
end
