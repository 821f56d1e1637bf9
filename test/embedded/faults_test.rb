# frozen_string_literal: true

# once: this is about faults of Kafka, whatever the Ruby

require "test_helper"
require "pelton/testing"
require "support/embedded_app"
require "support/ledger"
require "tempfile"
require "tmpdir"

# What Kafka may answer, or not answer, in mid-stream: nothing is lost, nothing out of order per key. Twins of scenarios
# on a real broker: broker_away, broker_killed, stop_anytime, topic_deleted. (partitions_added has none: the mock gives
# no topic more partitions.)
class FaultsTest < Minitest::Test
  include EmbeddedApp

  PARTITIONS = 2
  KEYS = 6
  # Short waits of librdkafka's between its attempts.
  QUICK = { "reconnect.backoff.ms" => 20, "reconnect.backoff.max.ms" => 100, "retry.backoff.ms" => 20,
            "retry.backoff.max.ms" => 100, "auto.commit.interval.ms" => 50, "enable.idempotence" => true,
            "fetch.wait.max.ms" => 20, "fetch.error.backoff.ms" => 20 }.freeze

  def setup
    super
    @cluster.close
    @cluster = Pelton::Testing::Cluster.new
    @done = 0
  end

  # A server and a producer at work; the block does harm. After it everything has to be processed, and the stop to be in
  # order. Returns the ledger's report.
  def streaming(kafka = {})
    name = topic(PARTITIONS)
    file = Tempfile.new("ledger")
    ledger = Ledger.new(file.path)
    server = serve(name, ledger, kafka)
    sent = Hash.new(0)
    over = false
    writer = Thread.new do
      until over
        send_some(server.producer, name, sent)
        eventually(30, "the consumer") { over || sent.each_value.sum < @done + 100 }
      end
    end
    more
    yield
    more
    over = true
    writer.value
    report = nil
    eventually(30, -> { "the rest of #{report}" }) do
      report = ledger.report(sent)
      report.processed - report.duplicates == report.sent
    end
    # A member that has to join anew commits when it is back.
    offsets = Array.new(PARTITIONS) { |at| sent.sum { |key, count| key[1..].to_i % PARTITIONS == at ? count : 0 } }
    # The mock writes a batch twice if its broker goes before it has answered, so a log may have more than was sent.
    places = Array.new(PARTITIONS) { |at| [name, at] }
    text = -> { "commits up to #{offsets}, #{committed(server.config.group_id, places)} so far" }
    eventually(20, text) { committed(server.config.group_id, places).zip(offsets).all? { |at, end_| at.to_i >= end_ } }
    assert_equal true, server.stop, -> { server.server.unfinished_work.join(", ") }
    assert_empty ledger.report(sent).problems.first(5)
    report
  ensure
    over = true
    writer&.join
    file&.close!
  end

  def serve(name, ledger, kafka)
    test = self
    reader = consumer do
      messages.each do |message|
        ledger.processed(object_id.to_s, message.key, Integer(message.raw_payload))
        test.done
      end
    end
    app(kafka: { **QUICK, **kafka }) { topic(name, to: reader) }.tap(&:start)
  end

  def done = @done += 1

  # One message of each key.
  def send_some(producer, name, sent)
    rows = Array.new(KEYS) do |index|
      key = "k#{index}"
      { topic: name, partition: index % PARTITIONS, key: key, payload: ((sent[key] += 1) - 1).to_s }
    end
    producer.produce_many_sync(rows, timeout: 30)
  end

  # Waits until some more was processed.
  def more
    before = @done
    eventually(30, "more messages") { @done > before + (KEYS * 5) }
  end

  def test_a_broker_that_goes_and_comes_back
    streaming do
      2.times do
        @cluster.down { eventually(10, "a word of it") { errors.any? } }
        @happened.clear
        more
      end
    end
  end

  def test_a_slow_broker
    assert_equal 0, streaming { @cluster.slow(0.2) { more } }.duplicates
  end

  # Errors that a broker answers when all is not well: {request => names}
  { fetch: %i[NOT_LEADER_FOR_PARTITION UNKNOWN_TOPIC_OR_PART KAFKA_STORAGE_ERROR],
    heartbeat: %i[REBALANCE_IN_PROGRESS ILLEGAL_GENERATION UNKNOWN_MEMBER_ID NOT_COORDINATOR],
    offset_commit: %i[COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR ILLEGAL_GENERATION REBALANCE_IN_PROGRESS],
    metadata: %i[LEADER_NOT_AVAILABLE] }.each do |request, names|
    names.each do |name|
      define_method("test_#{request}_is_answered_with_#{name}_in_mid_stream") do
        # A member that is told twice that it is unknown is so: the mock takes no commit of it.
        times = name == :UNKNOWN_MEMBER_ID ? 1 : 2
        streaming do
          @cluster.fail_next(request, name, times: times)
          since = now
          eventually { now - since > 0.5 } # five heartbeats, ten commits
        end
      end
    end
  end

  # The same for what is asked at the start or the end only.
  { find_coordinator: %i[COORDINATOR_NOT_AVAILABLE], join_group: %i[NOT_COORDINATOR],
    offset_fetch: %i[COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR], list_offsets: %i[NOT_LEADER_FOR_PARTITION],
    leave_group: %i[UNKNOWN_MEMBER_ID NOT_COORDINATOR] }.each do |request, names|
    names.each do |name|
      define_method("test_#{request}_is_answered_with_#{name}") do
        @cluster.fail_next(request, name)
        assert_equal 0, streaming { next }.duplicates
      end
    end
  end

  # A stop commits what is marked and waits for the answer. librdkafka commits nothing more when it returns the
  # partitions, whichever of the two threads that take part in the close comes first.
  def test_the_commits_of_a_stop
    name = topic(PARTITIONS)
    reader = collector
    [0, 3].each do |before|
      server = app(group: "stopped", kafka: SELDOM) { topic(name, to: reader) }.tap(&:start)
      PARTITIONS.times { |partition| produce(server, name, %w[a b c], partition: partition) }
      take(3 * PARTITIONS)
      eventually(20, "the last mark") { lags(server, "stopped", name) == [0] * PARTITIONS }
      asked = @cluster.requests { assert server.stop }
      assert_equal [1, 1], asked.values_at(:offset_commit, :leave_group), asked.inspect
      assert_equal [before + 3] * PARTITIONS, committed("stopped", Array.new(PARTITIONS) { |number| [name, number] })
    end
  end

  # Nor one of an offset that was stored before a seek back.
  def test_the_commits_of_a_stop_leave_a_place_that_was_sought
    name = topic
    seen = @seen
    reader = consumer do
      pause(at: 2)
      seen << messages.last.offset
    end
    server = app(group: "sought", kafka: SELDOM) { topic(name, to: reader) }.tap(&:start)
    produce(server, name, %w[a b c d e])
    take(1)
    await_commits("sought", name, 2)
    assert server.stop
    assert_equal [2], committed("sought", [[name, 0]])
    assert_empty errors
  end

  SELDOM = { "auto.commit.interval.ms" => 60_000 }.freeze

  def lags(server, group, name) = server.stats[:lags].fetch(group, {})[name]&.sort&.map(&:last)

  # The mock deletes nothing: what comes again is the old topic, which goes on where it was.
  def test_a_topic_that_is_deleted_while_it_is_consumed
    gone, stays = Array.new(2) { topic(PARTITIONS) }
    file = Tempfile.new("ledger")
    ledger = Ledger.new(file.path)
    server, ends = serve_both(gone, stays, ledger)
    sent = Hash.new(0)
    5.times { send_to(server, sent, gone, stays) }
    processed(ledger, sent)
    @cluster.without(gone) do
      eventually(20, "the end of its consumers") { ends.size == PARTITIONS }
      5.times { send_to(server, sent, stays) }
      processed(ledger, sent)
    end
    assert_equal([[:revoked, gone]] * PARTITIONS, Array.new(PARTITIONS) { ends.pop })
    eventually(20, -> { "#{gone} to be there again: #{server.assignments}, #{errors.map(&:message)}" }) do
      server.assignments.keys.sort == [gone, stays].sort
    end
    5.times { send_to(server, sent, gone, stays) }
    processed(ledger, sent)
    await_commits("deleted", gone, *[10] * PARTITIONS)
    await_commits("deleted", stays, *[15] * PARTITIONS)
    assert server.stop
    assert_empty ledger.report(sent).problems
    assert_includes errors.map(&:name), :UNKNOWN_TOPIC_OR_PART
    assert_equal [[:shutdown, gone], [:shutdown, stays]], Array.new(ends.size) { ends.pop }.sort.uniq
  ensure
    file&.close!
  end

  # librdkafka tried for 0.3 s to commit what was marked of it. Meanwhile the topic may be there again: then its first
  # messages would have been skipped, or the member have lost everything, if it had joined for the new topic.
  def test_marks_of_a_deleted_topic_are_not_committed_to_the_topic_created_after_it
    gone, stays = Array.new(2) { topic(PARTITIONS) }
    Dir.mktmpdir do |folder|
      ledger = Ledger.new(File.join(folder, "ledger"))
      server, ends = serve_both(gone, stays, ledger, SELDOM)
      sent = Hash.new(0)
      send_to(server, sent, gone, stays)
      processed(ledger, sent)
      eventually(20, "the marks") { [gone, stays].all? { |name| lags(server, "deleted", name) == [0] * PARTITIONS } }
      asked = @cluster.requests do
        @cluster.without(gone) { eventually(20, "the end of its consumers") { ends.size == PARTITIONS } }
        eventually(20, "the topic to be there again") { server.assignments.key?(gone) }
      end
      refute_includes asked, :offset_commit
      assert_equal [nil] * PARTITIONS, committed("deleted", Array.new(PARTITIONS) { |number| [gone, number] })
      assert server.stop
    end
  end

  # A server that reads two topics, and a queue of how its consumers end.
  def serve_both(gone, stays, ledger, more = {})
    ends = Thread::Queue.new
    reader = consumer do
      messages.each { |message| ledger.processed(object_id.to_s, "#{topic}/#{partition}", message.offset) }
    end
    %i[revoked shutdown].each { |word| reader.define_method(word) { ends << [word, topic] } }
    kafka = QUICK.merge("topic.metadata.refresh.interval.ms" => 200,
                        "partition.assignment.strategy" => "cooperative-sticky", **more)
    server = app(group: "deleted", kafka: kafka) { [gone, stays].each { |name| topic(name, to: reader) } }
    [server.tap(&:start), ends]
  end

  # A message to each partition; a topic that was gone is known again when the producer looked once more.
  def send_to(server, sent, *topics)
    topics.product([*0...PARTITIONS]).each do |topic, partition|
      eventually(20, "a delivery to #{topic}") do
        server.producer.produce_sync(topic: topic, partition: partition, payload: "x", timeout: 20)
      rescue Pelton::DeliveryError => e
        raise unless %i[_UNKNOWN_TOPIC _UNKNOWN_PARTITION UNKNOWN_TOPIC_OR_PART].include?(e.name)
      end
      sent["#{topic}/#{partition}"] += 1
    end
  end

  def processed(ledger, sent)
    report = nil
    eventually(30, -> { "the rest of #{report}" }) do
      report = ledger.report(sent)
      report.processed - report.duplicates == report.sent
    end
  end

  # librdkafka keeps such partitions and never reads them, so the group is joined anew.
  def test_partitions_are_read_although_fetching_their_offsets_failed_at_first
    %w[range cooperative-sticky].each do |strategy|
      @cluster.fail_next(:offset_fetch, :NOT_COORDINATOR)
      streaming("partition.assignment.strategy" => strategy) { next }
      told = happened("partition.revoked").size
      assert_equal PARTITIONS, told, "#{strategy}: both were given back"
      @happened.clear
    end
  end
end
