# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "support/native_kit"
require "pelton/testing/session"

# What the listener relies on: every subscription does it, the native one on the embedded cluster and the fake one of
# the unit tests. Who includes this has
#   world            made once a test
#   fill(count)      a topic of one partition with so many messages, which may come in several batches
#   member(topic, options) → a subscription of one group that gets the partition
#   rival(topic)     makes Kafka want the partition back
module SubscriptionContract
  OPTIONS = { max_messages: 10, max_batch_bytes: 1 << 20, prefetch_batches: 2, decode: {} }.freeze

  # The next event of this kind, within a deadline; others are refused.
  def event(subscription, kind)
    deadline = now + (20 * Guard::PATIENCE)
    loop do
      found = subscription.poll([deadline - now, 0].max)
      return found if found&.first == kind

      flunk "#{kind} did not come, but #{found.inspect}" if found || now > deadline
    end
  end

  # The offsets of the next messages, at least `count`.
  def offsets(subscription, count)
    found = []
    event(subscription, :batch).last.tap { |batch| found.concat(batch.map(&:offset)) }.release while found.size < count
    found
  end

  def assigned(topic, **options)
    subscription = member(topic, OPTIONS.merge(options))
    assert_equal [:assigned, [[topic, 0]]], event(subscription, :assigned)
    subscription
  end

  def test_batches_come_in_order_and_within_the_limits
    subscription = assigned(fill(35))
    offsets = []
    while offsets.size < 35
      _, batch = event(subscription, :batch)
      assert_operator batch.size, :<=, 10
      assert_equal batch.messages.map(&:offset), (batch.first_offset..batch.last_offset).to_a
      assert_equal batch.size, batch.messages.size
      assert_kind_of Integer, batch.leader_epoch
      offsets.concat(batch.map(&:offset))
      batch.release
    end
    assert_equal (0...35).to_a, offsets
  end

  def test_only_so_many_batches_are_out
    subscription = assigned(fill(50))
    batches = Array.new(2) { event(subscription, :batch).last }
    assert_equal [true, true], batches.map(&:crowded?)
    assert_nil subscription.poll(0.3)
    2.times { batches.first.release } # the second time it is no credit
    batches << event(subscription, :batch).last
    assert_equal [false, true, true], batches.map(&:crowded?), "the released one, and those of which two are out"
    assert_nil subscription.poll(0.3)
    assert_equal batches.map(&:first_offset), batches.map(&:first_offset).sort
    batches.each(&:release)
  end

  def test_poll_ends_at_its_deadline
    subscription = assigned(fill(0))
    assert_operator(seconds { assert_nil subscription.poll(0.05) }, :<, 30)
    assert_nil subscription.poll(0)
  end

  def test_wake_ends_the_current_or_the_next_poll_only
    subscription = assigned(fill(0))
    subscription.wake
    subscription.wake
    assert_nil subscription.poll(nil)
    assert_operator(seconds { assert_nil subscription.poll(0.1) }, :>, 0.05)
    polled = Thread::Queue.new
    thread = Pelton::Threads.start("test") { polled << [subscription.poll(300)] }
    eventually { thread.status == "sleep" }
    subscription.wake
    assert_equal [nil], polled.pop
    thread.join
  end

  def test_mark_returns_whether_the_partition_is_still_owned
    topic = fill(3)
    subscription = assigned(topic)
    event(subscription, :batch).last.release
    assert_equal true, subscription.mark(topic, 0, 2, -1)
    assert_equal false, subscription.mark(topic, 77, 2, -1)
    assert_equal true, subscription.commit(60)
  end

  def test_seek_changes_the_next_message_and_invalidates_delivered_ones
    topic = fill(100)
    subscription = assigned(topic)
    before = event(subscription, :batch).last
    refute_predicate before, :stale?
    assert_equal before.last_offset + 1, subscription.position(topic, 0)
    [50, 3, 99].each.with_index(1) do |offset, number|
      subscription.seek(topic, 0, offset, 60)
      assert_equal offset, subscription.position(topic, 0)
      batch = event(subscription, :batch).last
      assert_equal [offset, true, false], [batch.first_offset, before.stale?, batch.stale?],
                   "first offset, the old batch is stale, the new batch is stale"
      counts = [batch, batch.messages.first].map(&:seek_count)
      assert_equal [before.seek_count + number] * 2, counts
      batch.release
    end
    before.release
  end

  def test_the_ends_of_partitions
    topic = fill(1)
    subscription = assigned(topic)
    batch = event(subscription, :batch).last
    eventually { subscription.ends == [[topic, 0, 1, 1, 1]] }
    batch.release
    subscription.close(60)
    assert_raises(Pelton::ClosedError) { subscription.ends }
  end

  def test_a_batch_knows_its_first_message_s_times
    before = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
    batch = event(assigned(fill(3)), :batch).last
    times = [batch.timestamp_ms, batch.received_ms]
    batch.release
    assert_equal times, [batch.timestamp_ms, batch.received_ms], "also after its release"
    now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
    assert_equal times.minmax, times
    times.each { |time| assert_includes (before - 1000)..now, time }
  end

  def test_a_paused_partition_brings_nothing
    topic = fill(40)
    subscription = assigned(topic)
    subscription.pause([[topic, 0]])
    subscription.seek(topic, 0, 20, 60) # also of what was read before the pause
    assert_nil subscription.poll(0.3)
    subscription.resume([[topic, 0]])
    event(subscription, :batch).last.then { |batch| assert_equal 20, batch.tap(&:release).first_offset }
  end

  def test_only_assigned_partitions_can_be_paused_or_sought
    subscription = assigned(topic = fill(1))
    [-> { subscription.seek(topic, 9, 0, 5) }, -> { subscription.pause([[topic, 9]]) },
     -> { subscription.resume([["else", 0]]) }, -> { subscription.position(topic, 9) }].each do |call|
      assert_equal :_STATE, assert_raises(Pelton::KafkaError, &call).name
    end
    assert_equal false, subscription.lost?
  end

  def test_a_word_is_committed_with_an_offset
    topic = fill(5)
    first = assigned(topic)
    event(first, :batch).last.release
    first.mark(topic, 0, 3, -1, "half")
    assert_equal true, first.close(60)
    second = assigned(topic)
    assert_equal [[3, "half"]], committed(second, topic)
    assert_equal true, second.mark(topic, 0, 4, -1)
  end

  def test_offset_before_the_committed_one_is_committed_on_request
    topic = fill(5)
    first = assigned(topic)
    event(first, :batch).last.release
    first.mark(topic, 0, 4, -1)
    first.commit(60)
    assert_equal true, first.mark(topic, 0, 2, -1)
    assert_equal true, first.commit_offset(topic, 0, 2, -1, nil, 60)
    assert_equal [[2, nil]], committed(first, topic)
    assert_equal true, first.mark(topic, 0, 2, -1, "a word for the same offset")
    assert_equal true, first.commit_offset(topic, 0, 2, -1, "a word for the same offset", 60)
    assert_equal [[2, "a word for the same offset"]], committed(first, topic)
    assert_equal true, first.close(60)
    assert_equal [[2, "a word for the same offset"]], committed(assigned(topic), topic)
  end

  def test_close_commits_marked_offsets
    topic = fill(5)
    first = assigned(topic)
    event(first, :batch).last.release
    first.mark(topic, 0, 3, -1)
    assert_equal true, first.close(60)
    assert_equal [3, 4], offsets(assigned(topic), 2)
  end

  def test_a_closed_subscription
    topic = fill(1)
    subscription = assigned(topic)
    assert subscription.close(60)
    assert subscription.close(60)
    subscription.wake
    assert_equal [:closed], eventually { subscription.poll(1) }
    refute marks?(subscription, topic)
  end

  def test_close_ends_a_poll
    subscription = assigned(fill(0))
    polled = Thread::Queue.new
    thread = Pelton::Threads.start("test") { polled << subscription.poll(300) }
    eventually { thread.status == "sleep" }
    subscription.close(60)
    assert_equal [:closed], polled.pop
    thread.join
  end

  # Until `revoked` the partition is ours, and nothing more comes of it.
  def test_revocation_completes_when_it_is_answered
    topic = fill(100)
    subscription = assigned(topic)
    batch = event(subscription, :batch).last
    rival(topic)
    deadline = now + (30 * Guard::PATIENCE)
    kind = token = places = nil
    until kind == :revoked
      kind, token, places, lost = subscription.poll(1)
      token.release if kind == :batch
      flunk "no revocation" if now > deadline
    end
    assert_equal [[[topic, 0]], false], [places, lost]
    assert_equal true, subscription.mark(topic, 0, batch.last_offset + 1, -1)
    assert_nil subscription.poll(0.2)
    subscription.revoked(token)
    eventually { !marks?(subscription, topic) || subscription.poll(0.01)&.first == :assigned }
  end

  private

  def committed(subscription, topic) = subscription.committed_with_metadata([[topic, 0]], 60)

  def marks?(subscription, topic)
    subscription.mark(topic, 0, 1, -1)
  rescue Pelton::ClosedError
    false
  end
