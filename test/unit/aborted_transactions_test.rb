# frozen_string_literal: true

require_relative "../test_helper"
require "support/transactional_kit"

# What an aborted transaction leaves undone: no later mark of the same call passes it, and the abort of a thread that
# has nothing to do with the call is not its failure.
class AbortedTransactionsTest < Minitest::Test
  include TransactionalKit

  ABORTS = {
    silent: ->(consumer) { consumer.transaction { raise Pelton::AbortTransaction } },
    silent_after_its_mark: lambda do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) && raise(Pelton::AbortTransaction) }
    end,
    rescued_after_its_mark: lambda do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) && raise(IOError) }
    rescue IOError
      nil
    end,
    in_a_fiber: ->(consumer) { Fiber.new { consumer.transaction { raise Pelton::AbortTransaction } }.resume },
    in_a_thread: ->(consumer) { Thread.new { consumer.transaction { raise Pelton::AbortTransaction } }.join }
  }.freeze
  MARKS = {
    in_a_transaction: ->(consumer, _) { consumer.transaction { consumer.mark_as_consumed(consumer.messages.last) } },
    by_another_producer: lambda do |consumer, other|
      consumer.transaction(other) { consumer.mark_as_consumed(consumer.messages.last) }
    end,
    outside: ->(consumer, _) { consumer.mark_as_consumed(consumer.messages.last) },
    outside_and_waiting: ->(consumer, _) { consumer.mark_as_consumed!(consumer.messages.last) },
    in_a_thread: lambda do |consumer, _|
      marking = Thread.new { consumer.transaction { consumer.mark_as_consumed(consumer.messages.last) } }
      marking.report_on_exception = false
      marking.join
    end
  }.freeze

  ABORTS.to_a.product(MARKS.to_a) do |(abort, aborted), (place, mark)|
    define_method("test_a_mark_#{place}_after_a_#{abort}_abort_lost_messages") do
      other = transactional("other")
      tries = 0
      consume(0, 1, 2, backoff: 0..0) do |consumer|
        aborted.call(consumer) if (tries += 1) == 1
        mark.call(consumer, other)
      end
      assert_equal [:undone], errors.map(&:reason)
      assert_match(/the mark of offset 2 would pass offset 0: the transaction/, errors.first.message)
      assert_equal [[:assigned, [0, 1, 2], [0, 1, 2]], [3]], [@log, (sent + marked).uniq],
                   "calls, offsets sent or marked"
    ensure
      other.close
    end
  end

  def test_the_same_mark_again_is_the_work_done_again
    ABORTS.each_value do |abort|
      anew
      consume(0, 1) do |consumer|
        abort.call(consumer)
        consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
        consumer.transaction { consumer.mark_as_consumed(consumer.messages.last) }
      end
      assert_equal [[:assigned, [0, 1]], [1, 2], []], [@log, sent, errors], "calls, offsets sent, errors"
    end
  end

  # The transaction of message 1 is aborted, and consume goes on with the next message.
  def test_loop_over_messages_does_not_lose_the_one_with_an_aborted_transaction
    aborted = 0
    consume(0, 1, 2, backoff: 0..0) do |consumer|
      consumer.messages.each do |message|
        consumer.transaction do |tx|
          tx.produce_async(topic: "out", payload: message.offset.to_s)
          raise Pelton::AbortTransaction if message.offset == 1 && (aborted += 1) == 1

          consumer.mark_as_consumed(message)
        end
      end
    end
    assert_equal [[:assigned, [0, 1, 2], [1, 2]], %w[0 1 2], [1, 2, 3]], [@log, out, sent],
                 "calls, payloads, offsets sent"
  end

  def test_mark_does_not_pass_messages_of_another_threads_aborted_transaction
    other = transactional("other")
    tries = 0
    consume(0, 1, backoff: 0..0) do |consumer|
      consumer.transaction(other) do
        consumer.mark_as_consumed(consumer.messages.last)
        Thread.new { ABORTS[:silent_after_its_mark].call(consumer) }.join if (tries += 1) == 1
      end
    end
    assert_equal [[:undone], [:assigned, [0, 1], [0, 1]], [2]], [errors.map(&:reason), @log, sent],
                 "reasons of the errors, calls, offsets sent"
  ensure
    other.close
  end

  # --- threads that the call did not start ---

  # A thread that does what comes, one after the other.
  def beside(**settings)
    orders = Thread::Queue.new
    done = Thread::Queue.new
    work_off = lambda do |consumer|
      while (order = orders.pop)
        done << order.call(consumer)
      end
    end
    assigned = ->(consumer) { consumer.background("beside") { work_off.call(consumer) } }
    CoordinatorKit::Consumer.hooks = { assigned: assigned }
    coordinator(**settings)
    work
    ->(&order) { (orders << order) && done.pop }
  ensure
    @orders = orders
  end

  def teardown
    @orders&.close
    super
  end

  def test_an_abort_of_a_background_thread_failed_a_healthy_call
    [ABORTS[:silent], ABORTS[:in_a_thread]].each do |abort|
      anew
      background = beside(retries: 0, then: :skip)
      script { background.call(&abort) }
      coordinator.receive(batch(0, 1))
      work until idle?
      assert_equal [[2], [], []], [marked, named("message.skipped"), errors], "offsets marked, skipped messages, errors"
      @orders.close
    end
  end

  def test_thread_started_by_an_earlier_call_does_not_belong_to_this_call
    orders = Thread::Queue.new
    done = Thread::Queue.new
    started = nil
    consume(0, retries: 0, then: :skip) do |consumer|
      started ||= Thread.new { done << ABORTS[:silent].call(consumer) while orders.pop }
    end
    script do
      orders << true
      done.pop
    end
    coordinator.receive(batch(1))
    work until idle?
    assert_equal [[1, 2], []], [marked, named("message.skipped")], "offsets marked, skipped messages"
  ensure
    orders.close
    started.join
  end

  def test_a_commit_under_way_in_a_background_thread_failed_a_healthy_call
    background = beside(retries: 0, then: :skip)
    message = nil
    script { |consumer| message = consumer.messages.first }
    coordinator.receive(batch(0))
    work
    sending = Thread::Queue.new
    go = Thread::Queue.new
    @ownership.on_send = -> { (sending << true) && go.pop }
    script { nil }
    coordinator.receive(batch(1))
    caller = Thread.new { background.call { |consumer| consumer.transaction { consumer.mark_as_consumed(message) } } }
    sending.pop
    work
    assert_equal [[1, 2], [], []], [marked, named("message.skipped"), errors],
                 "offsets marked, skipped messages, errors"
    go << true
    caller.join
  end

  def test_a_background_thread_s_commit_of_an_older_message_hid_an_abort_of_the_call
    background = beside(backoff: 0..0)
    tries = 0
    first = nil
    script { |consumer| first ||= consumer.messages.first }
    coordinator.receive(batch(0))
    work
    script do |consumer|
      next unless (tries += 1) == 1

      ABORTS[:silent].call(consumer)
      background.call { |instance| instance.transaction { instance.mark_as_consumed(first) } }
    end
    coordinator.receive(batch(1))
    work until idle?
    assert_equal [:assigned, [0], [1], [1]], @log
  end

  # A mark says that the work is done, so no call repeats the transaction that was aborted. A scenario lost an output by
  # such a mark: its message counted as done, and its own transaction was aborted.
  def test_a_mark_of_a_background_thread_counts_although_the_call_s_transaction_of_that_message_was_aborted
    %i[before_the_transaction before_the_retry].each do |moment|
      anew
      background = beside(backoff: 1..1)
      first = nil
      mark = -> { background.call { |consumer| consumer.transaction { consumer.mark_as_consumed(first) } } }
      script do |consumer|
        first ||= consumer.messages.first
        mark.call if moment == :before_the_transaction
        consumer.messages.each do |message|
          consumer.transaction do |tx|
            tx.produce_async(topic: "out", payload: message.offset.to_s)
            raise Pelton::AbortTransaction if message.offset.zero?

            consumer.mark_as_consumed(message)
          end
        end
      end
      coordinator.receive(batch(0, 1))
      work until idle?
      mark.call if moment == :before_the_retry
      wake
      work until idle?
      assert_equal [%w[1], 2], [out, sent.last], "#{moment}: payloads, the offset sent last"
      @orders.close
    end
  end

  def test_an_older_mark_took_the_committed_offset_back
    consume(0, 1, 2) do |consumer|
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.last) }
      consumer.transaction { consumer.mark_as_consumed(consumer.messages.first) }
    end
    assert_equal [3, 3], sent
  end

  def test_a_background_thread_aborted_the_mark_of_a_message_that_the_call_then_marked
    background = beside(backoff: 0..0)
    tries = 0
    script { (tries += 1) == 1 && background.call(&ABORTS[:silent_after_its_mark]) }
    coordinator.receive(batch(0, 1))
    work until idle?
    assert_equal [[:assigned, [0, 1], [0, 1]], [2]], [@log, marked], "calls, offsets marked"
  end
end
