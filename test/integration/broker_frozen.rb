# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/group_scenario"

# The broker is frozen (SIGSTOP) twice for longer than a session under members of the protocol `consumer` (KIP-848): all
# of them work again afterwards, and nothing is lost. librdkafka may stop a member's heartbeats for good then.

GroupScenario.run do
  broker = TestBroker.start # with sessions of 6 s
  self.bootstrap = broker.bootstrap
  begin_group({ "group.protocol" => "consumer", "auto.commit.interval.ms" => 300,
                "reconnect.backoff.ms" => 50, "reconnect.backoff.max.ms" => 250 })
  first = member
  second = member
  owned_by_all(first, second)
  [7, 9].each do |seconds|
    broker.kill(:STOP)
    IO.select(nil, nil, nil, seconds)
    broker.kill(:CONT)
    [first, second].each { |member| working(member) }
  end
  all_back(end_producing, 2)
  leave(first)
  leave(second)
  nothing_lost(duplicates: true)
ensure
  broker&.stop
end