end

class FakeSubscriptionContractTest < Minitest::Test
  include SubscriptionContract

  def setup
    @kafka = Fakes::Kafka.new
    @made = []
  end

  def teardown = @made.each { |subscription| subscription.close(1) }

  def fill(count)
    count.times { @kafka.append("orders", 0, "{}") }
    "orders"
  end

  def member(topic, options)
    Fakes::Subscription.new("fake", { "group.id" => "g" }, options, @kafka).tap do |made|
      made.subscribe([topic])
      made.assign_now([topic, 0])
      @made << made
    end
  end

  def rival(topic) = @made.last.revoke_now([topic, 0])
end

# That of pelton/testing, which reads topics in memory.
class MemorySubscriptionContractTest < Minitest::Test
  include SubscriptionContract

  # The messages are in memory already, so nothing limits the batches that are out.
  undef_method :test_only_so_many_batches_are_out

  def setup
    @session = Pelton::Testing::Session.open
    @made = []
  end

  def teardown
    @made.each { |subscription| subscription.close(1) }
    @session.close
  end

  def fill(count)
    count.times { |number| kafka.append({ topic: "orders", payload: "{\"number\":#{number}}" }, 0) }
    "orders"
  end

  def member(topic, options)
    settings = { "group.id" => "g", "auto.offset.reset" => "earliest" }
    Pelton::Testing::Memory::Subscription.new("memory", settings, options).tap do |made|
      made.subscribe([topic])
      @made << made
    end
  end

  def rival(topic) = @made.last.take_away([[topic, 0]])

  private

  def kafka = @session.broker(nil)
end

class NativeSubscriptionContractTest < Minitest::Test
  include NativeKit
  include SubscriptionContract

  # Always in two message sets, as on a busy machine. The embedded cluster answers a fetch with one set, so the last
  # message comes in a batch of its own. A test that expects all messages in one batch fails.
  def fill(count)
    topic = new_topic
    rows = Array.new(count) { |index| { topic: topic, payload: "{\"number\":#{index}}", partition: 0 } }
    sender = producer
    [rows[...-1], rows.last(1)].reject(&:empty?).each { |set| sender.produce_many(set, 10).wait(timeout: 60) }
    topic
  end

  def member(topic, options)
    @group ||= NativeKit.name("group")
    subscription({ "group.id" => @group, "fetch.queue.backoff.ms" => "10", "fetch.wait.max.ms" => "20",
                   "enable.auto.offset.store" => "false", "session.timeout.ms" => "6000",
                   "heartbeat.interval.ms" => "200" }, options)
      .tap { |made| made.subscribe([topic]) }
  end

  # A second member: with one partition, an eager rebalance takes it from the first.
  def rival(topic) = member(topic, SubscriptionContract::OPTIONS)
end
