# frozen_string_literal: true

require "support/scenario"

# once: this is about Kafka, whatever the Ruby

# A member that closes before its first assignment leaves the group at once, and the others do not wait for the end of
# its session. A member whose pattern matches nothing takes no processor time (librdkafka issue 5324).

Scenario.run do
  name = topic(partitions: 3)
  nothing = Class.new(Pelton::Consumer) { def consume = nil }
  # librdkafka sends no LeaveGroup for a member whose JoinGroup is under way, so it may stay for its session.
  protocols = [{ "partition.assignment.strategy" => "range", "session.timeout.ms" => 6000 },
               { "partition.assignment.strategy" => "cooperative-sticky", "session.timeout.ms" => 6000 },
               { "group.protocol" => "consumer" }]
  protocols.each do |kafka|
    group = unique("group")
    stay = app(group: group, kafka: kafka) { topic(name, to: nothing) }
    stay.start
    eventually(30, "the partitions") { events(stay, "partition.assigned").size == 3 }
    [0, 0.05].each do |pause|
      short = app(group: group, kafka: kafka) { topic(name, to: nothing) }
      short.start
      work(pause)
      equal(true, short.stop(timeout: 30 * Guard::PATIENCE), "the stop of a member #{pause} s old")
      equal([], events(short, "error.occurred").map { |event| event[:error] }, "errors")
    end
    owned = -> { events(stay, "partition.assigned").size - events(stay, "partition.revoked").size }
    eventually(30, "all partitions again") { owned.call == 3 }
    equal(true, stay.stop, "stop")
  end

  # One that has none leaves for good: with a ghost in the group the next join lasts as long as a session, 45 s.
  single = topic
  told = { "debug" => "cgrp" }
  protocols.each do |kafka|
    group = unique("group")
    owner, spare, successor = Array.new(3) do
      app(group: group, kafka: { **kafka, **told }) { topic(single, to: nothing) }
    end
    owner.start
    eventually(30, "its partition") { owner.assignments.any? }
    spare.start
    eventually(30, "the spare member") do
      events(spare, "kafka.log").any? { |event| event[:message].match?(/-> steady|received target assignment/) }
    end
    equal(true, spare.stop, "the stop of who has no partition")
    equal(true, owner.stop, "the stop of who has one")
    successor.start
    eventually(25, "the partition of a group that all others left: #{kafka}") { successor.assignments.any? }
    equal(true, successor.stop, "stop")
  end

  [{}, { "group.protocol" => "consumer" }].each do |kafka|
    idle = app(group: unique("idle"), kafka: kafka) { topic(/no-topic-is-named-so/, to: nothing) }
    idle.start
    work(1)
    used = nil
    eventually(20, -> { "#{used} s of processor time in 3 s of nothing" }) do # the start may take longer than a second
      before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      work(3)
      (used = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before) < 0.5
    end
    equal(true, idle.stop, "stop")
  end
end
