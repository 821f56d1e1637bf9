# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"
require "support/lossy_proxy"

# A member of the protocol `consumer` (KIP-848) gets no answers to its heartbeats for a while, and one of them had its
# new assignment. It gives back what it should nevertheless. librdkafka alone never would, and a second member would
# wait for these partitions forever.

GroupScenario.run do
  proxy = LossyProxy.new(Integer(bootstrap[/\d+\z/]))
  begin_group({ "group.protocol" => "consumer", "auto.commit.interval.ms" => 300 })
  first = member("bootstrap.servers" => "127.0.0.1:#{proxy.port}")
  owned_by_all(first)
  proxy.loses = LossyProxy::CONSUMER_GROUP_HEARTBEAT
  second = started
  admin = app.admin
  eventually(60, -> { "the second member\n#{second.output}" }) { admin.group(@group).members.size == 2 }
  before = proxy.lost
  eventually(60, "two more answers to be lost") { proxy.lost >= before + 2 }
  proxy.loses = nil
  owned_by_all(first, second)
  working(second)
  end_producing
  [first, second].each { |member| leave(member) }
  nothing_lost(duplicates: true) # a lost connection may lose a commit
ensure
  proxy&.close
end
