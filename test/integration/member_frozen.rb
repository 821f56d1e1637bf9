# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"

# A member is stopped (SIGSTOP) in the middle of its work for longer than its session, and goes on after that: others
# have its partitions by then, what it finishes late is refused, and it moves nobody's offsets back.

GroupScenario.run do
  count = GroupScenario::PARTITIONS
  begin_group({ "partition.assignment.strategy" => "cooperative-sticky", "heartbeat.interval.ms" => 300,
                "auto.commit.interval.ms" => 300 }, work: 0.05, confirm: true)
  frozen = member("session.timeout.ms" => 2000)
  other = member
  owned_by_all(frozen, other)
  places = owned(frozen)
  eventually(20, "a job in the middle") do
    frozen.kill(:STOP)
    eventually(5, "the halt") { File.read("/proc/#{frozen.pid}/stat")[/\) (.)/, 1] == "T" }
    lives = trail.entries.select { |entry| entry.pid == frozen.pid }.group_by(&:instance)
    lives.each_value.any? { |life| life.last.what == "begin" } || (frozen.kill(:CONT) && nil)
  end
  eventually(20, "the other one to have everything") { owned(other).size == count }
  before = committed(@group, @topic, count).map(&:to_i)
  eventually(20, "its work on what it took over") do
    committed(@group, @topic, count).zip(before).each_with_index.all? do |(now, then_), place|
      !places.include?(place) || now.to_i > then_
    end
  end
  reached = committed(@group, @topic, count).map(&:to_i)
  frozen.kill(:CONT)
  eventually(20, "the late mark") { trail.entries.any? { |entry| entry.pid == frozen.pid && entry.what == "refused" } }
  check(committed(@group, @topic, count).zip(reached).all? { |now, then_| now.to_i >= then_ }, "no offset moved back")
  owned_by_all(frozen, other) # it is a member again
  end_producing
  leave(frozen)
  leave(other)
  nothing_lost(duplicates: true)
end
