# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Admin's methods for the offsets of groups, with live and stopped members, in both group protocols.

def refused(name, pattern, what, &call)
  equal(name, raises(Pelton::KafkaError, pattern, &call).name, what)
end

def offsets_of_groups(type, kafka)
  name = topic(partitions: 3)
  group = unique(type.to_s)
  seen = Thread::Queue.new
  reading = consumer do
    messages.each { |message| seen << [message.partition, message.offset] }
    mark_as_consumed!(messages.last, metadata: "checkpoint #{messages.last.offset}")
  end
  server = app(group: group, kafka: kafka) { topic(name, to: reading) { manual_offsets } }
  admin = server.admin
  start = Time.now - 3600
  rows = Array.new(30) do |number|
    { topic: name, payload: "x", partition: number % 2, timestamp: start + (number / 2 * 60) }
  end
  server.producer.produce_many_sync(rows)
  server.start
  take(seen, 30)
  eventually(20, "the commits") { admin.group_offsets(group) == { [name, 0] => 15, [name, 1] => 15 } }
  equal("checkpoint 14", admin.group_commits(group).fetch([name, 1]).metadata, "metadata")
  found = admin.describe_groups(group).fetch(group)
  equal([type, :stable, 1], [found.type, found.state, found.members.size], "the group")
  check(admin.describe_groups.key?(group), "all groups")

  live = /group #{group} has live members; stop them first \(1: \S+ on 127\.0\.0\.1\)/
  refused(:UNKNOWN_MEMBER_ID, live, "alter") { admin.alter_group_offsets(group, { [name, 0] => :beginning }) }
  refused(:UNKNOWN_MEMBER_ID, live, "reset") { admin.reset_group_offsets(group, to: :beginning) }
  refused(:NON_EMPTY_GROUP, live, "delete") { admin.delete_group(group) }
  refused(:GROUP_SUBSCRIBED_TO_TOPIC, live, "delete offsets") { admin.delete_group_offsets(group, [[name, 0]]) }
  other = unique("other")
  admin.copy_group_offsets(group, other)
  refused(:UNKNOWN_MEMBER_ID, live, "copy to it") { admin.copy_group_offsets(other, group, overwrite: true) }
  equal({ [name, 0] => 15, [name, 1] => 15 }, admin.group_offsets(group), "refused, so nothing changed")
  stop = lambda do
    server.stop
    eventually(20, "the end of the members") { admin.group(group).state == :empty }
  end
  stop.call

  # The message of minute 5 is the first one that is not older.
  admin.alter_group_offsets(group, { [name, 0] => start + 299, [name, 1] => :beginning, [name, 2] => Time.now })
  equal({ [name, 0] => 5, [name, 1] => 0, [name, 2] => 0 }, admin.group_offsets(group), "positions")
  plan = admin.reset_group_offsets(group, by: -2, dry_run: true)
  equal([[5, 3, -2, nil], [0, 0, 0, :beginning], [0, 0, 0, :beginning]], plan.values.map(&:to_a), "a plan")
  equal({ [name, 0] => 10, [name, 1] => 15, [name, 2] => 0 }, admin.lag(group), "a plan changes nothing")
  admin.reset_group_offsets(group, to: 12, topics: { name => [0, 1] })
  equal({ [name, 0] => 3, [name, 1] => 3, [name, 2] => 0 }, admin.lag(group), "the lag after a reset")
  server.start
  equal([12, 12, 13, 13, 14, 14], take(seen, 6).map(&:last).sort, "it goes on there")
  stop.call

  equal({ [name, 0] => 15, [name, 1] => 15 }, admin.group_offsets(other), "the copy")
  equal("checkpoint 14", admin.group_commits(other).fetch([name, 0]).metadata, "the metadata of the copy")
  admin.delete_group_offsets(other, [[name, 1]])
  raises(Pelton::ConfigError, /overwrite: true/) { admin.copy_group_offsets(group, other) }
  admin.copy_group_offsets(group, other, overwrite: true)
  equal(15, admin.group_offsets(other).fetch([name, 1]), "an overwritten copy")
  [group, other].each { |id| admin.delete_group(id) }
  refused(:GROUP_ID_NOT_FOUND, /group #{group} does not exist/, "lag") { admin.lag(group) }
  refused(:GROUP_ID_NOT_FOUND, /does not exist/, "reset") { admin.reset_group_offsets(group, to: :end) }
  admin.reset_group_offsets(group, to: :end, topics: name)
  equal([15, 15, 0], admin.group_offsets(group).values_at([name, 0], [name, 1], [name, 2]), "a group of its own")
end

Scenario.run do
  offsets_of_groups(:classic, {})
  offsets_of_groups(:consumer, { "group.protocol" => "consumer" })
end
