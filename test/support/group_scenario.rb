# frozen_string_literal: true

require_relative "members"
require_relative "scenario"

# Members of a group that join and leave while the scenario produces. Each member is a process of its own.
class GroupScenario < Scenario
  include Members

  # Runs a scenario with these options. revoked: number of the first member's partitions that are revoked, or
  # interrupted, when a second one joins.
  def members_come_and_go(kafka, revoked:)
    begin_group(kafka)
    first = member
    second = member
    owned_by_all(first, second)
    equal(revoked, revocations(first), "partitions that the first member gave up when the second came")
    third = member
    owned_by_all(first, second, third)
    leave(first)
    owned_by_all(second, third)
    working(third)
    fourth = member
    owned_by_all(second, third, fourth)
    [fourth, second].each { |member| leave(member) }
    owned_by_all(third)
    end_group(third)
  end
end
