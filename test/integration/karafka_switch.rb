# frozen_string_literal: true

# once: this is about Kafka's protocol, whatever the Ruby

require "support/scenario"

# A group changes from another client to Pelton and back, member by member, and its offsets go on. The other member is
# Java's client with the strategy `range`, the first one of librdkafka's default and so of Karafka's. Java also writes
# offsets. Then a dead letter with Karafka's headers goes back to its topic.
PARTITIONS = 4
EACH = 25 # messages of a partition at a time

Scenario.run do
  name = topic(partitions: PARTITIONS)
  group = unique("billing")
  producer = app.producer
  admin = app.admin
  member = File.join(Scenario::ROOT, "test/broker/JavaMember.java")
  java = ->(*more) { child({}, [*BrokerKit.java, member, bootstrap, name, group, *more]) }
  pairs = ->(child) { child.output.scan(/^(\d+) (\d+)$/).map { |pair| pair.map(&:to_i) } }

  # Messages from this offset on, in each partition.
  places = ->(from) { (0...PARTITIONS).to_a.product((from...(from + EACH)).to_a) }
  produce = lambda do
    all = places.(0).map { |number, _| { topic: name, partition: number, payload: "x" } }
    producer.produce_many_sync(all)
  end
  members = lambda do |count|
    eventually(60, "#{count} members") do
      found = admin.group(group)
      [found.state, found.members.size] == [:stable, count]
    end
  end

  seen = Thread::Queue.new
  work = consumer { messages.each { |message| seen << [message.partition, message.offset] } }
  server = -> { app(group: group) { topic(name, to: work) }.tap(&:start) }
  done = [] # what Pelton has processed
  ours = -> { done.tap { done << seen.pop until seen.empty? } }

  # --- the old client alone ---------------------------------------------------------------------------------------
  produce.call
  old = java.call
  eventually(60, "the first messages in Java") { (places.(0) - pairs.(old)).empty? }

  # --- both -------------------------------------------------------------------------------------------------------
  pelton = server.call
  members.(2)
  produce.call
  eventually(60, "the second messages in both") { (places.(EACH) - pairs.(old) - ours.call).empty? }
  equal([2, 2], [pairs.(old), done].map { |list| (list & places.(EACH)).map(&:first).uniq.size }, "partitions of both")
  equal([], done & places.(0), "messages that Java had committed")

  # --- Pelton alone -----------------------------------------------------------------------------------------------
  javas = (pairs.(old) & places.(EACH)).map { |number, _| [name, number] }.uniq
  eventually(20, "Java's commit") { admin.group_offsets(group).values_at(*javas) == [EACH * 2] * 2 }
  old.kill(:TERM)
  exit_code(old, 60)
  members.(1)
  produce.call
  eventually(60, "the third messages in Pelton") { (places.(EACH * 2) - ours.call).empty? }
  equal([], done & pairs.(old), "messages that both processed")

  # --- and back ---------------------------------------------------------------------------------------------------
  back = java.call
  members.(2)
  pelton.stop
  members.(1)
  produce.call
  eventually(60, "the fourth messages in Java") { (places.(EACH * 3) - pairs.(back)).empty? }
  equal(places.(EACH * 3), pairs.(back).sort, "what Java processed after Pelton")
  back.kill(:TERM)
  exit_code(back, 60)

  # --- offsets that Java writes -----------------------------------------------------------------------------------
  eventually(60, "the end of the group") { admin.group(group).state == :empty }
  equal(0, exit_code(java.call("90"), 60), "Java's change of the offsets")
  done.clear
  pelton = server.call
  wanted = places.(EACH * 3).select { |_, offset| offset >= 90 }
  eventually(60, "messages from 90 on") { (wanted - ours.call).empty? }
  pelton.stop
  equal(wanted, ours.call.sort, "what Pelton processed after Java's change")
  equal([EACH * 4] * PARTITIONS, committed(group, name, PARTITIONS), "Pelton's offsets")

  # --- a dead letter of Karafka -----------------------------------------------------------------------------------
  dead = topic
  headers = { "trace" => "1", "source_topic" => name, "source_partition" => "2", "source_offset" => "7",
              "source_consumer_group" => group, "source_attempts" => "3" }
  producer.produce_sync(topic: dead, key: "k", payload: "letter", headers: headers)
  origin = read(dead, 1, 1).first.last.origin
  equal([name, 2, 7, group, 3], [origin.topic, origin.partition, origin.offset, origin.group, origin.attempts],
        "the message's origin")
  letters = app.dead_letters(dead)
  found = letters.list(topic: name).first
  equal([2, 7, group, 3], [found.origin.partition, found.origin.offset, found.group, found.origin.attempts],
        "the letter")
  equal([1, 0], Array.new(2) { letters.redrive.handled }, "redriven once")
  partition, again = read(name, PARTITIONS, (EACH * PARTITIONS * 4) + 1).find do |_, message|
    message.raw_payload == "letter"
  end
  equal([2, "k", "1", nil], [partition, again.raw_key, *again.raw_headers.values_at("trace", "source_topic")], "again")
end
