# frozen_string_literal: true

require "test_helper"
require "support/native_kit"

# The transactional methods of Native::Producer: errors with their kind, and a defined state after a call whose caller
# went away.
class NativeTransactionTest < Minitest::Test
  include NativeKit

  FIND_COORDINATOR = 10
  HEARTBEAT = 12
  UNKNOWN_MEMBER = 25
  INIT_PRODUCER_ID = 22
  ADD_PARTITIONS = 24
  END_TXN = 26
  FAR = 300
  # A call that is left gives way within a second, on an idle machine.
  SOON = 30

  def teardown
    NativeKit.cluster.round_trip_time(-1, 0) if @slow
    super
  end

  def transactional(options = {}) = producer({ "transactional.id" => NativeKit.name("txn"), **options })
  def put(producer, topic, text = "x") = producer.produce(topic, text, nil, 0, nil, nil, 1)

  def slow(milliseconds)
    @slow = true
    NativeKit.cluster.round_trip_time(1, milliseconds)
  end

  # A thread in this call, waiting.
  def left_in(&call)
    thread = Thread.new(&call)
    thread.report_on_exception = false
    eventually { thread.stop? }
    thread
  end

  def test_a_commit_resolves_every_delivery
    topic = new_topic
    producer = transactional("linger.ms" => "5000")
    assert_equal true, producer.begin_transaction(60)
    deliveries = Array.new(100) { put(producer, topic) }
    assert_equal true, producer.commit_transaction(60)
    assert deliveries.all?(&:delivered?)
    assert_equal 0, producer.pending
  end

  def test_abort_gives_up_unsent_messages
    topic = new_topic
    producer = transactional("linger.ms" => "30000")
    20.times do # it was sent after all, now and then
      producer.begin_transaction(60)
      delivery = put(producer, topic)
      assert_equal true, producer.abort_transaction(60, 0)
      assert_equal(-152, delivery.error&.code)
      assert_predicate delivery.error, :purged?
    end
    assert_equal true, producer.abort_transaction(60, 0), "nothing is open"
    producer.begin_transaction(60)
    assert_equal true, producer.commit_transaction(60)
  end

  def test_an_abort_may_wait_for_the_first_report
    topic = new_topic
    producer = transactional("linger.ms" => "50")
    producer.begin_transaction(60)
    delivery = put(producer, topic)
    producer.abort_transaction(60, 60)
    assert_predicate delivery, :delivered?
  end

  def test_messages_given_up_by_an_abort_are_not_reported
    topic = new_topic
    producer = transactional("linger.ms" => "30000")
    producer.begin_transaction(60)
    put(producer, topic)
    producer.abort_transaction(60, 0)
    # Producers of other tests may still be giving theirs up.
    assert_empty(next_events(0).select { |kind, *facts| kind == :delivery_failed && facts.include?(topic) })
  end

  def test_a_message_outside_of_a_transaction_is_refused
    producer = transactional
    producer.begin_transaction(60)
    producer.commit_transaction(60)
    assert_equal(-172, assert_raises(Pelton::KafkaError) { put(producer, new_topic) }.code)
  end

  def test_without_a_transactional_id
    assert_equal(-145, assert_raises(Pelton::KafkaError) { producer.begin_transaction(60) }.code)
  end

  def test_kinds_of_errors
    topic = new_topic
    producer = transactional
    producer.begin_transaction(60)
    # INVALID_TXN_STATE at a commit: nothing helps.
    put(producer, topic).wait(timeout: 60)
    NativeKit.cluster.push_errors(END_TXN, [48])
    fatal = assert_raises(Pelton::KafkaError) { producer.commit_transaction(60) }
    assert_equal [48, true, false, false], [fatal.code, fatal.fatal?, fatal.abortable?, fatal.retriable?]
    assert_equal 48, producer.fatal_error.code

    successor = transactional
    successor.begin_transaction(60)
    put(successor, topic).wait(timeout: 60)
    NativeKit.cluster.push_errors(END_TXN, [59]) # UNKNOWN_PRODUCER_ID
    abortable = assert_raises(Pelton::KafkaError) { successor.commit_transaction(60) }
    assert_equal [59, false, true, false],
                 [abortable.code, abortable.fatal?, abortable.abortable?, abortable.retriable?]
    assert_equal true, successor.abort_transaction(60, 0)
    successor.begin_transaction(60)
    assert_nil successor.fatal_error

    fenced = transactional
    NativeKit.cluster.push_errors(INIT_PRODUCER_ID, [90])
    error = assert_raises(Pelton::KafkaError) { fenced.begin_transaction(60) }
    assert_equal [-144, true, true], [error.code, error.fatal?, error.fenced?]
  end

  # librdkafka tries these again by itself.
  def test_a_coordinator_that_moves_costs_time_only
    topic = new_topic
    producer = transactional
    NativeKit.cluster.push_errors(FIND_COORDINATOR, [15])
    NativeKit.cluster.push_errors(INIT_PRODUCER_ID, [16, 14])
    NativeKit.cluster.push_errors(ADD_PARTITIONS, [16, 51])
    NativeKit.cluster.push_errors(END_TXN, [14, 16, 51])
    producer.begin_transaction(60)
    delivery = put(producer, topic)
    assert_equal true, producer.commit_transaction(60)
    assert_predicate delivery, :delivered?
  end

  # librdkafka wraps a fatal error in a generic code. The raised error and the event show the real code.
  def test_fatal_error_shows_its_real_code
    topic = new_topic
    producer = transactional
    producer.begin_transaction(60)
    producer.fail_for_good(46, "for a test")
    error = assert_raises(Pelton::DeliveryError) { put(producer, topic) }
    assert_equal [46, true], [error.code, error.fatal?]
    assert_equal 46, producer.fatal_error.code
    told = []
    ours = ->((kind, _client, _code, _name, reason)) { kind == :error && reason.include?("for a test") }
    eventually(20, "the event") { (told += next_events(0).select(&ours)).any? }
    assert_equal [[46, true]], told.map { |row| row.values_at(2, 5) }.uniq
  end

  # --- calls whose caller went away

  def test_no_broker
    producer = lonely_producer("transactional.id" => "t")
    error = nil
    taken = seconds { error = assert_raises(Pelton::KafkaError) { producer.begin_transaction(1) } }
    assert_predicate error, :retriable?
    assert_operator taken, :<, SOON
    thread = left_in { producer.begin_transaction(FAR) }
    assert_operator seconds { thread.kill.join }, :<, SOON
    assert_operator seconds { assert_equal true, producer.abort_transaction(60, 0) }, :<, SOON
    assert_raises(Pelton::KafkaError) { producer.begin_transaction(1) }
  end

  def test_an_interrupted_begin_is_followed_by_another
    producer = transactional
    slow(500)
    left_in { producer.begin_transaction(FAR) }.kill.join
    slow(0)
    assert_equal true, producer.begin_transaction(60)
    delivery = put(producer, new_topic)
    assert_equal true, producer.commit_transaction(60)
    assert_predicate delivery, :delivered?
  end

  # Its outcome is found out before anything else.
  def test_an_interrupted_commit
    topic = new_topic
    producer = transactional
    aborted = Array.new(5) do
      producer.begin_transaction(60)
      put(producer, topic).wait(timeout: 60)
      slow(1500)
      left_in { producer.commit_transaction(FAR) }.kill.join
      outcome = producer.abort_transaction(60, 0)
      slow(0)
      break [outcome] unless outcome

      outcome # killed before librdkafka heard of the commit
    end
    assert_includes aborted, false, "it was committed"
    producer.begin_transaction(60)
    assert_equal true, producer.commit_transaction(60)
  end

  def test_an_interrupted_commit_before_a_begin
    producer = transactional
    producer.begin_transaction(60)
    put(producer, new_topic).wait(timeout: 60)
    slow(1500)
    left_in { producer.commit_transaction(FAR) }.kill.join
    assert_equal true, producer.begin_transaction(60)
    assert_equal true, producer.commit_transaction(60)
  end

  def test_an_interrupted_abort
    topic = new_topic
    producer = transactional
    producer.begin_transaction(60)
    put(producer, topic).wait(timeout: 60)
    slow(1500)
    left_in { producer.abort_transaction(FAR, 0) }.kill.join
    assert_equal true, producer.begin_transaction(60)
    slow(0)
    assert_equal true, producer.commit_transaction(60)
  end

  # Many callers that go away at once: the last one counts, and there are never two native calls.
  def test_many_interrupted_calls
    topic = new_topic
    producer = transactional
    slow(20)
    calls = [-> { producer.begin_transaction(FAR) }, -> { producer.commit_transaction(FAR) },
             -> { producer.abort_transaction(FAR, 0) }]
    60.times do |index|
      thread = Thread.new { calls[index % 3].call }
      thread.report_on_exception = false
      (index % 5).times { Thread.pass }
      thread.kill.join
    rescue Pelton::KafkaError
      next # out of order, as it must be here
    end
    producer.abort_transaction(60, 0)
    producer.begin_transaction(60)
    delivery = put(producer, topic)
    assert_equal true, producer.commit_transaction(60)
    assert_predicate delivery, :delivered?
    assert_nil producer.fatal_error
  end

  # (What readers see of it: test/integration/transactions.rb.)
  def test_a_close_ends_with_a_transaction_open
    topic = new_topic
    producer = transactional("transactional.id" => "left-open")
    producer.begin_transaction(60)
    put(producer, topic).wait(timeout: 60)
    assert_equal 0, producer.close(10)
    assert_raises(Pelton::ClosedError) { producer.begin_transaction(60) }
  end

  def test_a_close_while_a_call_runs
    producer = transactional
    producer.begin_transaction(60)
    put(producer, new_topic).wait(timeout: 60)
    slow(6000) # the answer comes long after the close took over, also on a busy machine
    thread = left_in { producer.commit_transaction(FAR) }
    assert_operator seconds { producer.close(120) }, :<, SOON
    # The close took the call over within a second. On a busy machine it may come before the call has its turn, which
    # then ends without asking Kafka.
    error = nil
    spent = seconds { error = assert_raises(Pelton::KafkaError, Pelton::WaitTimeout) { thread.value } }
    assert_operator spent, :<, SOON
    return assert_match(/\Aproducer .* not finished\z/, error.message) if error.is_a?(Pelton::WaitTimeout)

    assert_predicate error, :retriable?
  end

  # Failed starts of transactions leave no thread, descriptor or callback behind.
  def test_failed_begins_leave_nothing_behind
    lost = lambda do
      producer = Native::Producer.new(NativeKit.name("lost"),
                                      { **NOWHERE, "log_level" => "0", "transactional.id" => "t" })
      assert_raises(Pelton::KafkaError) { producer.begin_transaction(0) }
      producer.close(0)
    end
    round = -> { Array.new(20) { Thread.new(&lost) }.each(&:join) }
    round.call
    before = eventually(10, "a calm state") { (counts = resources) == resources && counts }
    4.times { round.call }
    eventually(10, "threads and descriptors as before (#{before}, now #{resources})") do
      resources.zip(before).all? { |now, then_| now <= then_ }
    end
  end

  def resources = [Dir.children("/proc/self/task").size, Dir.children("/proc/self/fd").size]

  # --- offsets

  def test_offsets_of_a_group
    input = topic_of("1", "2", "3")
    group = NativeKit.name("group")
    reader = subscription("group.id" => group)
    reader.subscribe([input])
    seen = 0
    eventually(20) do
      kind, batch = reader.poll(1)
      seen += batch.size if kind == :batch
      seen == 3
    end
    producer = transactional
    producer.begin_transaction(60)
    assert_equal true, producer.send_offsets([[input, 0, 2]], reader, 60)
    assert_equal true, producer.commit_transaction(60)
    assert_raises(Pelton::InvalidMessageError) { producer.send_offsets([[input, 0]], reader, 60) }
    reader.close(5)
    assert_raises(Pelton::ClosedError) do
      producer.begin_transaction(60) && producer.send_offsets([[input, 0, 3]], reader, 60)
    end
  end

  # The group has given its partitions to others, who may have committed more.
  def test_offsets_of_a_lost_assignment_are_refused
    input = topic_of("1")
    reader = subscription("heartbeat.interval.ms" => "100")
    reader.subscribe([input])
    next_event(reader, :batch)
    NativeKit.cluster.push_errors(HEARTBEAT, [UNKNOWN_MEMBER])
    _, token, partitions, lost = next_event(reader, :revoked)
    assert_equal [[[input, 0]], true], [partitions, lost]
    producer = transactional
    producer.begin_transaction(60)
    error = assert_raises(Pelton::KafkaError) { producer.send_offsets([[input, 0, 1]], reader, 60) }
    assert_equal :_ASSIGNMENT_LOST, error.name
    producer.abort_transaction(60, 0)
    reader.revoked(token)
  end

  def test_a_consumer_without_a_group_has_no_offsets_to_give
    reader = subscription
    reader.assign([[topic_of("1"), 0, 0]])
    producer = transactional
    producer.begin_transaction(60)
    result = begin
      producer.send_offsets([["x", 0, 1]], reader, 1)
    rescue Pelton::KafkaError => e
      e
    end
    refute_nil result # refused, or taken by the kinder embedded cluster; not a crash
    producer.abort_transaction(60, 0)
  end
end
