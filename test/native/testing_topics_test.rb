# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"

# Topics in memory: how many partitions they have, and where consumers begin.
class TestingTopicsTest < Minitest::Test
  class OrdersConsumer < Pelton::Consumer
    def consume = nil
  end

  def setup
    Pelton.configure { |config| config.group_id = "billing" }
    Pelton.topics { topic "payments", partitions: 6 }
    Pelton.routes do
      topic("payments", to: OrdersConsumer)
      topic("orders", to: OrdersConsumer) { creates partitions: 6 }
      %w[beginning end error].each { |name| group(name) { topic(name, to: OrdersConsumer) { from name.to_sym } } }
    end
  end

  def test_a_declared_topic_has_one_partition_until_the_test_creates_it
    %w[payments orders].each do |topic|
      produce(topic, {}, key: "7")
      assert_equal [1, [0]], [Pelton.producer.partition_count(topic), consumed_messages(topic).map(&:partition)]
      assert_raises(Pelton::ConfigError) { revoke(topic, 5) }
      create_topic(topic, partitions: 6)
      run_consumers
      revoke(topic, 5)
      assign(topic, 5)
    end
  end

  def test_from_end_and_from_error_begin_behind_the_first_message_of_a_test
    %w[beginning end error].each { |topic| 2.times { produce(topic, {}) } }
    offsets = %w[beginning end error].map { |topic| consumed_messages(topic).map(&:offset) }
    assert_equal [[[0, 1], [1], [1]], []], [offsets, consumer_errors]
  end
end
