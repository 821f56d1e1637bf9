# frozen_string_literal: true

require "support/group_scenario"

# Members of a classic group with cooperative rebalances come and go: what stays with a member is not interrupted.

GroupScenario.run do
  begin_group({ "partition.assignment.strategy" => "cooperative-sticky", "heartbeat.interval.ms" => 300 })
  first = member
  second = member
  owned_by_all(first, second)
  equal(3, revocations(first), "cooperative: only what moved was revoked")
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
