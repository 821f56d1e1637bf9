# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# Transactions in consume: what they produce and mark counts together, and nothing is marked besides.
class ExactlyOnceTest < Minitest::Test
  include TransactionalKit

  def test_offsets_marked_in_a_transaction_are_sent_with_it_only
    value = nil
    consume(0, 1, 2) do |consumer|
      value = consumer.transaction do |tx|
        consumer.messages.each { |message| tx.produce_async(topic: "out", payload: message.offset.to_s) }
        assert consumer.mark_as_consumed(consumer.messages.first)
        assert consumer.mark_as_consumed!(consumer.messages.last)
        :value
      end
    end
    assert_equal [:value, %w[0 1 2], [3], [], 0], [value, out, sent, marked, @ownership.commits]
    assert_equal [:assigned, [0, 1, 2]], @log
    script { nil }
    coordinator.receive(batch(3))
    work
    assert_equal [4], marked, "without a transaction as ever"
  end

  def test_inside_producer_is_the_transactions
    other = transactional("other")
    consume(0) do |consumer|
      consumer.transaction(other) do
        assert_same other, consumer.producer
        consumer.producer.produce_async(topic: "out", payload: "x")
        consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) } # joins
        assert_empty out(other)
      end
      assert_same @producer, consumer.producer
    end
    assert_empty errors
    assert_equal [["x"], [1]], [out(other), sent]
  ensure
    other.close
  end

  def test_an_exception_aborts_and_the_position_stays
    tries = 0
    consume(0, 1, retries: nil, backoff: 0..0) do |consumer|
      tries += 1
      consumer.transaction do |tx|
        tx.produce_async(topic: "out", payload: tries.to_s)
        consumer.mark_as_consumed(consumer.messages.last)
        raise IOError, "bad" if tries == 1
      end
    end
    assert_equal [:assigned, [0, 1], [0, 1]], @log
    assert_equal [["2"], [2], []], [out, sent, marked], "payloads, offsets sent, offsets marked"
  end

  def test_a_failure_behind_a_transaction_runs_the_rest_only
    tries = 0
    consume(0, 1, 2, backoff: 0..0) do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
      raise IOError if (tries += 1) == 1
    end
    assert_equal [:assigned, [0, 1, 2], [1, 2], [2]], @log
    assert_equal [[1, 2, 3], []], [sent, marked], "offsets sent, offsets marked"
  end

  def test_a_silent_abort_lost_its_messages_with_the_next_batch
    tries = 0
    consume(0, 1, backoff: 0..0) do |consumer|
      tries += 1
      consumer.transaction do
        consumer.mark_as_consumed(consumer.messages.last)
        raise Pelton::AbortTransaction if tries == 1
      end
    end
    coordinator.receive(batch(2))
    work until idle?
    assert_equal [:assigned, [0, 1], [0, 1], [2]], @log
    assert_equal [[2, 3], [], []], [sent, marked, errors], "offsets sent, offsets marked, errors"
  end

  # Takes messages one by one; the first transaction is aborted.
  class OneByOne < Pelton::Consumer
    def self.seen = @seen ||= []

    def process(message)
      seen = self.class.seen << message.offset
      transaction do
        mark_as_consumed(message)
        raise Pelton::AbortTransaction if seen.size == 1
      end
    end
  end

  def test_a_silent_abort_in_process_marked_its_message
    OneByOne.seen.clear
    topic = Pelton::Routing::Topic.new("orders", OneByOne, { max_messages: 100, backoff: 0..0 })
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    coordinator.receive(batch(0, 1))
    work until idle?
    assert_equal [[0, 0, 1], [1, 2], [], []], [OneByOne.seen, sent, marked, errors], "seen, sent, marked, errors"
  end

  # Aborts each transaction with this word.
  class Aborting < Pelton::Consumer
    def process(message)
      CoordinatorKit::Consumer.log << [message.offset, attempt]
      transaction do
        mark_as_consumed(message)
        raise Pelton::AbortTransaction, "no stock" if message.offset == 1
      end
    end
  end

  def test_silent_aborts_in_process_ran_for_ever
    topic = Pelton::Routing::Topic.new("orders", Aborting, { max_messages: 100, backoff: 1..1, retries: 2,
                                                             dead_letters: "dead" })
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    coordinator.receive(batch(0, 1, 2))
    3.times do
      work until idle?
      wake
    end
    work until idle?
    assert_equal [[0, 1], [1, 1], [1, 2], [1, 3], [2, 1]], @log
    assert_equal [1, 2, 3], sent
    assert_equal ["no stock"] * 2, (named("consumer.retrying").map { |event| event[:error].message })
    assert_equal [[1, 3]], (named("message.dead_lettered").map { |event| event.payload.values_at(:offset, :attempts) })
    reason = @producer.messages("dead").first.headers.values_at("pelton.error", "pelton.error_message")
    assert_equal ["Pelton::AbortTransaction", "no stock"], reason
    assert_empty errors, "it is silent"
  end

  def test_repeated_silent_aborts_of_a_batch_end_as_the_route_says
    consume(0, 1, retries: 1, then: :skip, backoff: 0..0) do |consumer|
      consumer.transaction do
        consumer.mark_as_consumed(consumer.messages.last)
        raise Pelton::AbortTransaction if consumer.messages.first.offset.zero?
      end
    end
    assert_equal [:assigned, [0, 1], [0], [1]], @log
    assert_equal [[0, 2]], (named("message.skipped").map { |event| event.payload.values_at(:offset, :attempts) })
    assert_equal [[2], [1]], [sent, marked], "offsets sent, offsets marked"
  end

  # One that was rescued is one, too.
  def test_an_abort_that_consume_rescues_is_a_failure_that_says_why
    consume(0, retries: 0, then: :skip) do |consumer|
      consumer.transaction do
        consumer.mark_as_consumed(consumer.messages.last)
        raise IOError, "disk"
      end
    rescue IOError
      nil
    end
    assert_equal ["disk"], (named("message.skipped").map { |event| event[:error].message })
  end

  def test_a_silent_abort_marks_nothing
    consume(0, 1) do |consumer|
      consumer.transaction do |tx|
        tx.produce_async(topic: "out", payload: "x")
        consumer.mark_as_consumed(consumer.messages.last)
        raise Pelton::AbortTransaction
      end
    end
    assert_equal [[], [], [], []], [out, sent, marked, errors], "payloads, offsets sent, offsets marked, errors"
  end

  def test_return_of_consume_marks_when_the_transaction_marked_nothing
    consume(0, 1) { |consumer| consumer.transaction { |tx| tx.produce_async(topic: "out", payload: "x") } }
    assert_equal [["x"], [], [2]], [out, sent, marked], "payloads, offsets sent, offsets marked"
  end

  def test_stored_progress_is_committed_before_the_transaction
    consume(0) { nil }
    before = []
    @ownership.on_send = -> { before << [@ownership.commits, @ownership.unmarks] }
    coordinator.receive(batch(1))
    coordinator.receive(batch(2))
    script { |consumer| consumer.transaction { consumer.mark_as_consumed(consumer.messages.last) } }
    work until idle?
    assert_equal [[1], [2, 3], 1, []], [marked, sent, @ownership.commits, errors], "marked, sent, commits, errors"
    assert_equal [[1, 1], [1, 1]], before, "committed, and not stored any more, before its offsets are sent"
  end

  def test_a_partition_that_is_lost
    [[-> { coordinator.abandon }, -> {}], [-> {}, -> { coordinator.abandon }],
     [-> {}, -> { raise Pelton::KafkaError.new(22, :ILLEGAL_GENERATION) }]].each do |in_block, in_commit|
      anew
      @ownership.on_send = in_commit
      consume(0, backoff: 1..1) do |consumer|
        consumer.transaction do |tx|
          tx.produce_async(topic: "out", payload: "x")
          consumer.mark_as_consumed(consumer.messages.last)
          in_block.call
        end
      end
      assert_equal [[Pelton::AssignmentLost], [], []], [aborts.map(&:class), out, marked]
      assert_match %r{\Aorders/0 was revoked, so its next owner gets the messages again}, aborts.first.message
      assert_equal coordinator.gone? ? [] : aborts, errors, "a failure only if the partition is still here"
    end
  end

  def test_a_loss_before_the_mark_committed_the_output
    rescued = ->(&mark) { assert_raises(Pelton::AssignmentLost, &mark) }
    [->(&mark) { mark.call }, rescued].each do |marking|
      anew
      consume(0, backoff: 1..1) do |consumer|
        consumer.transaction do |tx|
          tx.produce_async(topic: "out", payload: "x")
          coordinator.abandon
          marking.call { consumer.mark_as_consumed(consumer.messages.last) }
        end
      end
      assert_equal [[Pelton::AssignmentLost], [], []], [aborts.map(&:class), out, sent]
      assert_empty errors, "its next owner has the messages, so that is no failure"
    end
  end

  def test_producing_alone_is_fine_when_the_partition_is_lost
    consume(0) do |consumer|
      coordinator.abandon
      consumer.transaction { |tx| tx.produce_async(topic: "out", payload: "x") }
    end
    assert_equal [["x"], []], [out, errors]
  end

  def test_a_message_of_another_partition
    consume(0, backoff: 1..1) do |consumer|
      consumer.transaction { consumer.mark_as_consumed(Fakes::Message.new("orders", 1, 0, "x")) }
    end
    assert_equal [Pelton::InvalidMessageError], errors.map(&:class)
  end

  def test_a_producer_without_transactions
    @owner.producer = plain = Pelton::Testing::BufferedProducer.new
    consume(0, backoff: 1..1) { |consumer| consumer.transaction { consumer.mark_as_consumed(consumer.messages.last) } }
    assert_equal [:not_transactional], errors.map(&:reason)
  ensure
    plain.close
  end

  def test_a_partition_has_a_producer_of_its_own
    coordinator(transactional: "shop").receive(batch(0))
    work
    id, own = @owner.opened.first
    assert_equal "shop/g/orders/0", id
    assert_equal [["shop/g/orders/0"], []], [@initialized, named("transaction.started")]
    script do |consumer|
      assert_same own, consumer.producer
      last = consumer.messages.last
      consumer.transaction { |tx| tx.produce_async(topic: "out", payload: "x") && consumer.mark_as_consumed(last) }
    end
    work
    assert_equal [["x"], [1], []], [out(own), sent, errors], "payloads, offsets sent, errors"
    coordinator.end(:revoked)
    work
    assert_predicate own, :closed?
    assert_equal 1, @owner.opened.size
  end

  def test_a_forced_stop_waited_for_the_close_of_a_partitions_producer
    consume(0, transactional: "t") { nil }
    closing = Thread::Queue.new
    own = @owner.opened.first.last
    own.stub(:close, ->(*, **) { closing.close && Thread::Queue.new.pop }) do
      coordinator.end(:shutdown)
      worker = Pelton::Threads.start("test") { work }
      closing.pop
      assert worker.kill.join(5), "it is killed at once"
    end
    assert_equal 1, @owner.named(:ended).size
  end

  def test_fatal_error_of_the_groups_producer_opens_a_new_producer
    coordinator(transactional: "shop", backoff: 0..0).receive(batch(0))
    work
    failing = 1
    script do |consumer|
      consumer.transaction do
        consumer.mark_as_consumed(consumer.messages.last)
        raise Pelton::KafkaError.new(-144, :_FENCED, "fenced", true) if (failing -= 1).zero?
      end
    end
    2.times { work }
    assert_equal [2, [1]], [@owner.opened.size, sent]
    assert_predicate @owner.opened.first.last, :closed?
  end

  # --- a commit without an answer ---

  def unknown(told)
    @ownership.told = told
    original = @producer.method(:transaction)
    left = 1
    @producer.define_singleton_method(:transaction) do |&block|
      value = original.call(&block)
      raise Pelton::TransactionError.new("it", :unknown) if value == :unknown && (left -= 1).zero?

      value
    end
    consume(0, 1, backoff: 0..0) do |consumer|
      consumer.transaction do
        consumer.mark_as_consumed(consumer.messages.last)
        :unknown
      end
    end
  end

  def test_unknown_outcome_of_a_commit_that_was_carried_out_repeats_nothing
    unknown(2)
    assert_equal [:assigned, [0, 1]], @log
    assert_empty errors
  end

  def test_unknown_outcome_of_a_commit_that_failed_repeats_the_messages
    unknown(nil)
    assert_equal [:assigned, [0, 1], [0, 1]], @log
    assert_equal [:unknown], errors.map(&:reason)
  end

  # The committed offset is that of the message itself: an earlier transaction's.
  def test_message_is_not_lost_when_its_commit_fails_behind_an_earlier_one
    unknown(1)
    assert_equal [:assigned, [0, 1], [0, 1]], @log
    assert_equal [:unknown], errors.map(&:reason)
  end

  def test_unknown_outcome_of_a_commit_starts_nothing_new_until_kafka_answers
    @ownership.told = 2
    asked = 0
    @ownership.define_singleton_method(:committed) do |places|
      (asked += 1) == 1 ? raise(Pelton::WaitTimeout, "committed offsets") : super(places)
    end
    unknown(2)
    assert_equal [:assigned, [0, 1], [0, 1]], @log
    assert_equal %i[unknown committed], errors.map(&:reason)
  end

  def test_an_interrupt_in_a_commit_that_was_carried_out_doubled_the_output
    @ownership.told = 2
    interrupt_commit
    consume(0, 1, backoff: 0..0) do |consumer|
      consumer.transaction do |tx|
        consumer.messages.each { |message| tx.produce_async(topic: "out", payload: message.offset.to_s) }
        consumer.mark_as_consumed(consumer.messages.last)
        :slow
      end
    end
    assert_equal [Timeout::Error, Pelton::TransactionError], errors.map(&:class)
    assert_equal [%w[0 1], []], [out, marked], "payloads, offsets marked"
    coordinator.receive(batch(2))
    work until idle?
    assert_equal [[:assigned, [0, 1], [0, 1], [2]], [2, 3]], [@log, sent], "calls, offsets sent"
  end

  # --- dead letters ---

  def test_a_dead_letter_of_a_lost_partition_was_sent_all_the_same
    consume(0, retries: 0, dead_letters: "out", backoff: 1..1) do
      coordinator.abandon
      raise IOError, "bad"
    end
    assert_equal [[], []], [out, sent], "payloads, offsets sent"
    assert_equal Pelton::AssignmentLost, errors.last.class
  end

  def test_the_copy_and_the_offset_are_in_one_transaction
    consume(0, 1, retries: 0, dead_letters: "out", backoff: 0..0) { raise IOError, "bad" }
    assert_equal [[1, 2], [], 2], [sent, marked, out.size], "offsets sent, offsets marked, number of payloads"
    assert_equal 2, named("message.dead_lettered").size
    assert_equal 1, named("error.occurred").last[:attempt]
  end

  # An aborted transaction with a dead letter must not move the position of the partition.
  def test_an_aborted_copy_does_not_move_the_position
    times = 0
    @ownership.on_send = -> { raise Pelton::KafkaError.new(16, :NOT_COORDINATOR) if (times += 1) == 1 }
    consume(0, retries: 0, dead_letters: "out", backoff: 0..0) { raise IOError, "bad" }
    assert_equal [:assigned, [0], [0]], @log
    assert_equal [[1], 1], [sent, out.size], "offsets sent, number of payloads"
    assert_equal ["forward"], named("error.occurred").map { |event| event[:source] }.grep(/forward/)
  end
end
