# frozen_string_literal: true

require_relative "broker"

# Several real brokers in one cluster. The first one is also the controller, so kill another one.
#   cluster = TestCluster.start(3)
#   cluster.bootstrap                # => "127.0.0.1:23456,127.0.0.1:23460,127.0.0.1:23464"
#   cluster.brokers.last.kill(:KILL) # the others notice it after SESSION
#   cluster.stop
class TestCluster
  # Milliseconds without a heartbeat after which a broker counts as dead. As Kafka's own default.
  SESSION = "9000"
  private_constant :SESSION

  # settings: of each broker. Waits until the cluster serves groups and transactions.
  #: (Integer, ?settings: Hash[String, String]) -> TestCluster
  def self.start(count, settings: {})
    copies = [count, 3].min.to_s
    settings = { "default.replication.factor" => copies, "offsets.topic.replication.factor" => copies,
                 "transaction.state.log.replication.factor" => copies, "min.insync.replicas" => "1",
                 BrokerKit::SESSION => SESSION, **settings }
    brokers = [TestBroker.start(settings: settings, warm: false)]
    others = { **settings, "process.roles" => "broker", "controller.quorum.voters" => brokers.first.voters }
    2.upto(count) do |node|
      brokers << TestBroker.start(settings: { **others, "node.id" => node.to_s }, warm: false)
    end
    brokers.first.warm_up
    new(brokers)
  end

  # In the order of their node ids, which begin at 1.
  #: () -> Array[TestBroker]
  attr_reader :brokers

  def initialize(brokers)
    @brokers = brokers
  end

  #: () -> String
  def bootstrap = brokers.map(&:bootstrap).join(",")
  #: () -> void
  def stop = brokers.reverse_each(&:stop)
end
