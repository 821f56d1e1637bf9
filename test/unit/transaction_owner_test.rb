# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"

# Whose a transaction is, and how long it is one: on the fake native side.
class TransactionOwnerTest < Minitest::Test
  include FakeTransactions

  OFFSETS = { ["in", 0] => 42 }.freeze

  def transaction_lock = producer.instance_variable_get(:@native).instance_variable_get(:@lock)

  def reason
    yield
  rescue Pelton::TransactionError => e
    e.reason
  end

  # What another thread produced by `tx` was committed, though the block was aborted; and who joined it waited for ever.
  def test_a_transaction_is_of_its_fiber
    calls = [->(tx) { tx.produce_async(**row) }, ->(tx) { tx.produce_sync(**row) },
             ->(tx) { tx.produce_many_async([row]) }, ->(tx) { tx.tombstone_async(topic: "orders", key: "k") },
             ->(tx) { tx.mark_as_consumed(OFFSETS, Marks.new) }]
    calls.each do |call|
      ways = { thread: ->(tx) { Thread.new { reason { call.(tx) } }.value },
               fiber: ->(tx) { Fiber.new { reason { call.(tx) } }.resume } }
      ways.each do |name, way|
        producer.transaction do |tx|
          assert_equal :wrong_thread, way.(tx), name
          raise Pelton::AbortTransaction
        end
      end
    end
    assert_empty fake.committed
  end

  def test_events_of_transactions_name_the_partition_whose_producer_it_is
    @bus.subscribe("transaction.started") { |event| @events << event }
    place = { group: "g", topic: "orders", partition: 3 }
    { place => place, {} => place.transform_values { nil } }.each do |facts, wanted|
      @events.clear
      own = Pelton::Producer.new(@config, bus: @bus, native: @module, facts: facts)
      own.transaction { 1 }
      own.transaction { raise Pelton::AbortTransaction }
      own.close
      assert_equal %w[transaction.started transaction.committed transaction.started transaction.aborted], names
      named = @events.map { |event| event.payload.slice(:client, *place.keys) }
      assert_equal [{ client: own.name, **wanted }], named.uniq
    end
  end

  def test_nothing_can_be_produced_by_a_transaction_that_is_over
    ends = { commit: -> {}, abort: -> { raise Pelton::AbortTransaction } }
    ends.each_value do |finish|
      over = nil
      producer.transaction do |tx|
        over = tx
        finish.call
      end
      assert_equal [:over] * 3, [reason { over.produce_sync(**row) }, reason { over.produce_many_async([row]) },
                                 Thread.new { reason { over.produce_async(**row) } }.value]
      assert_equal(:over, producer.transaction { reason { over.produce_async(**row) } })
    end
    assert_empty fake.committed
  end

  # It was one that waited for ever: by its producer a thread may wait until the transaction is over.
  def test_a_thread_that_the_transaction_joins_comes_to_an_end
    @config.transaction_timeout = 0.05
    @config.kafka = { "transactional.id" => "t", "transaction.timeout.ms" => 50 }
    producer.transaction do
      thread = Thread.new { assert_raises(Pelton::WaitTimeout) { producer.produce_async(**row("stuck")) } }
      assert_match(/another thread's transaction not finished after 0.1 s/, thread.value.message)
      producer.produce_async(**row("mine"))
    end
    assert_equal ["mine"], fake.committed
  end

  # Its own wait counts from the beginning of the transaction that it waits for.
  def test_thread_waiting_behind_many_short_transactions_gets_its_turn
    producer.transaction { nil }
    lock = transaction_lock
    long_ago = Pelton::Clock.now - 10_000
    lock.instance_variable_set(:@since, Pelton::Clock.now)
    assert_nil lock.send(:check_patience, long_ago)
    lock.instance_variable_set(:@since, long_ago)
    assert_nil lock.send(:check_patience, Pelton::Clock.now)
    assert_raises(Pelton::WaitTimeout) { lock.send(:check_patience, long_ago) }
  end

  # One that closes may be woken first, and wakes nobody.
  def test_end_of_a_transaction_wakes_all_waiting_threads
    producer.transaction { nil }
    woken = []
    free = ConditionVariable.new
    %i[signal broadcast].each do |way|
      free.define_singleton_method(way) do
        woken << way
        super()
      end
    end
    transaction_lock.instance_variable_set(:@free, free)
    producer.transaction { nil }
    assert_equal [:broadcast], woken
  end
end
