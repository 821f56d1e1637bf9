# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# Statistics become Ruby objects only as far as they are useful. A consumer sees its assigned partitions: here ten of
# 2,000 and more.
class NativeStatisticsTest < Minitest::Test
  include NativeKit

  PARTITION = { "desired" => false, "fetch_state" => "none", "consumer_lag" => -1 }.freeze

  # {number => lag} of what is assigned, of so many partitions.
  def document(topics, count, type: "consumer")
    places = topics.keys.product((0...count).to_a)
    JSON.generate(
      "name" => "rdkafka#1", "type" => type, "ts" => 5, "cgrp" => { "assignment_size" => 2 },
      "brokers" => { "b:9092/1" => { "nodeid" => 1, "toppars" => places.to_h do |topic, number|
        ["#{topic}-#{number}", { "topic" => topic, "partition" => number }]
      end } },
      "topics" => topics.to_h do |topic, lags|
        all = (-1...count).to_h do |number|
          ours = lags.key?(number) ? { "desired" => true, "consumer_lag" => lags[number] } : {}
          [number.to_s, { **PARTITION, **ours }]
        end
        [topic, { "topic" => topic, "age" => 7, "partitions" => all }]
      end
    )
  end

  def test_statistics_of_a_consumer_show_assigned_partitions
    text = document({ "orders" => { 3 => 12, 1 => 0 }, "a-b" => { 0 => 4 }, "none" => {} }, 5)
    whole = JSON.parse(text)
    found = Native.parse_statistics(text)
    lags = found["topics"].transform_values do |topic|
      topic["partitions"].transform_values { |lag| lag["consumer_lag"] }
    end
    assert_equal whole.except("topics", "brokers"), found.except("topics", "brokers")
    assert_equal({ "orders" => { "1" => 0, "3" => 12 }, "a-b" => { "0" => 4 }, "none" => {} }, lags)
    assert_equal 7, found.dig("topics", "none", "age")
    assert_equal %w[orders-1 orders-3 a-b-0], found.dig("brokers", "b:9092/1", "toppars").keys
    assert_equal 1, found.dig("brokers", "b:9092/1", "nodeid")
  end

  def test_of_a_producer_everything
    text = document({ "orders" => {} }, 3, type: "producer")
    assert_equal JSON.parse(text), Native.parse_statistics(text)
  end

  def test_strange_ones
    ["{}", "[]", "7", '{"type":"consumer"}', '{"type":"consumer","topics":[],"brokers":7}',
     '{"type":"consumer","topics":{"a":{"partitions":null}},"brokers":{"b":{"toppars":{"x":{}}}}}'].each do |text|
      assert_kind_of JSON.parse(text).class, Native.parse_statistics(text)
    end
    assert_raises(Pelton::DecodeError) { Native.parse_statistics("{") }
    assert_raises(TypeError) { Native.parse_statistics(nil) }
  end

  def test_statistics_of_a_huge_cluster_allocate_for_assigned_partitions_only
    few, many = [10, 5_000].map { |count| document({ "orders" => (0...10).to_h { |number| [number, 0] } }, count) }
    few, many = [few, many].map do |text|
      Native.parse_statistics(text)
      allocations { Native.parse_statistics(text) }
    end
    assert_operator many, :<, few + 50
  end

  def test_under_stress
    text = document({ "orders" => { 1 => 5 } }, 20)
    expected = Native.parse_statistics(text)
    GC.stress = true
    found = Native.parse_statistics(text)
    GC.stress = false
    assert_equal expected, found
  ensure
    GC.stress = false
  end
end
