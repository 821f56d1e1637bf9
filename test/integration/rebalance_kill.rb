# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"

# A member is killed (-9): the others take over after its session timeout, and only what it had not committed is done
# again.

GroupScenario.run do
  begin_group({ "partition.assignment.strategy" => "cooperative-sticky", "heartbeat.interval.ms" => 300,
                "auto.commit.interval.ms" => 500 })
  first = member
  second = member("session.timeout.ms" => 2000)
  third = member
  owned_by_all(first, second, third)
  working(second)
  second.kill(:KILL)
  equal(137, exit_code(second), "the end of the killed member")
  owned_by_all(first, third)
  working(first)
  working(third)
  end_group(first, third, killed: [second.pid], duplicates: true)
end
