# frozen_string_literal: true

# once: it runs with the second Ruby and another librdkafka

require "support/group_scenario"

# The same under KIP-848, where the broker assigns (group.protocol=consumer).

GroupScenario.run do
  members_come_and_go({ "group.protocol" => "consumer" }, revoked: 3, stays: !Pelton::Native.librdkafka_shared?)
end
