# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "support/native_kit"
require "pelton/testing"

# What Pelton::Producer relies on: the native producer on the embedded cluster, the one of Pelton::Testing and the fake
# one of the unit tests do it.
module ProducerContract
  def test_delivery_has_topic_partition_and_offset
    deliveries = Array.new(3) { |index| made.produce(topic, "x#{index}", "k", 0, nil, { "a" => "b" }, 1) }
    deliveries.each { |delivery| assert_same delivery, delivery.wait(timeout: 60) }
    assert_equal [[topic, 0, 0], [topic, 0, 1], [topic, 0, 2]],
                 (deliveries.map { |delivery| [delivery.topic, delivery.partition, delivery.offset] })
    assert_equal [nil, 1], [deliveries.first.error, deliveries.first.size]
  end

  def test_several_messages_share_one_delivery
    rows = Array.new(3) { |index| { topic: topic, payload: "x#{index}", partition: 0 } }
    delivery = made.produce_many(rows, 1)
    assert_equal 3, delivery.wait(timeout: 60).size
  end

  def test_flush_and_pending
    made.produce(topic, "x", nil, -1, 1_700_000_000_000, nil, 1)
    assert_equal true, made.flush(60)
    assert_equal 0, made.pending
  end

  def test_a_disconnected_producer_connects_with_its_next_use
    assert_predicate made, :connected?
    made.produce(topic, "x", nil, 0, nil, nil, 1)
    assert_equal true, made.flush(60)
    assert_equal [true, false], [made.disconnect(10), made.disconnect(10)]
    refute_predicate made, :connected?
    assert_equal [true, 0], [made.flush(60), made.pending]
    refute_predicate made, :connected?
    assert_equal 1, made.produce(topic, "y", nil, 0, nil, nil, 1).wait(timeout: 60).offset
    assert_predicate made, :connected?
    assert_equal true, made.disconnect(10)
    assert_equal 0, made.close(10)
    assert_equal false, made.disconnect(10)
  end

  def test_a_closed_producer
    made.produce(topic, nil, nil, -1, nil, nil, 1)
    assert_equal [0, 0], [made.close(10), made.close(10)]
    assert_raises(Pelton::ClosedError) { made.produce(topic, "x", nil, -1, nil, nil, 1) }
  end
end

class FakeProducerContractTest < Minitest::Test
  include ProducerContract

  def made = @made ||= Fakes::Producer.new("fake", {})
  def topic = "orders"
end

class BufferedProducerContractTest < Minitest::Test
  include ProducerContract

  def made = @made ||= Pelton::Testing::BufferedClient.new("buffered", {})
  def topic = "orders"
end

class NativeProducerContractTest < Minitest::Test
  include NativeKit
  include ProducerContract

  def made = @made ||= producer
  def topic = @topic ||= new_topic
end
