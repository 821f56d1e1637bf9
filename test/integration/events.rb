# frozen_string_literal: true

require "support/scenario"

# The events of a run on a real Kafka: a rebalance with a second member, calls, jobs, a seek, a pause, transactions, the
# connection to the broker, and an event of the app.
#
# once: the events are Pelton's, whatever the Ruby

Scenario.run do
  name = topic(partitions: 2)
  group = unique("events")
  done = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    def assigned = nil
    def revoked = nil
    def shutdown = nil

    define_method(:consume) do
      mark_as_consumed(messages.last)
      pause(0.05) if messages.first.raw_payload == "pause"
      seek(0) if messages.first.raw_payload == "seek" && done.size.zero?
      done << messages.first.raw_payload
    end
  end
  statistics = { "statistics.interval.ms" => 100 }
  server = app(group: group, kafka: statistics) { topic(name, to: reader) { max_messages 1 } }
  other = app(group: group) { topic name, to: reader }
  await = lambda do |app, event, count = 1, &block|
    found = -> { events(app, event).select { |each| block.nil? || block.call(each) } }
    eventually(30, -> { "#{event}: #{found.call.size} of #{count}" }) { found.call.size >= count }
    found.call
  end

  all = []
  server.subscribe(:all) { |event| all << event.name }
  server.define_event("orders.paid", order: "the order")
  server.publish("orders.paid", order: 7)
  equal(["orders.paid"], all.dup, "an event of the app")

  server.producer.produce_many_sync(%w[seek pause last].map { |text| { topic: name, payload: text, partition: 0 } })
  await.(server, "broker.changed") { |event| event[:to] == "UP" }
  server.start
  equal(2, await.(server, "rebalance.finished").first[:partitions], "partitions at first")
  eventually(30, "the messages, the first twice") { done.size >= 4 }
  equal([0], await.(server, "partition.sought").map { |event| event[:target] }, "sought")
  equal([0.05], await.(server, "partition.paused").map { |event| event[:seconds] }, "paused")
  equal([:time], await.(server, "partition.resumed").map { |event| event[:reason] }, "resumed")
  begun = await.(server, "consumer.consuming", 4).map { |event| event[:offset] }
  equal([0, 0, 1, 2], begun.first(4), "offsets of the calls")
  equal([1], await.(server, "consumer.consumed", 4).map { |event| event[:messages] }.uniq, "messages of a call")

  other.start
  moved = await.(server, "rebalance.finished", 2).last
  check(moved[:seconds].positive?, "the second rebalance took #{moved[:seconds]} s")
  await.(other, "rebalance.finished") { |event| event[:assigned].positive? }
  await.(server, "consumer.revoked")
  equal([true, true], [other.stop, server.stop], "stops")
  jobs = events(server, "job.finished")
  equal(4, jobs.count { |event| event[:kind] == :consume }, "jobs of consume")
  check(jobs.all? { |event| event[:waited] >= 0 && event[:seconds] >= 0 }, jobs.map(&:payload).inspect)
  await.(server, "consumer.shut_down")

  sender = app(kafka: { "transactional.id" => unique("events") })
  produced = Thread::Queue.new
  sender.subscribe("message.produced") { |event| produced << event.payload.values_at(:topic, :count, :bytes) }
  sender.producer.transaction { |tx| tx.produce_async(topic: name, payload: "12345") }
  sender.producer.transaction { raise Pelton::AbortTransaction }
  equal([name, 1, 5], take(produced, 1).first, "produced")
  await.(sender, "transaction.started", 2)
  equal([1, 1], %w[committed aborted].map { |end_| events(sender, "transaction.#{end_}").size }, "transactions")
  equal([], [server, other, sender].flat_map { |app| events(app, "error.occurred").map(&:payload) }, "errors")
end
