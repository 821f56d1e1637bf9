# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

class MessagesTest < Minitest::Test
  def batch(*offsets) = Fakes::Batch.new(offsets.map { |offset| single(offset) })
  def single(offset, payload = "[#{offset}]") = Fakes::Message.new("orders", 2, offset, payload, key: "k#{offset}")
  def offsets(messages) = messages.map(&:offset)

  def test_enumerable
    three = batch(5, 6, 9)
    assert_equal [5, 6, 9], offsets(three)
    assert_equal 3, three.each.size
    assert_same(three, three.each(&:offset))
    assert_equal [5, 9, 6], [three.first.offset, three.last.offset, three[1].offset]
    assert_equal [5, 6], offsets(three.first(2))
    assert_equal [[5], [6], [9]], three.payloads
    assert_equal ["[5]", "[6]", "[9]"], three.raw_payloads
    assert_equal %w[k5 k6 k9], three.keys
    assert_equal ["orders", 2], three.topic_partition
    refute_empty three
    assert_equal 7, three.leader_epoch
    assert_includes three.inspect, "orders/2 3 messages, offsets 5..9"
  end

  # A tracer may prepend its own Messages#each. It is for the user's calls: jobs, marks and retries do not use it.
  def test_pelton_does_not_call_a_prepended_each
    all = batch(5, 6, 9, 10)
    calls = 0
    all.singleton_class.prepend(Module.new { define_method(:each) { |&block| (calls += 1) && super(&block) } })
    assert_equal [9, 10], offsets(all.from(7, 10))
    assert_equal [5, 6], offsets(all.upto(6))
    assert_equal [9], offsets(all.only([all[2]]))
    assert_equal %w[k5 k6 k9 k10], all.keys
    assert_equal [4, 5, 10, 7], [all.payloads.size, all.first_offset, all.last.offset, all.leader_epoch],
                 "number of payloads, first offset, last offset, leader epoch"
    assert_equal 0, calls
    assert_equal [5, 6, 9, 10], all.map(&:offset)
    assert_equal 1, calls
  end

  def test_from
    all = batch(5, 6, 9, 10)
    assert_same all, all.from(0, 4)
    assert_same all, all.from(5, 10)
    assert_equal [9, 10], offsets(all.from(7, 10))
    assert_equal [9], offsets(all.from(9, 1))
    assert_equal [5, 6], offsets(all.from(5, 2))
    none = all.from(11, 10)
    assert_empty none
    assert_equal [nil, nil, -1], [none.first_offset, none.last_offset, none.leader_epoch]
    assert_same none, none.from(3, 1)
    part = all.from(6, 2)
    assert_equal [6, 9, 2, 6], [part.first_offset, part.last_offset, part.size, part.bytes],
                 "first offset, last offset, size, bytes"
    assert_equal [9], offsets(part.from(8, 5))
  end

  def test_message
    message = Fakes::Message.new("orders", 2, 5, "secret", timestamp_ms: 1_700_000_000_123)
    assert_equal Time.at(1_700_000_000, 123, :millisecond), message.timestamp
    assert_equal ["orders", 2], message.topic_partition
    refute_includes message.inspect, "secret"
    assert_includes message.inspect, "offset 5, 6 bytes"
    assert_nil Fakes::Message.new("orders", 2, 5, "x", timestamp_ms: -1).timestamp
    assert_nil Fakes::Message.new("orders", 2, 5, "x", timestamp_ms: -1).timestamp
    assert_equal Time.at(0), Fakes::Message.new("orders", 2, 5, "x", timestamp_ms: 0).timestamp, "1970 is a time"
  end
end
