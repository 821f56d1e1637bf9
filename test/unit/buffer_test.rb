# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "support/forked_child"

# Buffering, on the fake native side.
class BufferTest < Minitest::Test
  include ForkedChild

  def setup
    @native = Fakes::Native.new
    @bus = Pelton::Notifications.new
    @producer = Pelton::Producer.new(Pelton::Config.new, bus: @bus, native: @native.to_module)
  end

  def teardown = @producer.close

  def fake = @native.producers.first
  def payloads = @native.producers.flat_map(&:messages).map { |message| message[1] }

  def fill(*payloads) = @producer.buffer_many(payloads.map { |payload| { topic: "a", payload: payload } })

  # From now on sending raises this after it took the first `taken` messages.
  def fail_after(taken, error)
    @producer.produce_async(topic: "a", payload: "first")
    full = Pelton::DeliveryError.new(-184, :_QUEUE_FULL, "full")
    fake.on_send = lambda do |rows, delivery|
      delivery.reports = rows.each_index.map { |index| ["a", nil, nil, (full unless index < taken)] }
      fake.messages.concat(rows.first(taken).map { |row| row.values_at(:topic, :payload) })
      raise error
    end
  end

  def test_messages_that_are_still_in_the_buffer_at_process_exit_are_counted
    fill("1", "2", "3")
    _, text = capture_io { @producer.send(:report_exit, {}) }
    assert_match(/\Apelton: pelton\.producer#\d+: 3 messages in its buffer not sent at process exit\n\z/, text)
    @producer.flush_buffer_sync(timeout: 4)
    assert_equal ["", ""], (capture_io { @producer.send(:report_exit, {}) })
  end

  def test_buffer_and_flush
    assert_same @producer, @producer.buffer(topic: "a", payload: "1", key: "k")
    fill("2", nil)
    assert_equal 3, @producer.buffered
    assert_equal [1, []], [@native.producers.size, fake.messages] # it is told of if it is not closed
    assert_equal 3, @producer.flush_buffer_sync(timeout: 4).waited && fake.messages.size
    assert_equal [["a", "1", "k", nil, nil, nil], ["a", "2", nil, nil, nil, nil], ["a", nil, nil, nil, nil, nil]],
                 fake.messages
    assert_equal 0, @producer.buffered
    assert_nil @producer.flush_buffer_async
    assert_nil @producer.flush_buffer_sync
  end

  # Elsewhere one invalid message took the whole buffer with it.
  def test_a_bad_message_is_refused_at_once_and_none_of_its_batch_is_kept
    error = assert_raises(Pelton::InvalidMessageError) { @producer.buffer(topic: 7, payload: "x") }
    assert_equal ["topic", nil], [error.key, error.index]
    error = assert_raises(Pelton::InvalidMessageError) do
      @producer.buffer_many([{ topic: "a", payload: "x" }, { topic: "a", payload: "x", partition_key: "" }])
    end
    assert_equal ["partition_key", 1], [error.key, error.index]
    assert_equal 0, @producer.buffered
  end

  # Elsewhere middleware ran twice for a buffered message.
  def test_middleware_runs_once
    seen = 0
    @producer.middleware.append(->(message) { message.tap { seen += 1 } })
    fill("1", "2")
    assert_equal 2, seen
    @producer.flush_buffer_sync
    assert_equal [2, %w[1 2]], [seen, payloads]
  end

  # More than a delivery has places for could never be flushed, and a close lost all of it.
  def test_any_number_can_be_flushed
    most = Pelton::Producer::Buffer::MOST
    assert_operator most, :<, 524_288
    fill("1")
    @producer.instance_variable_get(:@buffer).add(Array.new(most, { topic: "a", payload: "2" }.freeze))
    assert_equal [0, { "1" => 1, "2" => most }], [@producer.close, payloads.tally]
    assert_equal "1", payloads.first
    assert_equal([most, 1], fake.calls.filter_map { |kind, rows| rows.size if kind == :many })
  end

  def test_labels_and_partition_keys
    @producer.buffer(topic: "a", payload: "1", label: "L", partition_key: "b")
    assert_equal ["L"], @producer.flush_buffer_sync.labels
    assert_equal [["a", "1", nil, 98 % 4, nil, nil]], fake.messages
  end

  # Elsewhere a full queue in the middle of a flush lost the rest of the buffer.
  def test_messages_refused_by_a_full_queue_return_in_order_before_newer_ones
    fail_after(2, Pelton::QueueFullError.new("a", 1, :delivery))
    fill("1", "2", "3", "4")
    assert_raises(Pelton::QueueFullError) { @producer.flush_buffer_async }
    fill("5")
    assert_equal 3, @producer.buffered
    fake.on_send = nil
    @producer.flush_buffer_sync
    assert_equal %w[first 1 2 3 4 5], payloads
  end

  def test_messages_that_a_flush_could_not_send_come_before_those_buffered_meanwhile
    @producer.produce_async(topic: "a", payload: "first")
    full = Pelton::DeliveryError.new(-184, :_QUEUE_FULL, "full")
    fake.on_send = lambda do |rows, delivery|
      fill("during")
      delivery.reports = rows.map { ["a", nil, nil, full] }
      raise Pelton::QueueFullError.new("a", 1, :delivery)
    end
    fill("1", "2")
    assert_raises(Pelton::QueueFullError) { @producer.flush_buffer_async }
    fake.on_send = nil
    fake.messages.clear
    @producer.flush_buffer_sync
    assert_equal %w[1 2 during], payloads
  end

  def test_nothing_comes_to_harm_when_the_flushing_thread_is_killed
    fail_after(1, Class.new(Exception)) # rubocop:disable Lint/InheritException
    fill("1", "2", "3")
    assert_raises(Exception) { @producer.flush_buffer_async }
    assert_equal 2, @producer.buffered
    killed = fake.on_send
    fake.on_send = lambda do |*given|
      killed.call(*given)
    rescue Exception # rubocop:disable Lint/RescueException
      Thread.exit
    end
    thread = Pelton::Threads.start("test") { @producer.flush_buffer_async }
    Pelton::Threads.join([thread])
    fake.on_send = nil
    @producer.flush_buffer_sync
    assert_equal %w[first 1 2 3], payloads
  end

  def test_a_partition_that_cannot_be_found_keeps_everything
    @producer.produce_async(topic: "a", payload: "first")
    fake.on_count = ->(_) { Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "no") }
    @producer.buffer(topic: "a", payload: "1").buffer(topic: "b", payload: "2", partition_key: "k")
    assert_raises(Pelton::DeliveryError) { @producer.flush_buffer_async }
    assert_equal [2, %w[first]], [@producer.buffered, payloads]
  end

  def test_a_forked_child_begins_with_an_empty_buffer
    fill("1", "2")
    child = fork { exit!(@producer.buffered.zero? && fill("3") && @producer.buffered == 1 ? 0 : 1) }
    assert_predicate Process.wait2(child).last, :success?
    assert_equal 2, @producer.buffered
  end

  def test_forked_child_does_not_count_its_parents_lost_messages
    buffer = Pelton::Producer::Buffer.new
    buffer.add([{ topic: "a", payload: "1" }])
    assert_equal 1, buffer.give_up
    counts = in_child do
      [buffer.give_up, buffer.add([{ topic: "a", payload: "2" }] * 2) && buffer.give_up].join(" ")
    end
    assert_equal "0 2\n", counts
    assert_equal "0\n", in_child { buffer.clear && buffer.give_up }
  end

  # One may be in a transaction that the other one waits for.
  def test_flushes_do_not_wait_for_each_other
    @producer.produce_async(topic: "a", payload: "first")
    fill("1")
    inside = Thread::Queue.new
    gate = Thread::Queue.new
    fake.on_send = lambda do |rows, _|
      next unless rows.first[:payload] == "1"

      inside << true
      gate.pop
    end
    slow = Pelton::Threads.start("test") { @producer.flush_buffer_async }
    inside.pop
    fill("2")
    @producer.flush_buffer_async
    assert_equal %w[first 2], payloads
    gate << true
    Pelton::Threads.join([slow])
    assert_equal %w[first 2 1], payloads
  end

  def test_purge
    fill("1", "2")
    assert_equal 2, @producer.purge
    assert_equal 0, @producer.buffered
    fill("3")
    @producer.flush_buffer_async
    fake.undelivered = 5
    assert_equal 5, @producer.purge
    assert_includes fake.calls, [:purge]
  end

  def test_close_flushes
    fill("1", "2")
    assert_equal 0, @producer.close
    assert_equal %w[1 2], payloads
    assert_raises(Pelton::ClosedError) { fill("3") }
  end

  # A full queue delays a close by its own timeout at most, and each flush by `queue_timeout`.
  def test_close_waits_for_a_full_queue_no_longer_than_its_timeout_and_queue_timeout
    waits = [0.5, 60, nil].map do |timeout|
      native = Fakes::Native.new
      producer = Pelton::Producer.new(Pelton::Config.new, bus: @bus, native: native.to_module)
      producer.buffer(topic: "a", payload: "1")
      producer.close(timeout: timeout)
      native.producers.first.calls.assoc(:many).last
    end
    assert_operator waits.first, :<=, 0.5
    assert_equal [Pelton::Config.new.queue_timeout] * 2, waits.drop(1)
  end

  def test_close_reports_buffered_messages_that_it_could_not_send
    errors = []
    @bus.subscribe("error.occurred") { |event| errors << event.payload.values_at(:error, :source, :client) }
    closed = []
    @bus.subscribe("producer.closed") { |event| closed << event[:undelivered] }
    error = Pelton::QueueFullError.new("a", 1, :delivery)
    fail_after(1, error)
    fill("1", "2", "3")
    assert_equal 2, @producer.close(timeout: 1)
    assert_equal [[error, "producer.buffer", @producer.name]], errors
    assert_equal [2], closed
  end

  # Elsewhere a message buffered by one thread during another thread's flush was lost.
  def test_many_threads_buffer_and_flush
    flushing = Pelton::Threads.start("flush") { 300.times { @producer.flush_buffer_async } }
    writers = Array.new(4) do |writer|
      Pelton::Threads.start("write") { 500.times { |number| fill("#{writer}-#{number}") } }
    end
    Pelton::Threads.join([flushing, *writers])
    @producer.flush_buffer_async
    assert_equal 2_000, payloads.uniq.size
    assert_equal 2_000, payloads.size
    payloads.group_by { |payload| payload[0] }.each_value do |own|
      assert_equal own.sort_by { |payload| payload[/\d+\z/].to_i }, own
    end
  end

  # Where `take` returns, Ruby looks for interrupts.
  def test_an_interrupt_right_after_the_buffer_was_emptied_loses_nothing
    fill("1", "2")
    stop = Class.new(StandardError)
    interrupt = TracePoint.new(:return) { |trace| Thread.current.raise(stop) if trace.method_id == :take }
    assert_raises(stop) { interrupt.enable { @producer.flush_buffer_async } }
    assert_equal 2, @producer.buffered
    @producer.flush_buffer_async
    assert_equal %w[1 2], payloads
  end

  # A flush that waits in librdkafka's queue until `gate` says something, on a thread of its own.
  def flush_at(gate, *payloads)
    @producer.produce_async(topic: "a", payload: "first")
    fill(*payloads)
    fake.on_send = lambda do |rows, delivery|
      gate.pop
      yield(rows, delivery) if block_given?
    end
    thread = Pelton::Threads.start("flush") { @producer.flush_buffer_async }
    eventually { gate.num_waiting == 1 }
    thread
  end

  def test_a_close_waits_for_the_flush_of_another_thread
    gate = Thread::Queue.new
    flushing = flush_at(gate, "1", "2")
    lost = nil
    closing = Pelton::Threads.start("close") { lost = @producer.close(timeout: 60) }
    eventually { closing.status == "sleep" }
    assert_equal [:closing, []], [fake.connected? ? :closing : :closed, payloads - %w[first]]
    gate << true
    Pelton::Threads.join([flushing, closing])
    assert_equal [0, %w[first 1 2]], [lost, payloads]
  end

  def test_close_counts_messages_that_another_threads_flush_could_not_send_in_time
    closed = []
    @bus.subscribe("producer.closed") { |event| closed << event[:undelivered] }
    gate = Thread::Queue.new
    flushing = flush_at(gate, "1", "2", "3") do |rows, delivery|
      late = Pelton::DeliveryError.new(-197, :_DESTROY, "closed")
      delivery.reports = rows.each_index.map { |index| ["a", nil, nil, (late if index.positive?)] }
    end
    fake.define_singleton_method(:close) { |timeout| super(timeout).tap { gate << true } }
    assert_equal 2, @producer.close(timeout: 0.05)
    Pelton::Threads.join([flushing])
    assert_equal [[2], 0, 2], [closed, @producer.buffered, @producer.close],
                 "what close returned, buffered, a second close"
  end

  def test_close_with_an_invalid_timeout_raises_and_closes_nothing
    fill("1")
    [Float::NAN, "5", Complex(1, 2), :a, -1].each do |timeout|
      error = assert_raises(Pelton::ConfigError) { @producer.close(timeout: timeout) }
      assert_equal "timeout", error.key
    end
    fill("2")
    assert_equal [0, %w[1 2]], [@producer.close, payloads]
  end

  def test_buffered_message_does_not_change_with_the_callers_hash
    payload = +"paid"
    headers = { "a" => [+"1"] }
    @producer.buffer(topic: "a", payload: payload, headers: headers)
    payload << "!"
    headers["a"].first << "2"
    headers["b"] = "3"
    @producer.flush_buffer_sync
    assert_equal [["a", "paid", nil, nil, nil, { "a" => ["1"] }]], fake.messages
  end

  def test_a_forgotten_payload_is_no_tombstone
    assert_raises(ArgumentError) { @producer.buffer(topic: "a") }
    error = assert_raises(Pelton::InvalidMessageError) { @producer.buffer_many([{ topic: "a" }]) }
    assert_equal "message", error.key
    @producer.buffer(topic: "a", payload: nil)
    assert_equal 1, @producer.buffered
  end

  def test_garbage_collected_producer_reports_its_buffered_messages
    seen = Thread::Queue.new
    @bus.subscribe("producer.unclosed") { |event| seen << event[:undelivered] }
    fill("1", "2") # and nothing was ever sent
    @native.events << [:unclosed, @producer.name, 3]
    assert_equal 5, seen.pop
  end
end
