# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"

# Members of a classic group with cooperative rebalances come and go: what stays with a member is not interrupted.

GroupScenario.run do
  options = { "partition.assignment.strategy" => "cooperative-sticky", "heartbeat.interval.ms" => 300 }
  members_come_and_go(options, revoked: 3, stays: !Pelton::Native.librdkafka_shared?)
end
