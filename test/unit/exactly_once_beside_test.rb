# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# What comes beside a consumer's transaction: other partitions' ids, hooks, fibers, threads, a seek.
class ExactlyOnceBesideTest < Minitest::Test
  include TransactionalKit

  def test_ids_of_different_partitions_were_the_same
    ids = [%w[a b.c], %w[a.b c], %w[a/b c], %w[a%2Fb c]].map do |group, name|
      settings = { max_messages: 100, backoff: 0..0, transactional: "shop" }
      topic = Pelton::Routing::Topic.new(name, CoordinatorKit::Consumer, settings)
      Pelton::Consuming::Coordinator.new(
        topic, 0, group: group, flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership,
                  jobs: @jobs, bus: @bus, owner: @owner
      ).start
      work
      @owner.opened.last.first
    end
    assert_equal %w[shop/a/b.c/0 shop/a.b/c/0 shop/a%2Fb/c/0 shop/a%252Fb/c/0], ids
  end

  def test_an_assigned_that_raises_left_the_last_owners_transaction_open
    CoordinatorKit::Consumer.hooks = { assigned: ->(_) { raise IOError } }
    coordinator(transactional: "shop")
    work
    assert_equal ["shop/g/orders/0"], @initialized
  end

  def test_an_open_that_fails_is_tried_again
    failing = 1
    @owner.opener = lambda do |id, _facts|
      raise Pelton::KafkaError.new(-195, :_TRANSPORT) if (failing -= 1).zero?

      transactional(id)
    end
    coordinator(transactional: "shop")
    work
    assert_equal [[], []], [@log, @initialized]
    wake
    work
    assert_equal [[:assigned], ["shop/g/orders/0"]], [@log, @initialized]
  end

  def test_mark_in_another_fiber_of_the_block_fails_the_transaction
    consume(0, backoff: 1..1) do |consumer|
      consumer.transaction { Fiber.new { consumer.mark_as_consumed(consumer.messages.last) }.resume }
    end
    assert_equal [[:mark_in_other_fiber], [], []], [errors.map(&:reason), sent, marked],
                 "reasons of the errors, offsets sent, offsets marked"
  end

  # Such a fiber never ends its transaction. All later marks of the thread were refused.
  def test_a_dropped_fibers_transaction_does_not_refuse_marks_of_later_jobs
    dropped = nil
    consume(0) do |consumer|
      next assert consumer.mark_as_consumed(consumer.messages.first) if dropped

      dropped = Fiber.new { consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) && Fiber.yield } }
      dropped.resume
      assert_raises(Pelton::TransactionError) { consumer.mark_as_consumed(consumer.messages.first) }
    end
    coordinator.receive(batch(1))
    work until idle?
    assert_equal [[:assigned, [0], [1]], [], 2], [@log, errors, marked.last]
  end

  def test_marks_in_a_transaction_of_a_topic_with_order_per_key_are_refused
    consume(0, concurrency: 2, retries: 0, then: :skip) do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
    end
    assert_equal ["topic orders: concurrency = 2: marks in a transaction need the order of the partition"],
                 errors.map(&:message)
    assert_empty @ownership.sent
  end

  def test_another_threads_transaction_took_the_jobs_marks
    other = transactional("other")
    consume(0, backoff: 1..1) do |consumer|
      consumer.transaction do
        Thread.new { consumer.transaction(other) { nil } }.join
        consumer.mark_as_consumed(consumer.messages.last)
        raise IOError
      end
    end
    assert_equal [[IOError], [], []], [errors.map(&:class), sent, marked],
                 "classes of the errors, offsets sent, offsets marked"
  ensure
    other.close
  end

  # The transaction was aborted, and the new position was behind the messages that it had marked.
  def test_messages_that_a_transaction_marked_before_its_own_seek_were_lost
    seeks = [->(consumer) { consumer.seek(consumer.messages.last) },
             ->(consumer) { consumer.pause(60, at: consumer.messages.last) }]
    consume(50, 51, 52, backoff: 0..0) do |consumer|
      consumer.transaction do |tx|
        consumer.messages.each do |message|
          seeks.shift.call(consumer) if seeks.any? && message.offset == 52
          tx.produce_async(topic: "out", payload: message.raw_payload)
          consumer.mark_as_consumed(message)
        end
      end
    end
    2.times do
      wake
      work until idle?
    end
    assert_equal [%i[seek seek], [53]], [errors.map(&:reason), sent], "reasons of the errors, offsets sent"
    assert_equal [3, 0], [out.size, @ownership.seeks.size], "results, moves of the position"
  end

  # AbortTransaction ends the block only, so the call went on, and the new position was behind the message.
  def test_a_seek_after_an_aborted_transaction_passed_its_message
    seeks = [->(consumer, to) { consumer.seek(to) }, ->(consumer, to) { consumer.pause(60, at: to) }]
    consume(50, 51, 52, backoff: 0..0) do |consumer|
      consumer.messages.each do |message|
        seek = (seeks.shift if message.offset == 52)
        next seek.call(consumer, message) if seek

        consumer.transaction do |tx|
          tx.produce_async(topic: "out", payload: message.raw_payload)
          consumer.mark_as_consumed(message)
          raise Pelton::AbortTransaction if message.offset == 51 && seeks.any?
        end
      end
    end
    4.times do
      wake
      work until idle?
    end
    assert_equal [:undone], errors.map(&:reason).uniq, "reasons of the errors"
    assert_equal 0, @ownership.seeks.size, "moves of the position"
    assert_equal [53, 3], [sent.last, out.size], "the last offset sent, results"
  end

  def test_a_seek_after_a_rescued_error_skips_its_message_as_asked
    consume(50, 51, 52) do |consumer|
      consumer.transaction { raise IOError if consumer.mark_as_consumed(consumer.messages.first) }
    rescue IOError
      consumer.seek(52)
    end
    assert_equal 1, @ownership.seeks.size, "moves of the position"
  end

  def test_seek_by_another_thread_during_a_transaction_is_not_undone
    consume(50, 51) do |consumer|
      consumer.transaction do |tx|
        tx.produce_async(topic: "out", payload: "x")
        Thread.new { consumer.seek(0) }.join
        consumer.mark_as_consumed(consumer.messages.last)
      end
    end
    assert_equal [[:seek], [], []], [errors.map(&:reason), sent, out], "reasons of the errors, offsets sent, payloads"
    script { nil }
    coordinator.receive(batch(0, 1))
    work
    assert_equal [0, 2], marked
  end

  # The next owner's producer has the same id. Until the partition is gone, it may be another process's mistake.
  def test_fenced_transaction_is_a_failure_only_while_the_partition_is_here
    fenced = Pelton::KafkaError.new(-144, :_FENCED, "fenced", true)
    { -> {} => [fenced], -> { coordinator.abandon } => [] }.each do |before, expected|
      anew
      consume(0, backoff: 1..1) do |consumer|
        before.call
        consumer.transaction { raise fenced }
      end
      assert_equal expected, errors
      assert_empty marked
    end
  end

  def test_other_errors_of_a_partition_that_is_gone_are_failures
    consume(0, backoff: 1..1) do
      coordinator.abandon
      raise IOError, "bad"
    end
    assert_equal [IOError], errors.map(&:class)
  end
end
