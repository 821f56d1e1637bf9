# frozen_string_literal: true

require_relative "members"
require_relative "scenario"

# Members of a group that join and leave while the scenario produces. Each member is a process of its own.
class GroupScenario < Scenario
  include Members

  # Runs a scenario with these options. revoked: number of the first member's partitions that are revoked, or
  # interrupted, when a second one joins. stays: checks that its other partitions are consumed until it has given these
  # up.
  def members_come_and_go(kafka, revoked:, stays:)
    gate = File.join(Dir.mktmpdir("pelton-gate"), "open") if stays
    begin_group(kafka, gate: gate)
    first = member
    second = started
    open_gate(gate, first, revoked) if gate
    working(second)
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

  private

  # This member gives up partitions when the gate is open. Those that stay get messages that are produced before.
  def open_gate(gate, member, revoked)
    eventually(30, "#{revoked} partitions to be revoked") { revocations(member) == revoked }
    sent = @sent.dup
    eventually(15, "messages in #{owned(member)}") do
      owned(member).all? { |place| trail.positions.fetch(place, 0) > sent[place] }
    end
    FileUtils.touch(gate)
  end
end
