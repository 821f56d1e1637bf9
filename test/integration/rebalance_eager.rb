# frozen_string_literal: true

require "support/group_scenario"

# Members of a classic group with eager rebalances come and go: nothing is lost, done twice or out of order.

GroupScenario.run do
  begin_group({ "partition.assignment.strategy" => "range", "heartbeat.interval.ms" => 300 })
  first = member
  second = member
  owned_by_all(first, second)
  equal(6, revocations(first), "eager: all partitions of the first member were revoked")
  third = member
  owned_by_all(first, second, third)
  leave(first)
  owned_by_all(second, third)
  working(third)
  fourth = member
  owned_by_all(second, third, fourth)
  leave(fourth)
  leave(second)
  owned_by_all(third)
  ends = end_producing
  leave(third)
  equal([], trail.problems(ends), "what went wrong")
  nothing_lost
end
