# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"

# The broker is frozen (SIGSTOP) for longer than a session (6 s) at worse moments than in broker_frozen.rb: again before
# the members are back, in the middle of a rebalance, and under members with a name of their own (group.instance.id).
# All members of the protocol `consumer` (KIP-848) are back within a minute, nothing is lost, and a member that the
# broker forgot says which partitions it lost. In the rebalance, a member's new assignment may be in an answer that
# comes too late.

BACK = 60
FORGOTTEN = /UNKNOWN_MEMBER_ID|FENCED_MEMBER_EPOCH/

GroupScenario.run do
  broker = TestBroker.start # with sessions of 6 s
  self.bootstrap = broker.bootstrap
  freezes = lambda do |seconds|
    broker.kill(:STOP)
    IO.select(nil, nil, nil, seconds)
    broker.kill(:CONT)
  end
  again = lambda do |_|
    freezes.(7)
    IO.select(nil, nil, nil, 1)
    freezes.(7)
  end
  rebalance = lambda do |members|
    before = trail.entries.size
    members << started
    eventually(30, "the rebalance") { trail.entries.drop(before).any? { |entry| entry.what == "revoked" } }
    freezes.(8)
  end
  static = ->(_) { freezes.(8) }
  { "again" => again, "in a rebalance" => rebalance, "under static members" => static }.each do |what, way|
    begin_group({ "group.protocol" => "consumer", "auto.commit.interval.ms" => 300,
                  "reconnect.backoff.ms" => 50, "reconnect.backoff.max.ms" => 250 })
    names = way == static ? %w[one two].map { |name| { "group.instance.id" => name } } : [{}, {}]
    members = names.map { |name| member(name) }
    owned_by_all(*members)
    way.(members)
    took = seconds { members.each { |member| working(member, BACK) } && owned_by_all(*members, timeout: BACK) }
    puts "frozen #{what}: #{members.size} members are back after #{took.round(1)} s"
    places = end_producing.transform_keys { |partition| [@topic, partition] }
    admin = app.admin
    eventually(60, "all of it to be committed") { admin.group_offsets(@group) == places }
    members.each do |member|
      leave(member)
      next unless member.output.match?(FORGOTTEN)

      check(member.output.match?(/ lost #{@group} #{@topic}/), "frozen #{what}: a loss is told\n#{member.output}")
    end
    nothing_lost(duplicates: true)
  end
ensure
  broker&.stop
end
