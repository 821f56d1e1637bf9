# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"
require "timeout"

# Transactions on the fake native side.
class TransactionsTest < Minitest::Test
  include FakeTransactions

  OFFSETS = { ["in", 0] => 42 }.freeze

  # --- the block ---

  def test_a_block_is_a_transaction
    value = producer.transaction do |tx|
      tx.produce_async(**row("1"))
      producer.produce_sync(**row("2"))
      producer.produce_many_async([row("3")])
      :value
    end
    assert_equal :value, value
    assert_equal [%i[begin commit], %w[1 2 3]], [fake.steps, fake.committed]
    assert_equal ["transaction.committed"], names
    assert_equal producer.name, @events.first[:client]
  end

  def test_an_exception_aborts_and_is_raised_again
    raised = assert_raises(ZeroDivisionError) { producer.transaction { producer.produce_async(**row) && (1 / 0) } }
    assert_equal [%i[begin abort], []], [fake.steps, fake.committed]
    assert_same raised, @events.first[:error]
    assert_raises(NoMemoryError) { producer.transaction { raise NoMemoryError } }
    assert_equal :again, producer.transaction { :again }
  end

  def test_abort_transaction_is_silent
    assert_nil producer.transaction { raise Pelton::AbortTransaction }
    assert_equal [:begin, :abort], fake.steps
    assert_nil @events.first[:error]
  end

  def leave_by_return = producer.transaction { return 1 }

  def test_early_exit_of_the_block_aborts_and_is_reported
    leaves = [-> { producer.transaction { break } }, -> { leave_by_return },
              -> { catch(:done) { producer.transaction { throw :done } } },
              -> { producer.transaction { producer.transaction { break } } }]
    leaves.each do |leave|
      assert_match(/return, break or throw/, assert_raises(Pelton::TransactionError, &leave).message)
    end
    assert_equal [:begin, :abort] * leaves.size, fake.steps
    assert_equal 7, producer.transaction { next 7 }
  end

  def test_nested_transaction_joins_the_outer_one
    producer.transaction do |tx|
      producer.transaction { |inner| assert_same tx, inner }
      producer.produce_async(**row)
      assert_equal [:begin], fake.steps
    end
    assert_equal %i[begin commit], fake.steps
    assert_nil(producer.transaction { producer.transaction { raise Pelton::AbortTransaction } })
    assert_equal %i[begin commit begin abort], fake.steps
  end

  # Each idle partition of a `transactional` topic counted one.
  def test_init_transactions_counts_as_no_transaction
    @bus.subscribe("transaction.started") { |event| @events << event }
    producer.init_transactions
    assert_equal [%i[begin abort], []], [fake.steps, names]
    producer.transaction do
      producer.init_transactions
      producer.produce_async(**row)
    end
    assert_equal [%i[begin abort begin commit], ["x"]], [fake.steps, fake.committed]
    assert_equal %w[transaction.started transaction.committed], names
  end

  def test_init_transactions_waits_for_another_threads_transaction
    entered = Thread::Queue.new
    gate = Thread::Queue.new
    thread = Pelton::Threads.start("test") { producer.transaction { entered.push(1) && gate.pop } }
    entered.pop
    waiting = Pelton::Threads.start("test") { producer.init_transactions }
    eventually { waiting.stop? }
    assert_equal [:begin], fake.steps
    gate << 1
    [thread, waiting].each(&:join)
    assert_equal %i[begin commit begin abort], fake.steps
  end

  def test_a_message_outside_is_its_own_transaction
    assert_equal 0, producer.produce_async(**row("1")).offset
    producer.produce_sync(**row("2"))
    assert_equal 2, producer.produce_many_sync([row("3"), row("4")]).size
    assert_equal [%i[begin commit] * 3, %w[1 2 3 4]], [fake.steps.each_slice(2).to_a.flatten, fake.committed]
    assert_equal %i[begin commit] * 3, fake.steps
  end

  def test_a_failed_message_outside_raises_its_own_error
    failed = Pelton::DeliveryError.new(10, :MSG_SIZE_TOO_LARGE, "too large", false, false, "a", 0)
    delivery = Fakes::Delivery.new("a", 0, nil, error: failed)
    @native.prepare = lambda do |made|
      made.define_singleton_method(:produce) { |*| delivery }
      made.on_step = ->(name, _) { raise error(-1, abortable: true) if name == :commit }
    end
    assert_same failed, assert_raises(Pelton::DeliveryError) { producer.produce_sync(**row) }
    assert_equal %i[begin commit abort], fake.steps
  end

  def test_thread_kill_aborts
    inside = Thread::Queue.new
    thread = Pelton::Threads.start("test") { producer.transaction { inside.push(1) && Thread.stop } }
    inside.pop
    eventually { thread.stop? }
    thread.kill.join
    assert_equal %i[begin abort], fake.steps
    assert_nil @events.first[:error]
    assert_equal 1, producer.transaction { 1 }
  end

  def test_a_timeout_aborts
    # Up to Ruby 3.2 timeout.rb throws.
    throws = RUBY_VERSION < "3.3" ? Pelton::TransactionError : Timeout::Error
    assert_raises(throws) { Timeout.timeout(1) { producer.transaction { Thread::Queue.new.pop } } }
    assert_raises(IOError) { Timeout.timeout(1, IOError) { producer.transaction { Thread::Queue.new.pop } } }
    assert_equal %i[begin abort begin abort], fake.steps
  end

  # An interrupt at any moment, also while the lock is taken or given back, leaves a producer that works.
  def test_interrupts_at_any_moment
    stop = Class.new(StandardError)
    500.times do |index|
      entered = Thread::Queue.new
      thread = Pelton::Threads.start("test", report: ->(_) {}) do
        entered << 1
        3.times { producer.transaction { producer.produce_async(**row) } }
      end
      entered.pop
      (index % 7).times { Thread.pass }
      index.even? ? thread.raise(stop) : thread.kill
      thread.join
    end
    assert_equal :works, Timeout.timeout(60) { producer.transaction { :works } }
  end

  # The answer would have said yes.
  def test_a_timeout_in_a_commit_that_is_carried_out
    @native.prepare = lambda do |made|
      made.on_step = ->(name, _) { Thread::Queue.new.pop if name == :commit }
      made.late_commit = true
    end
    assert_raises(IOError) { Timeout.timeout(1, IOError) { producer.transaction { 1 } } }
    assert_equal [%i[begin commit abort], ["transaction.committed"]], [fake.steps, names]
  end

  # Closed by somebody who did not wait any longer.
  def test_a_commit_of_a_closed_client
    @native.prepare = lambda do |made|
      made.on_step = ->(name, _) { made.close(0) && raise(Pelton::ClosedError) if name == :commit }
    end
    assert_equal :unknown, assert_raises(Pelton::TransactionError) { producer.transaction { 1 } }.reason
  end

  # --- one at a time ---

  def test_other_threads_wait
    order = Thread::Queue.new
    threads = nil
    producer.transaction do
      threads = Array.new(4) do |index|
        Pelton::Threads.start("test") do
          producer.produce_async(**row(index.to_s))
          order << :other
        end
      end
      eventually { threads.all?(&:stop?) }
      producer.produce_async(**row("mine"))
      order << :mine
    end
    Pelton::Threads.join(threads)
    assert_equal :mine, order.pop
    assert_equal "mine", fake.committed.first
    assert_equal 5, fake.committed.size
    assert_equal %i[begin commit] * 5, fake.steps
  end

  def test_other_fibers_of_the_thread
    producer.transaction do
      fiber = Fiber.new { producer.produce_async(**row) }
      assert_match(/another fiber/, assert_raises(Pelton::TransactionError) { fiber.resume }.message)
    end
    assert_equal :fine, producer.transaction { :fine }
  end

  # Its ensure never runs: whoever comes later must not wait for ever.
  def test_a_fiber_that_is_dropped_with_its_thread
    Pelton::Threads.start("test") do
      fiber = Fiber.new { producer.transaction { Fiber.yield } }
      fiber.resume
    end.join
    assert_equal %i[begin], fake.steps
    assert_equal :free, Timeout.timeout(60) { producer.transaction { :free } }
  end

  # --- offsets ---

  def test_offsets_go_with_the_commit
    subscription = Marks.new
    messages = Array.new(3) { |offset| Fakes::Message.new("in", 1, offset, "x") }
    producer.transaction do |tx|
      tx.mark_as_consumed({ ["in", 0] => 42 }, subscription)
      producer.mark_as_consumed(messages.last, subscription)
      tx.mark_as_consumed(messages.first(2), subscription)
      tx.mark_as_consumed(Fakes::Batch.new([Fakes::Message.new("in", 2, 9, "x")]), subscription)
      assert_equal [:begin], fake.steps
    end
    assert_equal %i[begin offsets commit], fake.steps
    assert_equal [[:offset, :native, "in", 0, 42], [:offset, :native, "in", 1, 3], [:offset, :native, "in", 2, 10]],
                 fake.committed
  end

  def test_offsets_of_an_aborted_transaction_are_forgotten
    producer.transaction do |tx|
      tx.mark_as_consumed(OFFSETS, Marks.new)
      raise Pelton::AbortTransaction
    end
    producer.transaction { 1 }
    assert_equal %i[begin abort begin commit], fake.steps
  end

  def test_marks_are_checked
    assert_match(/there is no open transaction/,
                 assert_raises(Pelton::TransactionError) { producer.mark_as_consumed(OFFSETS, Marks.new) }.message)
    wrong = [42, nil, { "in" => 3 }, { ["in", 0] => -1 }, { ["in", -1] => 1 }, { ["in", 0] => 1.5 }]
    [*wrong.product([Marks.new]), [OFFSETS, nil]].each do |arguments|
      assert_raises(Pelton::InvalidMessageError) { producer.transaction { |tx| tx.mark_as_consumed(*arguments) } }
    end
  end

  def test_lost_offsets_abort
    subscription = Marks.new
    lost = error(-142)
    subscription.define_singleton_method(:send_offsets) { |*| raise lost }
    mark = -> { producer.transaction { |tx| tx.mark_as_consumed(OFFSETS, subscription) } }
    assert_same lost, assert_raises(Pelton::KafkaError, &mark)
    assert_equal %i[begin abort], fake.steps
  end

  # --- errors of the steps ---

  def test_retriable_errors_are_tried_again
    fast
    %i[begin commit].each do |step|
      @native.prepare = failing(step, *[error(14, retriable: true)] * 4)
      producer = Pelton::Producer.new(@config, bus: @bus, native: @module)
      assert_equal :value, producer.transaction { :value }
      assert_equal 5, fake.steps.count(step)
      producer.close
    end
  end

  def test_retriable_errors_end
    fast
    @native.prepare = failing(:begin, *[error(14, retriable: true)] * 9)
    assert_raises(Pelton::KafkaError) { producer.transaction { flunk } }
    assert_equal 5, fake.steps.count(:begin)
  end

  def test_unanswered_step_of_a_transaction_is_named_in_the_error
    @config.transaction_timeout = 0
    @native.prepare = failing(:begin, error(-185, retriable: true))
    said = assert_raises(Pelton::WaitTimeout) { producer.transaction { flunk } }
    assert_match(/begin of the transaction not finished after 0 s/, said.message)
  end

  def test_a_commit_that_fails_aborts
    @native.prepare = failing(:commit, error(51, abortable: true))
    assert_predicate assert_raises(Pelton::KafkaError) { producer.transaction { 1 } }, :abortable?
    assert_equal %i[begin commit abort], fake.steps
  end

  # The answer was lost, the commit was not.
  def test_a_commit_without_an_answer_that_was_carried_out
    @config.transaction_timeout = 0
    @native.prepare = lambda do |made|
      failing(:commit, error(-185, retriable: true)).call(made)
      made.late_commit = true
    end
    assert_equal :value, producer.transaction { producer.produce_async(**row) && :value }
    assert_equal [["x"], ["transaction.committed"]], [fake.committed, names]
  end

  def test_commit_with_an_unknown_outcome_raises
    @config.transaction_timeout = 0
    @native.prepare = lambda do |made|
      made.on_step = ->(name, _) { raise error(-185, retriable: true) if %i[commit abort].include?(name) }
    end
    unknown = assert_raises(Pelton::TransactionError) { producer.transaction { 1 } }
    assert_equal [:unknown, -185], [unknown.reason, unknown.cause.code]
    @native.prepare = nil
    assert_equal 2, producer.transaction { 2 }
    assert_equal 2, @native.producers.size
  end

  # --- closing ---

  # Elsewhere a close inside its own transaction deadlocked.
  def test_close_in_a_transaction_raises
    said = assert_raises(Pelton::TransactionError) { producer.transaction { producer.close } }
    assert_match(/cannot be closed in its own transaction/, said.message)
    refute_predicate producer, :closed?
    assert_equal 1, producer.transaction { 1 }
  end

  def test_close_lets_a_transaction_end
    inside = Thread::Queue.new
    go_on = Thread::Queue.new
    thread = Pelton::Threads.start("test") do
      producer.transaction { inside.push(1) && go_on.pop && producer.produce_async(**row) }
    end
    inside.pop
    closer = Pelton::Threads.start("test") { producer.close }
    eventually { closer.stop? }
    refute fake.instance_variable_get(:@closed)
    go_on << 1
    Pelton::Threads.join([thread, closer])
    assert_equal ["x"], fake.committed
    assert_raises(Pelton::ClosedError) { producer.transaction { flunk } }
  end

  def test_close_ends_at_its_timeout
    inside = Thread::Queue.new
    thread = Pelton::Threads.start("test", report: ->(_) {}) { producer.transaction { inside.push(1) && Thread.stop } }
    inside.pop
    left = nil
    fake.define_singleton_method(:close) { |timeout| super(left = timeout) }
    clock = Pelton::Clock.now
    Pelton::Clock.stub(:now, -> { clock }) do
      closer = Pelton::Threads.start("test") { producer.close(timeout: 0.4) }
      lock = producer.instance_variable_get(:@native).instance_variable_get(:@lock)
      eventually { lock.instance_variable_get(:@closing) }
      clock += 0.301 # a bit more than three quarters
      assert_empty Pelton::Threads.join([closer], 10 * Guard::PATIENCE)
    end
    assert_in_delta 0.099, left, 0.001, "for the abort of what is open"
    thread.kill.join
  end

  # Producing and closing take the same locks. In a different order they would deadlock.
  def test_close_while_others_produce
    1_000.times do
      producer = Pelton::Producer.new(@config, native: @module)
      producer.transaction { 1 }
      threads = Array.new(2) do
        Pelton::Threads.start("test", report: ->(e) { raise e unless e.is_a?(Pelton::ClosedError) }) do
          producer.produce_async(**row)
        end
      end
      producer.close
      assert_empty Pelton::Threads.join(threads, 10 * Guard::PATIENCE)
    end
  end

  # --- options ---

  def test_a_message_fails_before_its_transaction
    producer.transaction { 1 }
    assert_equal "60000", fake.config["message.timeout.ms"]
    { "transaction.timeout.ms" => 9000, "message.timeout.ms" => 500 }.each do |option, value|
      own = { "transactional.id" => "t", option => value }
      Pelton::Producer.new(@config, native: @module, kafka: own).tap { |producer| producer.transaction { 1 } }.close
      assert_equal value.to_s, fake.config["message.timeout.ms"]
    end
  end

  def test_without_a_transactional_id
    @config.kafka = {}
    said = assert_raises(Pelton::TransactionError) { producer.transaction { 1 } }
    assert_match(/no transactional.id/, said.message)
  end

  def test_abort_waits_for_reports_up_to_abort_ack_wait
    @config.abort_ack_wait = 0.25
    producer.transaction { raise Pelton::AbortTransaction }
    assert_equal [0.25], fake.ack_waits
  end

  private

  # The pauses between attempts are no subject here.
  def fast
    Pelton::Producer::Transactions.send(:remove_const, :PAUSE)
    Pelton::Producer::Transactions.const_set(:PAUSE, 0.001)
  end
end
