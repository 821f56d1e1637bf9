# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# A subscription's position, without a server around it.
class SubscriptionTest < Minitest::Test
  include EmbeddedApp

  def test_seek_changes_the_next_message_that_is_read
    name, subscription = reading(30)
    assert_equal 0, batch(subscription).first_offset
    [20, 3, 29].each do |offset|
      subscription.seek(name, 0, offset, 10)
      assert_equal offset, batch(subscription).first_offset
    end
  ensure
    subscription&.close(10)
  end

  def test_seek_to_the_beginning_the_end_and_a_time
    name, subscription = reading(30)
    assert_equal [0, 30], subscription.watermarks(name, 0)
    { beginning: 0, end: 30, Time.now => 30 }.each do |place, offset| # the mock cluster knows no times: all are older
      subscription.seek(name, 0, place, 10)
      assert_equal offset, subscription.position(name, 0)
    end
    produce(app, name, %w[30])
    assert_equal 30, batch(subscription).first_offset
    assert_equal [nil], subscription.offsets_for_times([[name, 0, Time.at(0)]])
  ensure
    subscription&.close(10)
  end

  def test_seek_to_the_end_of_an_empty_partition
    name, subscription = reading(0)
    subscription.seek(name, 0, :end)
    produce(app, name, %w[0])
    assert_equal 0, batch(subscription).first_offset
  ensure
    subscription&.close(10)
  end

  def test_lag_counts_the_messages_that_are_not_committed
    name, subscription = reading(30)
    assert_equal({ [name, 0] => nil }, subscription.lag, "nothing was committed")
    subscription.commit_offset(name, 0, 12)
    assert_equal({ [name, 0] => 18 }, subscription.lag)
    produce(app, name, %w[30 31])
    assert_equal({ [name, 0] => 20 }, subscription.lag([[name, 0]], 10))
    assert_empty subscription.lag([])
  ensure
    subscription&.close(10)
  end

  def test_commit_without_a_waiter_reaches_kafka
    name, subscription = reading(3)
    subscription.commit_async # nothing is marked: no error
    assert_equal true, subscription.mark(name, 0, 2)
    subscription.commit_async
    eventually(20) { subscription.committed([[name, 0]]) == [2] }
    subscription.commit_offset_async(name, 0, 1) # back
    eventually(20) { subscription.committed([[name, 0]]) == [1] }
    @cluster.push_errors(8, [29]) # OffsetCommit: TOPIC_AUTHORIZATION_FAILED
    subscription.mark(name, 0, 3)
    subscription.commit_async
    assert_equal :TOPIC_AUTHORIZATION_FAILED, happening(subscription, :error)[1].name
  ensure
    subscription&.close(10)
  end

  def test_subscription_continues_after_an_unsubscribe_and_a_new_subscribe
    name, subscription = reading(3)
    assert_equal 0, batch(subscription).first_offset
    subscription.mark(name, 0, 2)
    subscription.unsubscribe
    _, token, partitions, lost = happening(subscription, :revoked)
    assert_equal [[[name, 0]], false], [partitions, lost]
    subscription.revoked(token)
    eventually(20) { subscription.assignment.empty? }
    produce(app, name, %w[3])
    assert_nil subscription.poll(0.2)
    subscription.subscribe([name])
    happening(subscription, :assigned)
    assert_equal 2, batch(subscription).first_offset, "what was marked is committed as it left"
  ensure
    subscription&.close(10)
  end

  def test_invalid_positions_raise_errors_that_name_them
    name, subscription = reading(1)
    [-1, nil, 1.5, "0", :latest, 2**64].each do |bad|
      error = assert_raises(Pelton::InvalidMessageError, bad.inspect) { subscription.seek(name, 0, bad) }
      assert_match(/offset: .*expected an Integer >= 0/, error.message)
    end
    [[nil, 0, 0], [name, -1, 0], [name, "0", 0]].each do |bad|
      assert_raises(Pelton::InvalidMessageError, bad.inspect) { subscription.seek(*bad) }
      assert_raises(Pelton::InvalidMessageError, bad.inspect) { subscription.mark(*bad) }
      assert_raises(Pelton::InvalidMessageError, bad.inspect) { subscription.pause([bad.first(2)]) }
      assert_raises(Pelton::InvalidMessageError, bad.inspect) { subscription.position(*bad.first(2)) }
    end
    [[1.5, -1, nil], [0, "x", nil], [0, -1, 5], [0, -1, "x" * 40_000]].each do |bad|
      assert_raises(Pelton::InvalidMessageError, bad.inspect) { subscription.mark(name, 0, *bad) }
    end
    assert_raises(Pelton::InvalidMessageError) { subscription.offsets_for_times([[name, 0, 5]]) }
    assert_equal 0, batch(subscription).first_offset, "nothing was moved by that"
  ensure
    subscription&.close(10)
  end

  def test_a_manual_assignment
    name = topic(2)
    2.times { |partition| produce(app, name, %w[a b c], partition: partition) }
    subscription = Pelton::Subscription.new(app.config, group_id: "by hand")
    subscription.assign([[name, 0, 1], [name, 1, :beginning]])
    firsts = {}
    until firsts.size == 2
      received = batch(subscription)
      firsts[received.partition] ||= received.first_offset
    end
    assert_equal({ 0 => 1, 1 => 0 }, firsts)
    assert_equal true, subscription.mark(name, 1, 2)
    assert_equal true, subscription.commit
    subscription.assign([[name, 1, :committed]])
    assert_equal 2, batch(subscription).first_offset
    assert_equal [[name, 1]], subscription.assignment
    [[name, 0], [name, 0, :latest], [name, "0", 1], name].each do |bad|
      assert_raises(Pelton::InvalidMessageError, bad.inspect) { subscription.assign([bad]) }
    end
  ensure
    subscription&.close(10)
  end

  def test_a_group_has_a_name
    ["", :group].each do |bad|
      error = assert_raises(Pelton::ConfigError) { Pelton::Subscription.new(app.config, group_id: bad) }
      assert_match(/group_id/, error.message)
    end
  end

  def test_paused_partition_delivers_nothing_until_it_is_resumed
    name, subscription = reading(3)
    batch(subscription) until subscription.position(name, 0) == 3
    subscription.pause([[name, 0]])
    produce(app, name, %w[3 4 5])
    assert_nil subscription.poll(0.3)
    subscription.resume([[name, 0]])
    assert_equal 3, batch(subscription).first_offset
  ensure
    subscription&.close(10)
  end

  def test_committed_returns_the_committed_offsets
    name, subscription = reading(3)
    batch(subscription)
    assert_equal [nil], subscription.committed([[name, 0]])
    assert_equal [true, true], [subscription.mark(name, 0, 2), subscription.commit]
    assert_equal [2], subscription.committed([[name, 0]])
  ensure
    subscription&.close(10)
  end

  private

  # A topic of so many messages, and a subscription that has its partition and commits when it is told to.
  def reading(count)
    name = topic
    produce(app, name, Array.new(count, &:to_s))
    subscription = Pelton::Subscription.new(app.config, group_id: "positions",
                                                        kafka: { "auto.commit.interval.ms" => 3_600_000 })
    subscription.subscribe([name])
    assert_equal :assigned, subscription.poll(60).first
    [name, subscription]
  end

  def batch(subscription)
    kind, batch = subscription.poll(60)
    assert_equal :batch, kind
    batch.tap(&:release)
  end

  # The next event of that kind.
  def happening(subscription, kind)
    found = nil
    eventually(30, kind.to_s) { (found = subscription.poll(1))&.first == kind }
    found
  end
end
