# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# How far behind a consumer is: of a message's times, of a call of consume, of a partition.
class LagsTest < Minitest::Test
  include CoordinatorKit

  def wall = Process.clock_gettime(Process::CLOCK_REALTIME)

  # Produced and received so many seconds ago.
  def aged(offset, produced, received)
    Fakes::Message.new("orders", 0, offset, "x", timestamp_ms: ((wall - produced) * 1000).to_i,
                                                 received_ms: ((wall - received) * 1000).to_i)
  end

  def lag(position, finish, reached = nil)
    coordinator.progress { |progress, _| progress.lag(position, finish, reached) }
  end

  def test_times_of_a_message
    message = Fakes::Message.new("orders", 0, 0, "x", timestamp_ms: 1_700_000_000_123, received_ms: 1_700_000_001_456)
    assert_equal [Time.at(1_700_000_000, 123, :millisecond)] * 2, [message.created_at, message.timestamp]
    assert_equal Time.at(1_700_000_001, 456, :millisecond), message.received_at
    assert_nil Fakes::Message.new("orders", 0, 0, "x", timestamp_ms: -1).created_at
  end

  def test_consume_call_reports_its_lag
    seen = []
    script { |consumer| seen << [consumer.consumption_lag, consumer.processing_lag] }
    Consumer.hooks[:assigned] = ->(consumer) { assert_nil consumer.consumption_lag }
    coordinator.receive(Fakes::Batch.new([aged(0, 60, 20), aged(1, 30, 10)]))
    work
    work
    consumption, processing = seen.first
    assert_includes 60..90, consumption, "of the first message"
    assert_includes 20..50, processing
    told = named("consumer.consumed").first
    assert_equal seen.first, [told[:consumption_lag], told[:processing_lag]]
  end

  def test_a_retry_has_waited_longer
    script { raise "bad" }
    coordinator.receive(Fakes::Batch.new([aged(0, 60, 20)]))
    2.times { work }
    wake
    work
    first, second = named("consumer.consumed").map { |event| event[:processing_lag] }
    assert_operator second, :>=, first
  end

  def test_without_a_timestamp_there_is_no_lag
    coordinator.receive(Fakes::Batch.new([Fakes::Message.new("orders", 0, 0, "x", timestamp_ms: -1)]))
    2.times { work }
    assert_nil named("consumer.consumed").first[:consumption_lag]
    refute_nil named("consumer.consumed").first[:processing_lag]
  end

  def test_lag_of_a_partition_counts_unfinished_messages
    coordinator
    assert_equal [3, 0], [lag(7, 10), lag(nil, 10)], "nothing came yet"
    coordinator.receive(batch(4, 5))
    assert_equal 6, lag(6, 10)
    2.times { work }
    assert_equal 4, lag(6, 10), "done up to 5"
    coordinator.receive(batch(6, 7))
    script { raise "bad" }
    work
    assert_equal [4, 0], [lag(8, 10), lag(8, 5)], "a failure is not done; an end that is known late is no lag below 0"
  end

  def test_the_end_of_a_transaction_was_a_lag_until_the_next_message
    coordinator.receive(batch(4, 5))
    assert_equal 3, lag(6, 7, 7), "nothing is done"
    2.times { work }
    assert_equal [0, 2], [lag(6, 7, 7), lag(6, 9, 7)], "6 is a marker; 7 and 8 are messages"
    assert_equal 3, lag(8, 9, 9), "6 and 7 came, and are not done"
  end

  def test_a_partition_s_lag_after_a_seek
    coordinator.receive(batch(4, 5))
    2.times { work }
    coordinator.seeks.to(2)
    assert_equal 8, lag(2, 10)
  end

  def test_marked_by_hand_a_lag_ends_with_the_mark
    script { |consumer| consumer.mark_as_consumed(consumer.messages.first) if consumer.messages.first.offset == 6 }
    coordinator(manual_offsets: true).receive(batch(4, 5))
    2.times { work }
    assert_equal 6, lag(6, 10)
    coordinator.receive(batch(6))
    work
    assert_equal 3, lag(7, 10)
  end
end

# The same of a whole app.
class AppLagsTest < Minitest::Test
  def setup
    @native = Fakes::Native.new
    @app = Pelton::App.new(native: @native.to_module)
    @app.configure { |config| config.group_id = "g" }
  end

  def teardown = @app.close(timeout: 5)

  def test_resource_monitor_reports_lag_and_threads_of_each_partition
    gate = Thread::Queue.new
    consumer = Class.new(Pelton::Consumer) do
      define_method(:assigned) do
        background("idle", &:wait)
        @own = Thread.new { Thread.stop } if partition == 1
      end
      define_method(:consume) { gate.pop if partition.zero? }
      define_method(:shutdown) { @own&.kill }
    end
    @app.routes { topic("orders", to: consumer) { max_messages 2 } }
    5.times { |number| @native.kafka.append("orders", number % 2, "x") }
    assert_equal [{}, {}], @app.stats.values_at(:lags, :consumer_threads)
    @app.start
    @native.subscriptions.first.assign_now(["orders", 0], ["orders", 1])
    eventually(10, "partition 0 waits") { @app.stats[:lags] == { "g" => { "orders" => { 0 => 3, 1 => 0 } } } }
    eventually(10, -> { @app.stats.inspect }) do
      @app.stats[:consumer_threads] == { "g" => { "orders" => { 0 => 1, 1 => 2 } } }
    end
    3.times { gate << true }
    eventually(10, "all is done") { @app.stats[:lags] == { "g" => { "orders" => { 0 => 0, 1 => 0 } } } }
    @app.stop
    assert_equal [{}, {}], @app.stats.values_at(:lags, :consumer_threads)
  ensure
    gate.close
  end
end
