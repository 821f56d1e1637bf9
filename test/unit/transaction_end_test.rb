# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"

# How a transaction ends when an interrupt, a listener, a fork or another producer comes in between; on the fake native
# side.
class TransactionEndTest < Minitest::Test
  include FakeTransactions

  OFFSETS = { ["in", 0] => 42 }.freeze

  # In `mine?`, that is: after the block, before the owner is gone.
  def test_an_interrupt_right_before_the_end_leaves_no_owner_behind
    stop = Class.new(StandardError)
    producer.transaction { 1 }
    calls = 0
    producer.client.instance_variable_get(:@lock).define_singleton_method(:mine?) do
      (calls += 1) == 2 && Thread.current.raise(stop)
      super()
    end
    assert_raises(stop) { producer.transaction { 2 } }
    free = Pelton::Threads.start("test") { producer.transaction { 3 } }
    assert free.join(5 * Guard::PATIENCE), "another thread waits for an owner that is gone"
  end

  def test_an_interrupt_while_the_clock_is_read_raises_nothing_else
    stop = Class.new(StandardError)
    producer.transaction { 1 }
    here = Thread.current # other threads read the clock, too
    clock = TracePoint.new(:call) do |call|
      (clock.disable && raise(stop)) if call.self == Pelton::Clock && Thread.current == here
    end
    assert_raises(stop) { clock.enable { producer.transaction { flunk } } }
    assert_equal [2, %i[begin commit]], [producer.transaction { 2 }, fake.steps.last(2)]
  end

  # The message says only that it was given up.
  def test_a_fenced_transaction_says_that_it_was_fenced
    purged = Pelton::DeliveryError.new(-152, :_PURGE_QUEUE, "purged", false, false, "a", 0)
    delivery = Fakes::Delivery.new("a", 0, nil, error: purged)
    fenced = error(-144, fatal: true)
    @native.prepare = lambda do |made|
      made.define_singleton_method(:produce) do |*|
        self.fatal_error = fenced
        delivery
      end
    end
    said = assert_raises(Pelton::KafkaError) { producer.transaction { producer.produce_sync(**row) } }
    assert_equal [fenced, purged], [said, said.cause]
    assert_equal [fenced] * 2, (@events.map { |event| event[:error] })
  end

  def test_a_mark_after_the_end_is_not_lost_silently
    [nil, Pelton::AbortTransaction].each do |failure|
      kept = nil
      producer.transaction { |tx| (kept = tx) && failure && raise(failure) }
      said = assert_raises(Pelton::TransactionError) { kept.mark_as_consumed(OFFSETS, Marks.new) }
      assert_equal :over, said.reason
    end
  end

  def test_marks_of_nothing
    assert_equal(1, producer.transaction { |tx| [[], {}].each { |none| tx.mark_as_consumed(none, Marks.new) } && 1 })
    assert_equal %i[begin commit], fake.steps
  end

  def test_a_listener_that_produces_when_a_transaction_has_ended
    failed = []
    @bus.subscribe("error.occurred") { |event| failed << event[:error] }
    %w[transaction.committed transaction.aborted].each do |name|
      listener = @bus.subscribe(name) do
        @bus.unsubscribe(listener)
        producer.produce_sync(**row(name))
      end
    end
    producer.transaction { producer.produce_async(**row) }
    producer.transaction { raise Pelton::AbortTransaction }
    assert_equal [[], %w[x transaction.committed transaction.aborted]], [failed, fake.committed]
  end

  def test_subscriber_that_produces_during_a_client_replacement_gets_an_error_with_the_reason
    @native.prepare = failing(:begin, error(48, fatal: true))
    producer.transaction { 1 }
    said = []
    @bus.subscribe("error.occurred") { |event| said << event[:error].class << event[:error].reason }
    @bus.subscribe("producer.fatal") { producer.produce_async(**row) }
    fake.fatal_error = error(48, fatal: true)
    assert_equal 2, producer.transaction { 2 }
    assert_equal [Pelton::TransactionError, :over], said
  end

  def test_a_child_that_exits_in_the_block_comes_to_its_end
    parent = Process.pid
    @native.prepare = lambda do |made|
      made.on_step = ->(*) { raise Pelton::ForkError.new("client", parent) unless Process.pid == parent }
    end
    status = begin
      producer.transaction { (child = fork) ? Process.wait2(child).last.exitstatus : exit(7) }
    rescue SystemExit => e
      exit!(names.empty? ? e.status : 8)
    rescue Pelton::Error
      raise if Process.pid == parent

      exit!(9)
    end
    assert_equal [7, ["transaction.committed"]], [status, names]
  end
end
