# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/guides"
require "support/scenario"

# An administrator on a real broker: topics, settings, groups, offsets, records, access rules, and what Kafka refuses.

def named(what, name, &call) = equal(name, raises(Pelton::KafkaError, &call).name, what)

Scenario.run do
  rules = { "authorizer.class.name" => "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users" => "User:ANONYMOUS" }
  broker = TestBroker.start(settings: rules)
  self.bootstrap = broker.bootstrap
  admin = app.admin
  name = unique("orders")

  admin.create_topic(name, partitions: 2, config: { "retention.ms" => 86_400_000 })
  named("again", :TOPIC_ALREADY_EXISTS) { admin.create_topic(name) }
  named("more replicas than brokers", :INVALID_REPLICATION_FACTOR) { admin.create_topic("wide", replication_factor: 3) }
  named("an option that is none", :INVALID_CONFIG) { admin.create_topic("odd", config: { "a" => "b" }) }
  admin.create_partitions(name, 3)
  named("fewer partitions", :INVALID_PARTITIONS) { admin.create_partitions(name, 1) }
  eventually(20, "3 partitions") { admin.topics(name).fetch(name).partitions.size == 3 }
  equal([[0, 1, [1], [1]], [1, 1, [1], [1]], [2, 1, [1], [1]]],
        admin.topics.fetch(name).partitions.map(&:to_a), "leader, replicas, in sync")
  named("a topic that is not there", :UNKNOWN_TOPIC_OR_PART) { admin.topics("nowhere") }
  addresses = admin.cluster.brokers.map { |listed| "#{listed.host}:#{listed.port}" }
  equal([1, [bootstrap]], [admin.cluster.controller, addresses], "cluster")

  options = lambda do
    admin.config(topic: name).values_at("retention.ms", "cleanup.policy").map { |option| [option.value, option.source] }
  end
  equal([["86400000", :dynamic_topic_config], ["delete", :default_config]], options.call, "settings of the topic")
  admin.alter_config({ "cleanup.policy" => :compact, "retention.ms" => nil }, topic: name)
  eventually(20, "the change") { options.call == [["604800000", :default_config], ["compact", :dynamic_topic_config]] }
  named("an unknown setting", :INVALID_CONFIG) { admin.alter_config({ "a" => 1 }, topic: name) }
  admin.alter_config({ "cleanup.policy" => nil }, topic: name)
  eventually(20, "the change back") { options.call.last.last == :default_config }
  equal("1", admin.config(broker: 1).fetch("node.id").value, "settings of a broker")

  # A group with a member: its offsets are its own.
  group = unique("billing")
  seen = Thread::Queue.new
  reading = consumer { messages.each { |message| seen << message.offset } }
  server = app(group: group, kafka: { "auto.commit.interval.ms" => 100 }) { topic(name, to: reading) }
  server.start
  base = Time.now - 3600
  rows = Array.new(30) { |number| { topic: name, payload: "x", partition: number % 2, timestamp: base + number } }
  server.producer.produce_many_sync(rows)
  take(seen, 30)
  eventually(20, "the end of the lag") do
    admin.lag(group) == { [name, 0] => 0, [name, 1] => 0, [name, 2] => nil }
  end
  found = admin.group(group)
  equal([:stable, [[[name, 0], [name, 1], [name, 2]]]],
        [found.state, found.members.map { |member| member.partitions.sort }], "the group")
  equal(:stable, admin.groups.fetch(group), "its state")
  named("offsets of a living group", :UNKNOWN_MEMBER_ID) { admin.alter_group_offsets(group, { [name, 0] => 3 }) }
  named("a living group's end", :NON_EMPTY_GROUP) { admin.delete_group(group) }
  named("the lag of a group that is not there", :GROUP_ID_NOT_FOUND) { admin.lag("#{group}-typo") }
  server.stop

  # Without members: everybody's.
  admin.alter_group_offsets(group, { [name, 0] => 3, [name, 1] => 15 })
  equal({ [name, 0] => 12, [name, 1] => 0 }, admin.lag(group), "the lag after a step back")
  server.start
  equal((3..14).to_a, take(seen, 12), "from there on")
  server.stop
  admin.delete_group_offsets(group, [[name, 1]])
  equal({ [name, 0] => 15 }, admin.group_offsets(group), "what is left of the offsets")
  admin.delete_group(group)
  equal(:dead, admin.group(group).state, "a group that was deleted")
  named("twice", :GROUP_ID_NOT_FOUND) { admin.delete_group(group) }

  places = { [name, 0] => :end, [name, 1] => :newest, [name, 2] => :end }
  equal({ [name, 0] => 15, [name, 1] => 14, [name, 2] => 0 }, admin.offsets(places), "ends")
  equal({ [name, 0] => nil }, admin.offsets({ [name, 0] => Time.now + 60 }), "a time after all messages")
  equal({ [name, 0] => 10 }, admin.delete_records({ [name, 0] => 10 }), "deleted records")
  equal({ [name, 0] => 10 }, admin.offsets({ [name, 0] => :beginning }), "the beginning after that")
  named("more than there are", :OFFSET_OUT_OF_RANGE) { admin.delete_records({ [name, 0] => 99 }) }

  # Up to an open transaction, or beyond.
  writer = app(kafka: { "transactional.id" => unique("tx") }).producer
  writer.transaction do |tx|
    tx.produce_async(topic: name, payload: "open", partition: 2).wait
    ends = [true, false].map { |committed| admin.offsets({ [name, 2] => :end }, committed: committed).values.first }
    equal([0, 1], ends, "ends")
  end

  admin.create_acl(principal: "User:alice", operation: :read, topic: "ord", pattern: :prefixed)
  admin.create_acl(principal: "User:bob", operation: :alter, cluster: true, permission: :deny)
  eventually(20, "both rules") { admin.acls.size == 2 }
  rule = admin.acls(principal: "User:alice").first
  equal([:topic, "ord", :prefixed, "User:alice", "*", :read, :allow], rule.to_a, "the rule")
  equal(1, admin.acls(topic: "orders", pattern: :match).size, "rules that concern a topic")
  equal([rule], admin.delete_acls(topic: "ord", pattern: :prefixed), "deleted rules")
  eventually(20, "the other rule") { admin.acls.map(&:resource) == [:cluster] }

  admin.delete_topic(name)
  eventually(20, "the topic's end") { !admin.topics.key?(name) }

  # The guide's lines, one after the other; Kafka knows a moment later what it has confirmed.
  ['admin.create_topic("orders"', "admin.create_partitions"].each do |words|
    guide = Guides.find("docs/guides/administration.md", words)
    guide.code.each_line.with_index(guide.line) do |line, number|
      if line.include?("delete_records")
        Pelton.producer.produce_many_sync([{ topic: "orders", payload: "x", partition: 0 }] * 42)
      end
      eventually(20, line) do
        [TOPLEVEL_BINDING.eval(line.gsub('"localhost:9092"', bootstrap.inspect), guide.path, number)]
      rescue Pelton::KafkaError, KeyError
        false
      end
    end
  end
  eventually(20, "what the guide did") do
    [8, 42] == [Pelton.admin.topics("orders").fetch("orders").partitions.size,
                Pelton.admin.group_offsets("billing").fetch(["orders", 0])]
  end
  equal(0, Pelton.close, "undelivered")

  # Without a broker the error is the one of Kafka or librdkafka, not the end of a wait.
  broker.kill(:KILL)
  error = raises(Pelton::KafkaError) { admin.create_topic("late", timeout: 2) }
  check(%i[_TRANSPORT _TIMED_OUT].include?(error.name) && error.retriable?, "without a broker: #{error.message}")
end
