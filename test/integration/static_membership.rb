# frozen_string_literal: true

require "support/group_scenario"

# once: this is about Kafka, whatever the Ruby

# Members with a name of their own (group.instance.id): one that ends does not leave the group, and one that is back
# within the session timeout has the partitions that it had. The others hear nothing of it. One that was killed comes
# back so too in a classic group; under KIP-848 Kafka refuses the name until the session is over.

CLASSIC = { "partition.assignment.strategy" => "range", "session.timeout.ms" => 45_000,
            "heartbeat.interval.ms" => 300 }.freeze

GroupScenario.run do
  # A server boots in the session's time; under KIP-848 that is the broker's.
  broker = TestBroker.start(settings: { "group.consumer.session.timeout.ms" => "45000" })
  self.bootstrap = broker.bootstrap
  { CLASSIC => %i[TERM KILL], { "group.protocol" => "consumer" } => %i[TERM] }.each do |kafka, signals|
    begin_group(kafka)
    first = member("group.instance.id" => "one")
    second = member("group.instance.id" => "two")
    owned_by_all(first, second)
    working(first)
    mine = owned(second)
    calm = revocations(first)
    killed = []
    signals.each do |signal|
      second.kill(signal)
      equal(signal == :KILL ? 137 : 0, exit_code(second), "exit code")
      killed << second.pid if signal == :KILL
      working(first)
      second = member("group.instance.id" => "two")
      eventually(30, "the partitions #{mine}") { owned(second) == mine }
      equal(calm, revocations(first), "partitions that the other member gave up")
    end
    end_group(first, second, killed: killed, duplicates: killed.any?)
  end
ensure
  broker&.stop
end
