# frozen_string_literal: true

require "support/group_scenario"

# A member is stopped (SIGSTOP) in the middle of its work for longer than its session, and goes on after that: others
# have its partitions by then, what it finishes late is refused, and it moves nobody's offsets back.

GroupScenario.run do
  count = GroupScenario::PARTITIONS
  begin_group({ "partition.assignment.strategy" => "cooperative-sticky", "session.timeout.ms" => 2000,
                "heartbeat.interval.ms" => 300, "auto.commit.interval.ms" => 300 }, work: 0.05, confirm: true)
  frozen = member
  other = member
  owned_by_all(frozen, other)
  places = owned(frozen)
  eventually(20, "a job in the middle") do
    busy = trail.entries.select { |entry| entry.pid == frozen.pid }.last
    frozen.kill(:STOP) if busy&.what == "begin"
  end
  eventually(20, "the other one to have everything") { owned(other).size == count }
  before = committed(@group, @topic, count)
  eventually(20, "its work on what it took over") do
    committed(@group, @topic, count).zip(before).each_with_index.all? do |(now, then_), place|
      !places.include?(place) || now > then_
    end
  end
  reached = committed(@group, @topic, count)
  frozen.kill(:CONT)
  eventually(20, "the late mark") { trail.entries.any? { |one| one.pid == frozen.pid && one.what == "refused" } }
  check(committed(@group, @topic, count).zip(reached).all? { |now, then_| now >= then_ }, "no offset moved back")
  owned_by_all(frozen, other) # it is a member again
  end_producing
  leave(frozen)
  leave(other)
  nothing_lost(duplicates: true)
end
