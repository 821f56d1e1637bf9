# frozen_string_literal: true

require "support/group_scenario"

# The same under KIP-848, where the broker assigns (group.protocol=consumer).

GroupScenario.run do
  begin_group({ "group.protocol" => "consumer" })
  first = member
  second = member
  owned_by_all(first, second)
  equal(3, revocations(first), "only what moved was revoked")
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
