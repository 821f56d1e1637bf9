# frozen_string_literal: true

require "support/scenario"

# How far behind a consumer is, by a call of consume, by partition and by librdkafka's statistics, while one partition
# is held; and each call of the consumer is surrounded by its `around`.
#
# once: the numbers are Kafka's and ours, whatever the Ruby

Scenario.run do
  name = topic(partitions: 3)
  gate = Thread::Queue.new
  calls = Thread::Queue.new
  ticked = {} # {0 => true}: partitions that had a tick
  reader = Class.new(Pelton::Consumer) do
    define_method(:around) do |action, &call|
      calls << [partition, action]
      call.call
    end
    define_method(:consume) { gate.pop if partition == 1 }
    define_method(:tick) { ticked[partition] = true }
  end
  group = unique("lags")
  all = app(group: group, kafka: { "statistics.interval.ms" => 200 }) { topic(name, to: reader) { tick_every 0.2 } }
  send = lambda do |counts|
    rows = counts.flat_map { |number, count| [{ topic: name, partition: number, payload: "x" }] * count }
    all.producer.produce_many_sync(rows)
  end
  lags = -> { all.stats[:lags].fetch(group, {})[name] }
  await = ->(expected, what) { eventually(30, -> { "#{what}: #{lags.call}" }) { lags.call == expected } }
  reported = lambda do
    found = events(all, "statistics.emitted").reverse_each.find { |event| event[:group] == group }
    found && found[:statistics].dig("topics", name, "partitions")&.transform_values do |partition|
      partition["consumer_lag_stored"]
    end
  end

  send.({ 0 => 4, 1 => 5 })
  all.start
  await.({ 0 => 0, 1 => 5, 2 => 0 }, "one is held")
  send.({ 0 => 1, 1 => 2 })
  await.({ 0 => 0, 1 => 7, 2 => 0 }, "and more")
  gate.close # opens it
  await.({ 0 => 0, 1 => 0, 2 => 0 }, "all is done")
  eventually(20, -> { "statistics: #{reported.call}" }) { reported.call&.slice("0", "1") == { "0" => 0, "1" => 0 } }
  equal(%w[0 1 2], reported.call.keys, "partitions in the statistics: not the one without a number")

  # Told of a call is when its messages are marked.
  eventually(20, "the last call") { events(all, "consumer.consumed").sum { |event| event[:messages] } >= 12 }
  told = events(all, "consumer.consumed")
  told.each do |event|
    check(event[:consumption_lag] >= event[:processing_lag] && event[:processing_lag] >= 0, event.payload.inspect)
  end
  consumed = told.group_by { |event| event[:partition] }
  equal({ 0 => 5, 1 => 7 }, consumed.transform_values { |list| list.sum { |payload| payload[:messages] } }, "consumed")
  eventually(20, "ticks") { calls.size > 30 && ticked.size == 3 }

  # Without the marker, consumption would look late until the next message.
  writer = app(kafka: { "transactional.id" => unique("writer") }).producer
  writer.transaction { |tx| 3.times { tx.produce_async(topic: name, partition: 2, payload: "x") } }
  eventually(20, "its messages") { events(all, "consumer.consumed").sum { |event| event[:messages] } >= 15 }
  await.({ 0 => 0, 1 => 0, 2 => 0 }, "the end of a transaction is no lag")
  equal(true, all.stop, "stop")
  by = take(calls, calls.size).group_by(&:first).transform_values { |list| list.map(&:last) }
  by.each_value do |actions|
    equal([:assigned, :shutdown], [actions.first, actions.last], "the first and the last call")
    equal([1, 1], actions.tally.values_at(:assigned, :shutdown), "each once")
  end
  equal([[:assigned, :consume, :shutdown, :tick]] * 2, [0, 1].map { |number| by[number].uniq.sort }, "surrounded")
  equal([], events(all, "error.occurred").map { |event| event[:error] }, "errors")
end
