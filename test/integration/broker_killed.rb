# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"

# The broker is killed (-9) twice under a producer and two members of a group, and comes back with its data: each
# message is processed, in the order of its key; those whose commit did not arrive are processed again.

GroupScenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  begin_group({ "partition.assignment.strategy" => "cooperative-sticky", "auto.commit.interval.ms" => 300,
                "session.timeout.ms" => 6000, "heartbeat.interval.ms" => 500,
                "reconnect.backoff.ms" => 50, "reconnect.backoff.max.ms" => 250 })
  first = member
  second = member
  owned_by_all(first, second)
  2.times do
    broker.kill(:KILL)
    check(!broker.alive?, "the broker is dead")
    broker.restart
    [first, second].each { |member| working(member) }
  end
  all_back(end_producing, 2)
  leave(first)
  leave(second)
  nothing_lost(duplicates: true)
ensure
  broker&.stop
end
