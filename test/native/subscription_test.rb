# frozen_string_literal: true

require "test_helper"
require "support/footprint"
require "support/native_kit"

class NativeSubscriptionTest < Minitest::Test
  include NativeKit

  def test_group_reads_messages_and_commits_marked_offsets
    topic = topic_of(*%w[1 2 3])
    reader = subscription
    reader.subscribe([topic])
    assert_equal [:assigned, [[topic, 0]]], reader.poll(60)
    batch = next_of(reader, :batch)
    assert_equal [topic, 0, 3, 0, 2, 0], [batch.topic, batch.partition, batch.size, batch.first_offset,
                                          batch.last_offset, batch.leader_epoch]
    assert_equal [1, 2, 3], batch.messages.map(&:payload)
    assert_equal [[topic, 0]], reader.assignment
    assert_equal [nil], reader.committed([[topic, 0]], 60)
    assert_equal true, reader.mark(topic, 0, 2, 0)
    assert_equal true, reader.mark(topic, 0, 3)
    assert_equal true, reader.commit(60)
    assert_equal true, reader.commit(60), "nothing new to commit is no error"
    assert_equal [3], reader.committed([[topic, 0]], 60)
    assert_equal false, reader.mark(topic, 7, 1)
    assert_equal true, reader.close(60)
    assert_equal [:closed], reader.poll(1)
    assert_nil reader.poll(0)
  end

  def test_subscription_without_a_group_reads_and_refuses_what_a_group_does
    topic = topic_of(*%w[1 2])
    reader = subscription("group.id" => "")
    reader.assign([[topic, 0, 1]])
    assert_equal 1, next_of(reader, :batch).first_offset
    assert_equal [0, 2], reader.watermarks(topic, 0, 60)
    { subscribe: [[topic]], commit: [60], commit_async: [], commit_offset: [topic, 0, 1, -1, nil, 60],
      commit_offset_async: [topic, 0, 1], committed: [[[topic, 0]], 60], mark: [topic, 0, 1],
      assign: [[[topic, 0, -1001]]] }.each do |name, arguments|
      error = assert_raises(Pelton::KafkaError, name.to_s) { reader.public_send(name, *arguments) }
      assert_equal "the subscription has no group (_UNKNOWN_GROUP, -179)", error.message
    end
    assert_equal [true, []], [reader.close(60), reader.unconfirmed]
  end

  def test_nothing_of_an_assignment_comes_after_the_next_one
    topic = topic_of_all(Array.new(400, &:to_s))
    reader = subscription({ "fetch.wait.max.ms" => "5", "fetch.queue.backoff.ms" => "1" }, { max_messages: 7 })
    offsets = [0, 200, 0, 393]
    offsets.each do |offset|
      reader.assign([[topic, 0, offset]])
      assert_equal offset, next_of(reader, :batch).first_offset
    end
  end

  def test_a_message_knows_where_it_is_from
    topic = topic_of(["{}", "k", nil])
    message = messages(topic, 1).first
    assert_equal [topic, 0, 0, 0, 2, "k"], [message.topic, message.partition, message.offset, message.leader_epoch,
                                            message.size, message.key]
    assert_predicate message, :frozen?
    assert_predicate message.topic, :frozen?
    assert_same message.topic, message.topic
    assert_kind_of Time, message.timestamp
  end

  def test_messages_and_payloads_are_made_once
    batch = batches(topic_of('{"a":[1]}'), 1).first
    assert_same batch.messages, batch.messages
    assert_predicate batch.messages, :frozen?
    assert_same batch.messages[0].payload, batch.messages[0].payload
  end

  def test_a_batch_keeps_to_its_bounds
    topic = topic_of_all(Array.new(250, &:to_s))
    sizes = batches(topic, 250, options: { max_messages: 100 }).map(&:size)
    assert_equal 250, sizes.sum
    assert_operator sizes.max, :<=, 100
    big = topic_of_all(Array.new(20) { "x" * 100_000 })
    assert_operator batches(big, 20, options: { max_messages: 1000, max_batch_bytes: 200_000 }).map(&:bytes).max, :<=,
                    200_000
    assert_equal [1], batches(big, 20, options: { max_messages: 1000, max_batch_bytes: 50_000 }).map(&:size).uniq,
                 "alone"
  end

  def test_credit_bounds_what_is_out_and_release_gives_it_back
    topic = topic_of_all(Array.new(10, &:to_s))
    reader = subscription({}, { max_messages: 1, prefetch_batches: 2 })
    reader.assign([[topic, 0, 0]])
    first = next_of(reader, :batch)
    second = next_of(reader, :batch)
    assert_nil reader.poll(0.1)
    2.times { first.release }
    third = next_of(reader, :batch)
    assert_equal [0, 1, 2], [first, second, third].map(&:first_offset)
    assert_nil reader.poll(0.1)
  end

  def test_a_released_batch_keeps_its_facts_and_the_messages_that_were_made
    batch = batches(topic_of('{"a":1}', '{"a":2}'), 2).first
    made = batch.messages
    batch.release
    assert_same made, batch.messages
    assert_equal [{ "a" => 1 }, { "a" => 2 }], batch.messages.map(&:payload)
    assert_equal ['{"a":1}', '{"a":2}'], batch.messages.map(&:raw_payload)
    assert_equal [2, 0, 1], [batch.size, batch.first_offset, batch.last_offset], "size, first offset, last offset"

    unread = batches(topic_of("1"), 1).first
    unread.release
    assert_raises(Pelton::Error) { unread.messages }
  end

  def test_wake_ends_a_poll_and_a_wake_before_it_too
    reader = subscription
    reader.wake
    assert_operator seconds { assert_nil reader.poll(60) }, :<, 30
    thread = Thread.new { reader.poll(60) }
    eventually { thread.stop? }
    reader.wake
    assert_nil thread.value
    assert_operator seconds { assert_nil reader.poll(0.05) }, :>=, 0.04
  end

  def test_wake_and_close_from_a_trap
    reader = subscription
    writer = lonely_producer
    results = []
    old = trap("USR1") do
      reader.wake
      results << writer.close(0)
    end
    thread = Thread.new { reader.poll(60) }
    eventually { thread.stop? }
    Process.kill("USR1", Process.pid)
    assert_nil thread.value
    eventually { results.any? }
    assert_equal [0], results
  ensure
    trap("USR1", old || "DEFAULT")
  end

  def test_a_revocation_waits_for_its_answer
    topic = new_topic(2)
    group = { "group.id" => NativeKit.name("group"), "session.timeout.ms" => "6000" }
    first = subscription(group)
    first.subscribe([topic])
    assert_equal [[topic, 0], [topic, 1]], next_event(first, :assigned)[1].sort
    second = subscription(group)
    second.subscribe([topic])
    _, token, partitions, lost = next_event(first, :revoked)
    assert_equal [2, false], [partitions.size, lost]
    assert_equal 2, first.assignment.size
    first.revoked(token)
    first.revoked(token) # once more harms nothing
    owned = { first => [], second => [] }
    eventually(20, "one partition each") do
      owned.each { |reader, mine| follow(reader, mine) }
      owned.values.map(&:size) == [1, 1]
    end
    assert_equal [[topic, 0], [topic, 1]], owned.values.flatten(1).sort
  end

  def test_end_of_partition_is_reported
    topic = topic_of("1")
    reader = subscription({ "enable.partition.eof" => "true" })
    reader.assign([[topic, 0, 0]])
    assert_equal [:eof, topic, 0, 1], next_event(reader, :eof)
  end

  def test_pause_resume_and_seek
    topic = topic_of(*%w[1 2 3])
    reader = subscription
    reader.assign([[topic, 0, 0]])
    next_of(reader, :batch).release
    reader.seek(topic, 0, 1)
    assert_equal 1, next_of(reader, :batch).tap(&:release).first_offset
    reader.pause([[topic, 0]])
    reader.seek(topic, 0, 2, 5)
    assert_nil reader.poll(0.2)
    reader.resume([[topic, 0]])
    assert_equal 2, next_of(reader, :batch).first_offset
  end

  def test_limit_for_a_close_that_does_not_run_has_no_effect
    topic = topic_of(*%w[1 2])
    reader = subscription({ "auto.commit.interval.ms" => "600000" })
    reader.assign([[topic, 0, 0]])
    next_of(reader, :batch).release
    reader.shorten_deadline(0)
    reader.mark(topic, 0, 1)
    assert_equal true, reader.commit(60)
    assert_equal [1], reader.committed([[topic, 0]], 60)
    reader.mark(topic, 0, 2)
    assert_equal true, reader.close(60)
    assert_empty reader.unconfirmed
  end

  def test_arguments_are_checked
    reader = subscription
    assert_raises(Pelton::InvalidMessageError) { reader.subscribe([1]) }
    assert_raises(Pelton::InvalidMessageError) { reader.assign([["t", 0]]) }
    assert_raises(Pelton::InvalidMessageError) { reader.pause([["t"]]) }
    ["1", -1].each { |time| assert_raises(Pelton::ConfigError) { reader.poll(time) } }
    [{ max_messages: 0 }, { max_batch_bytes: -1 }, { prefetch_batches: "2" }, { decode: { "t" => :avro } },
     { decode: 1 }, { no: 1 }].each do |bad|
      assert_raises(Pelton::ConfigError, bad.inspect) { subscription({}, bad) }
    end
    assert_raises(Pelton::ConfigError) { subscription({ "group.it" => "g" }) }
    assert_raises(Pelton::KafkaError) { reader.seek("nope", 0, 0, 1) }
    assert_equal true, reader.close(5)
    [-> { reader.subscribe(["t"]) }, -> { reader.commit(1) }, -> { reader.assignment }].each do |call|
      assert_raises(Pelton::ClosedError, &call)
    end
  end

  def test_metadata
    topic = new_topic(3)
    answer = Native.metadata(server, nil, 60)
    assert_equal 3, answer[:topics][topic]
    assert_equal [[1, "127.0.0.1"]], answer[:brokers].map { |broker| broker.first(2) }
    error = assert_raises(Pelton::KafkaError) { Native.metadata(NOWHERE, nil, 0.3) }
    assert_includes %i[_TRANSPORT _TIMED_OUT], error.name
  end

  # It said "Local: Timed out" only.
  def test_unanswered_metadata_says_why
    said = nil
    eventually(20, -> { said }) do # on a busy machine a second may pass before it has tried
      said = assert_raises(Pelton::KafkaError) { Native.metadata(NOWHERE, nil, 1) }.message
      said.match?(/; last error: .*Connection refused/)
    end
  end

  def test_errors_come_with_poll_and_logs_as_events
    reader = Native::Subscription.new("loud", { **NOWHERE, "group.id" => "g" }, {}).tap { |made| @clients << made }
    reader.subscribe(["t"])
    kind, error = reader.poll(60)
    assert_equal [:error, Pelton::KafkaError], [kind, error.class]
    logs = []
    eventually(10) { (logs = next_events(0.1).select { |event| event.first(2) == [:log, "loud"] }).any? }
    assert_kind_of Integer, logs.dig(0, 2)
    assert_match(/127\.0\.0\.1:1/, logs.dig(0, 4))
    assert_kind_of Integer, Native.threads[:poller]
    assert_match(/\A\d+\.\d+\.\d+/, Native.librdkafka_version)
  end

  def test_failed_message_without_a_waiter_is_an_event
    writer = lonely_producer("message.timeout.ms" => "100")
    writer.produce("t", "x", nil, -1, nil, nil, 1)
    found = nil
    eventually(10) do
      found = next_events(0.1).find { |event| event.values_at(0, 2) == [:delivery_failed, -192] }
    end
    assert_equal [-192, :_MSG_TIMED_OUT, "Local: Message timed out", "t", nil], found[2, 5]
  end

  # The garbage collector ends a subscription that was not closed, without a wait. As with a close, marked offsets are
  # committed and nothing is left.
  def test_a_subscription_that_is_collected_after_a_poll_commits_and_ends
    topic = topic_of("1", "2")
    group = NativeKit.name("group")
    own = Native::Poller.new("own")
    settings = { **server, "group.id" => group, "auto.offset.reset" => "earliest",
                           "auto.commit.interval.ms" => "600000" }
    # On a stack that is gone, so that nothing looks like a reference.
    kept = Thread.new do
      forgotten = Native::Subscription.new("forgotten", settings, { poller: own })
      forgotten.subscribe([topic])
      batch = eventually(20) { forgotten.poll(1)&.then { |kind, what| what if kind == :batch } }
      forgotten.mark(topic, 0, 1)
      batch.messages.first
    end.value
    eventually(20, "the end of a forgotten subscription") do
      GC.start
      own.clients.zero?
    end
    assert_equal "1", kept.raw_payload
    eventually(20) { subscription("group.id" => group).committed([[topic, 0]], 60) == [1] }
  end

  def test_kept_messages_do_not_keep_their_batches
    payload = "x" * 10_000
    topic = topic_of_all(Array.new(400) { payload })
    kept = []
    before = nil
    12.times do |round|
      batches(topic, 400).each do |batch|
        kept << batch.messages[batch.size / 2]
        batch.release
      end
      @clients.pop.close(60)
      GC.start
      before ||= Footprint::Malloc.used if round == 3
    end
    grown = Footprint::Malloc.used - before
    assert_operator grown, :<, 12 * 1024 * 1024, "8 rounds of 4 MB each were read"
    assert_equal [payload], kept.map(&:raw_payload).uniq
  end

  private

  # Keeps the list of a member's partitions, answering revocations.
  def follow(reader, mine)
    kind, *facts = reader.poll(0.05)
    case kind
    when :assigned then mine.concat(facts.first)
    when :revoked
      facts[1].each { |partition| mine.delete(partition) }
      reader.revoked(facts.first)
    end
  end

  def next_of(reader, kind) = next_event(reader, kind)[1]
end
