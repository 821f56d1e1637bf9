# frozen_string_literal: true

require "test_helper"
require "support/soak"

# Rebalances leave nothing behind. (200 of them on a real broker: test/integration/soak.rb.)
class SoakTest < Minitest::Test
  # The mock lets members that rejoin wait for a session timeout less a second.
  KAFKA = { "session.timeout.ms" => 1150, "heartbeat.interval.ms" => 50,
            "topic.metadata.refresh.interval.ms" => 200 }.freeze

  def test_forty_rebalances
    cluster = Pelton::EmbeddedCluster.new
    create = ->(name, partitions) { cluster.create_topic(name, partitions) }
    kafka = { "bootstrap.servers" => cluster.bootstrap_servers, **KAFKA }
    soak = Soak.new(kafka, group: "soak", create: create,
                           eventually: ->(timeout, what, &block) { eventually(timeout, what, &block) })
    soak.rebalance(6, more_topics: 1)
    before = soak.footprint
    soak.rebalance(40, more_topics: 2)
    threads = 2 * Soak::PARTITIONS # a background thread each
    after = nil
    eventually(30, -> { "before: #{before}; after: #{after}" }) do
      (after = soak.footprint).within?(before, 4_000, more_threads: threads)
    end
    assert_equal 0, soak.close
  ensure
    cluster&.close
  end
end
