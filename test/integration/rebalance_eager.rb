# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"

# Members of a classic group with eager rebalances come and go: nothing is lost, done twice or out of order.

GroupScenario.run do
  options = { "partition.assignment.strategy" => "range", "heartbeat.interval.ms" => 300 }
  members_come_and_go(options, revoked: 6, stays: false)
end
