# frozen_string_literal: true

# once: it runs with the second Ruby and another librdkafka

require "test_helper"
require "support/consumer_worlds"
require "support/kafka_wire"

# The contract of consumers (test/support/consumer_contract.rb) on a real Kafka, so that the harness of pelton/testing
# is no kinder.
class BrokerConsumersTest < Minitest::Test
  include ConsumerContract
  include ConsumerWorlds::Clients

  def bootstrap = ENV.fetch("PELTON_BOOTSTRAP")

  def topic(partitions = 1, name: unique("consumers"))
    host, port = bootstrap.split(":")
    KafkaWire.open(host, port.to_i, timeout: 60) { |broker| broker.create_topics({ name => partitions }, {}) }
    eventually(15, "#{partitions} partitions of #{name}") do
      Pelton::Native.metadata({ "bootstrap.servers" => bootstrap }, name, 15).dig(:topics, name) == partitions
    end
    name
  end
end
