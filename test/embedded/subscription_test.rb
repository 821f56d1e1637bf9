# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# A subscription's position, without a server around it.
class SubscriptionTest < Minitest::Test
  include EmbeddedApp

  def test_seek_moves_what_is_read_next
    name, subscription = reading(30)
    assert_equal 0, batch(subscription).first_offset
    [20, 3, 29].each do |offset|
      subscription.seek(name, 0, offset, 10)
      assert_equal offset, batch(subscription).first_offset
    end
  ensure
    subscription&.close(10)
  end

  def test_a_paused_partition_waits_and_a_resumed_one_goes_on
    name, subscription = reading(3)
    assert_equal 2, batch(subscription).last_offset
    subscription.pause([[name, 0]])
    produce(app, name, %w[3 4 5])
    assert_nil subscription.poll(0.3)
    subscription.resume([[name, 0]])
    assert_equal 3, batch(subscription).first_offset
  ensure
    subscription&.close(10)
  end

  def test_committed_tells_what_was_committed
    name, subscription = reading(3)
    batch(subscription)
    assert_equal [nil], subscription.committed([[name, 0]])
    assert_equal [true, true], [subscription.mark(name, 0, 2), subscription.commit]
    assert_equal [2], subscription.committed([[name, 0]])
  ensure
    subscription&.close(10)
  end

  private

  # A topic of so many messages, and a subscription that has its partition.
  def reading(count)
    name = topic
    produce(app, name, Array.new(count, &:to_s))
    subscription = Pelton::Subscription.new(app.config, group_id: "positions")
    subscription.subscribe([name])
    assert_equal :assigned, subscription.poll(20).first
    [name, subscription]
  end

  def batch(subscription)
    kind, batch = subscription.poll(20)
    assert_equal :batch, kind
    batch.tap(&:release)
  end
end
