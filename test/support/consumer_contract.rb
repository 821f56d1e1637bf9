# frozen_string_literal: true

require_relative "failure_contract"
require_relative "offsets_contract"
require_relative "selection_contract"

# What a route and a consumer may rely on. The same tests run on the harness of pelton/testing, on the embedded cluster
# and on a real Kafka, so that the harness is no kinder than Kafka. The class that includes this is one of
# test/support/consumer_worlds.rb. Times are short, because they are real ones on a cluster.
module ConsumerContract
  include FailureContract
  include OffsetsContract
  include SelectionContract

  # A consumer class; `seen` gets what the block notes.
  def consumer(method = :process, **hooks, &block)
    seen = self.seen
    Class.new(Pelton::Consumer) do
      define_method(method, &block)
      define_method(:seen) { seen }
      hooks.each { |name, hook| define_method(name, &hook) }
    end
  end

  def seen = @seen ||= []

  # Sends one message set, so that its messages come in one batch. For that, the partition is known beforehand.
  def fill(app, topic, payloads, partition: 0, **facts)
    app.producer.partition_count(topic, timeout: 60)
    rows = payloads.map { |payload| { topic: topic, payload: payload, partition: partition, **facts } }
    app.producer.produce_many_sync(rows)
  end

  def seen_all?(count) = seen.size >= count

  def test_messages_come_in_order_and_are_committed
    name = topic
    reading = consumer { |message| seen << [message.offset, message.payload["n"], attempt] }
    app = app { topic(name, to: reading) { decode :json } }
    fill(app, name, Array.new(30) { |n| "{\"n\":#{n}}" })
    start(app)
    wait_until("30 messages") { committed(app, name) == 30 }
    assert_equal(Array.new(30) { |n| [n, n, 1] }, seen)
  end

  def test_batches_have_at_most_max_messages
    name = topic
    app = app { topic(name, to: consumer(:consume) { seen << messages.map(&:offset) }) { max_messages 3 } }
    fill(app, name, ["x"] * 8)
    start(app)
    wait_until("8 messages") { committed(app, name) == 8 }
    assert_equal (0..7).to_a, seen.flatten
    assert_equal [], seen.map(&:size).reject { |size| size.between?(1, 3) }
  end

  def test_keys_decide_about_partitions
    name = topic(4)
    app = app { topic(name, to: consumer { |message| seen << [message.key, message.partition] }) }
    %w[a b c d e].each { |key| app.producer.produce_sync(topic: name, key: key, payload: "x") }
    start(app)
    wait_until("5 messages") { seen_all?(5) }
    assert_equal [["a", 0], ["b", 0], ["c", 2], ["d", 1], ["e", 2]], seen.sort
    assert_equal 4, app.producer.partition_count(name)
  end

  def test_a_group_may_begin_at_the_end
    name = topic
    app = app { topic(name, to: consumer { |message| seen << message.offset }) { from :end } }
    fill(app, name, ["x"] * 3)
    start(app)
    wait_until("the assignment") { events(app, "partition.assigned").any? && at_end?(app, name) }
    fill(app, name, ["x"])
    wait_until("the new message") { seen_all?(1) }
    assert_equal [3], seen
  end

  def test_keys_headers_timestamps_and_tombstones_arrive_as_they_were_produced
    name = topic
    seen = self.seen
    facts = consumer do |message|
      seen << [message.key, message.raw_payload, message.raw_headers, message.timestamp_ms, message.size]
    end
    app = app { topic(name, to: facts) }
    app.producer.produce_sync(topic: name, key: "k", payload: nil, timestamp: 1_700_000_000_123,
                              headers: { "a" => %w[1 2], "nothing" => nil })
    app.producer.produce_sync(topic: name, payload: "", timestamp: 1_700_000_000_124)
    start(app)
    wait_until("both") { committed(app, name) == 2 }
    assert_equal [["k", nil, { "a" => %w[1 2], "nothing" => nil }, 1_700_000_000_123, 0],
                  [nil, "", {}, 1_700_000_000_124, 0]], seen
  end

  # --- transactions --------------------------------------------------------------------------------------------------

  # An aborted transaction leaves a gap: its message and its end take offsets.
  def test_a_transaction_counts_as_a_whole
    name = topic
    out = topic
    id = unique("id")
    paying = consumer do |message|
      seen << [message.offset, attempt]
      transaction do |tx|
        tx.produce_sync(topic: out, payload: "#{message.offset}-#{attempt}")
        mark_as_consumed(message)
        raise KeyError, "poison" if message.offset.zero? && attempt == 1
      end
    end
    app = app do
      topic(name, to: paying) do
        transactional id
        backoff 0.05..0.05
      end
    end
    app.producer.produce_sync(topic: name, payload: "x")
    app.producer.produce_sync(topic: name, payload: "y")
    start(app)
    wait_until("both") { seen_all?(3) && (!transactions? || [committed(app, name), read(app, out).size] == [2, 2]) }
    stop(app)
    assert_equal [[0, 1], [0, 2], [1, 1]], seen
    return unless transactions?

    assert_equal [["0-2", 2], ["1-1", 4]], (read(app, out).map { |message| [message.raw_payload, message.offset] })
  end

  def test_messages_that_a_call_does_not_mark_in_its_transaction_come_in_the_next_call
    name = topic
    id = unique("id")
    marking = consumer(:consume) do
      seen << messages.first_offset
      transaction { mark_as_consumed(messages.first) }
    end
    app = app { topic(name, to: marking) { transactional id } }
    fill(app, name, ["x"] * 4)
    start(app)
    wait_until("4 messages") { seen_all?(4) && (!transactions? || committed(app, name) == 4) }
    stop(app)
    assert_equal [0, 1, 2, 3], seen
  end

  # What an open transaction holds back, and all behind it, comes when it ends.
  def test_messages_behind_an_open_transaction_wait_for_its_end
    name = topic
    app = app { topic(name, to: consumer { |message| seen << [message.offset, message.raw_payload] }) }
    writer = app(kafka: { "transactional.id" => unique("id") })
    return pass unless transactions?

    start(app)
    writer.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "first", partition: 0)
      app.producer.produce_sync(topic: name, payload: "second", partition: 0)
      stays { seen.empty? }
    end
    # 3 is behind the end of the transaction.
    wait_until("both") { (2..3).cover?(committed(app, name)) }
    assert_equal [[0, "first"], [1, "second"]], seen.sort
    seen.clear
    assert_nil(writer.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "aborted", partition: 0)
      raise Pelton::AbortTransaction
    end)
    app.producer.produce_sync(topic: name, payload: "third", partition: 0)
    wait_until("the third") { seen_all?(1) }
    assert_equal ["third"], seen.map(&:last)
  end

  # --- keys, ticks, ends ---------------------------------------------------------------------------------------------

  # The failure lasts until the last message of another key is done.
  def test_with_concurrency_the_order_is_per_key_and_a_failure_delays_its_key_only
    name = topic
    failing = consumer do |message|
      seen << [message.key, message.offset, attempt]
      raise KeyError, "poison" if message.offset == 1 && (attempt == 1 || !seen.include?(["c", 5, 1]))
    end
    app = app do
      topic(name, to: failing) do
        concurrency 3, by: :key
        backoff 0.05..0.05
      end
    end
    rows = %w[a b c a b c].map { |key| { topic: name, key: key, payload: "x", partition: 0 } }
    app.producer.produce_many_sync(rows)
    start(app)
    wait_until("6 messages") { committed(app, name) == 6 }
    tries = seen.group_by(&:first).transform_values { |all| all.map { |_, *rest| rest } }
    attempts = tries["b"].size - 1
    assert_equal({ "a" => [[0, 1], [3, 1]], "b" => [*(1..attempts).map { |attempt| [1, attempt] }, [4, 1]],
                   "c" => [[2, 1], [5, 1]] }, tries)
    assert_operator attempts, :>, 1
  end

  def test_ticks_come_also_without_messages
    name = topic
    ticking = consumer(tick: -> { seen << [:tick, messages.size] }) { |_one| nil }
    app = app { topic(name, to: ticking) { tick_every 0.1 } }
    start(app)
    wait_until("3 ticks") { seen_all?(3) }
    assert_equal [[:tick, 0]], seen.uniq
  end

  def test_the_end_of_the_partition_is_reported_after_its_messages
    name = topic
    reading = consumer(reached_end: -> { seen << :end }) { |message| seen << message.offset }
    app = app { topic(name, to: reading) }
    fill(app, name, ["x"] * 2)
    start(app)
    wait_until("the end") { seen.include?(:end) }
    assert_equal [0, 1, :end], seen.first(3)
  end

  def test_hooks_at_the_beginning_and_at_a_shutdown
    name = topic
    hooked = consumer(assigned: -> { seen << :assigned }, shutdown: -> { seen << :shutdown },
                      revoked: -> { seen << :revoked }) { |message| seen << message.offset }
    app = app { topic(name, to: hooked) }
    fill(app, name, ["x"])
    start(app)
    wait_until("the message") { committed(app, name) == 1 }
    stop(app)
    assert_equal [:assigned, 0, :shutdown], seen
  end

  # All members note what they get. So a message that one of them gets again would be counted.
  def test_a_revoked_partition_is_committed_and_its_consumer_ends
    name = topic(2)
    on_revoked = -> { seen << [:revoked, partition, revoked?] }
    hooked = consumer(revoked: on_revoked) { |message| seen << [partition, message.offset] }
    interval = commits_in_rebalances? ? 3_600_000 : 50 # in an hour: only the rebalance commits
    app = app(kafka: { "auto.commit.interval.ms" => interval }) { topic(name, to: hooked) }
    2.times { |partition| fill(app, name, ["x"] * 3, partition: partition) }
    start(app)
    wait_until("6 messages") { seen_all?(6) }
    wait_until("commits") { [0, 1].all? { |number| committed(app, name, number) == 3 } } unless commits_in_rebalances?
    gone = rebalance(app, name)
    kept = 1 - gone
    wait_until("the end of partition #{gone}") { seen.include?([:revoked, gone, true]) }
    wait_until("the commit, which follows the hook") { committed(app, name, gone) == 3 }
    fill(app, name, ["x"], partition: kept)
    wait_until("the next message of partition #{kept}") { seen.include?([kept, 3]) }
    assert_equal [*[0, 1].product([0, 1, 2]), [kept, 3]].sort, seen.select { |first, _| first.is_a?(Integer) }.sort
    revoked = nil
    wait_until("the event") { revoked = events(app, "partition.revoked").find { |event| event[:partition] == gone } }
    assert_equal [name, false], [revoked[:topic], revoked[:lost]]
  end
end
