# frozen_string_literal: true

require "test_helper"
require "support/native_kit"
require "support/small_scheduler"
require "io/wait"
begin
  require "async"
rescue LoadError
  nil # the small scheduler stands in for it
end

# A wait for Pelton in a fiber under a scheduler blocks that fiber only.
module FiberWaits
  include NativeKit

  def test_fibers_wait_side_by_side
    topic = new_topic
    writer = producer("linger.ms" => "20")
    NativeKit.cluster.round_trip_time(1, 500)
    offsets = []
    taken = seconds do
      fibers(50) { offsets << writer.produce(topic, "x", nil, 0, nil, nil, 60).wait(timeout: 60).offset }
    end
    assert_equal (0...50).to_a, offsets.sort
    assert_operator taken, :<, 20, "one after the other they take 25 s"
  ensure
    NativeKit.cluster.round_trip_time(1, 0)
  end

  def test_fibers_wait_for_many_at_once
    topic = new_topic
    writer = producer("linger.ms" => "20")
    steps = []
    fibers do
      run do
        deliveries = Array.new(20) { |number| writer.produce(topic, number.to_s, nil, 0, nil, nil, 1) }
        steps << :waiting
        steps << Pelton::Delivery.wait_all(deliveries, timeout: 60).map(&:offset)
      end
      run { steps << :other }
    end
    assert_equal [:waiting, :other, (0...20).to_a], steps
  end

  def test_others_run_while_one_waits
    lonely = lonely_producer
    steps = []
    fibers do
      run do
        lonely.produce("t", "x", nil, -1, nil, nil, 1).wait(timeout: 60)
      rescue Pelton::DeliveryError => e
        steps << e.name
      end
      run do
        3.times { |i| (steps << i) && pause(0.05) }
        lonely.purge
      end
    end
    assert_equal [0, 1, 2, :_PURGE_QUEUE], steps
  end

  def test_deadlines_of_every_wait_in_a_fiber
    lonely = lonely_producer("queue.buffering.max.messages" => "1")
    reader = lonely_subscription
    quiet = subscription
    delivery = lonely.produce("t", "x", nil, -1, nil, nil, 1)
    results = {}
    waits = {
      wait: -> { delivery.wait(timeout: 0.2) }, room: -> { lonely.produce("t", "x", nil, -1, nil, nil, 0.2) },
      flush: -> { lonely.flush(0.2) }, poll: -> { quiet.poll(0.2) }, commit: -> { reader.committed([["t", 0]], 0.2) },
      events: -> { 3.times.map { next_events(0.05) } && nil },
      metadata: -> { Native.metadata(NOWHERE, nil, 0.2) }
    }
    taken = seconds do
      fibers do
        waits.each { |name, wait| run { results[name] = outcome(&wait) } }
      end
    end
    assert_equal({ wait: Pelton::WaitTimeout, room: Pelton::QueueFullError, flush: false, poll: nil,
                   commit: Pelton::KafkaError, events: nil, metadata: Pelton::KafkaError }, results)
    assert_operator taken, :<, 30
  end

  def test_a_poll_in_a_fiber_is_woken_by_messages_and_by_wake
    topic = topic_of("1", "2")
    reader = subscription
    reader.assign([[topic, 0, 0]])
    seen = []
    fibers do
      run do
        kind, batch = reader.poll(60)
        seen << kind << batch.size
        seen << reader.poll(60)
      end
      run { pause(0.05) && (reader.wake if seen.any?) until seen.size > 2 }
    end
    assert_equal [:batch, 2, nil], seen
  end

  def test_blocking_calls_let_other_fibers_run
    topic = topic_of("1")
    reader = subscription
    writer = producer
    reader.subscribe([topic])
    reader.poll(10) until reader.assignment.any?
    NativeKit.cluster.round_trip_time(1, 200) # an answer that is there before a call could park lets nobody run
    steps = []
    fibers do
      run do
        reader.mark(topic, 0, 1)
        steps << reader.commit(60) << reader.committed([[topic, 0]], 60) << writer.close(60) << reader.close(60)
      end
      run { steps << :other }
    end
    assert_operator steps.index(:other), :<, 4
    assert_equal [true, [1], 0, true], steps - [:other]
  ensure
    NativeKit.cluster.round_trip_time(1, 0)
  end

  def test_a_fiber_in_another_wait_is_not_woken_by_an_older_one
    topic = new_topic
    writer = producer("linger.ms" => "0")
    short = []
    fibers(20) do
      20.times do
        writer.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 60)
        writer.flush(60)
        taken = seconds { pause(0.004) }
        short << taken if taken < 0.003
      end
    end
    assert_empty short
  end

  def test_one_thread_unblocks_all_fibers
    topic = new_topic
    writer = producer
    fibers(5) { writer.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 60) }
    fibers(5) { writer.produce(topic, "x", nil, 0, nil, nil, 1).wait(timeout: 60) }
    assert_equal 1, Thread.list.count { |thread| thread.name == "pelton.fibers" }
    assert_empty Pelton::Fibers.send(:const_get, :WAITING), "nobody waits any more"
  end

  # Nobody resumes their fibers, which would be kept with all that they refer to.
  def test_fibers_of_threads_that_were_killed_are_forgotten
    reader = lonely_subscription
    waiting = Pelton::Fibers.send(:const_get, :WAITING)
    30.times do
      began = Thread::Queue.new
      thread = Thread.new do
        Fiber.set_scheduler(SmallScheduler.new)
        20.times { Fiber.schedule { began.push(1) && reader.poll(60) } }
      end
      20.times { began.pop }
      thread.kill.join
    end
    assert_operator waiting.size, :<, 300
  ensure
    waiting&.clear
  end

  # However many wait, and whoever they are: each has the outcome.
  def test_threads_and_fibers_wait_for_the_same_message
    NativeKit.cluster.round_trip_time(1, 500)
    writer = producer
    many = [{ topic: new_topic, payload: "x", partition: 0 }] * 3
    [writer.produce(new_topic, "x", nil, 0, nil, nil, 1), writer.produce_many(many, 1)].each do |delivery|
      seen = Thread::Queue.new
      threads = Array.new(30) { Thread.new { seen << delivery.wait(timeout: 120) } }
      fibers(30) { seen << delivery.wait(timeout: 120) }
      threads.each { |thread| assert thread.join(120), "a thread waits on" }
      assert_equal 60, seen.size
      60.times { assert_same delivery, seen.pop }
    end
    refused = lonely_producer("message.timeout.ms" => "500").produce("t", "x", nil, 0, nil, nil, 1)
    errors = Thread::Queue.new
    wait = proc { errors << assert_raises(Pelton::DeliveryError) { refused.wait(timeout: 120) }.name }
    threads = Array.new(10) { Thread.new(&wait) }
    fibers(10, &wait)
    threads.each { |thread| assert thread.join(120), "a thread waits on" }
    assert_equal [:_MSG_TIMED_OUT] * 20, Array.new(errors.size) { errors.pop }
  ensure
    NativeKit.cluster.round_trip_time(1, 0)
  end

  private

  # Lets other fibers run for so long.
  def pause(seconds)
    reader, writer = IO.pipe
    reader.wait_readable(seconds)
    true
  ensure
    [reader, writer].each(&:close)
  end

  def outcome
    yield
  rescue Pelton::Error => e
    e.class
  end
end

class NativeSmallSchedulerTest < Minitest::Test
  include FiberWaits

  def fibers(count = nil, &block)
    SmallScheduler.run { count ? count.times { run(&block) } : instance_exec(&block) }
  end

  def run(*arguments, &block) = block ? Fiber.schedule(&block) : super
end

class NativeAsyncTest < Minitest::Test
  include FiberWaits

  def setup
    super
    skip "no gem async for Ruby #{RUBY_VERSION}" unless defined?(Async)
  end

  def fibers(count = nil, &block)
    Async { count ? count.times { Async(&block) } : instance_exec(&block) }.wait
  end

  def run(*arguments, &block) = block ? Async(&block) : super

  # async gives Timeout.timeout to the fiber.
  def test_timeout_ends_a_wait
    delivery = lonely_producer.produce("t", "x", nil, -1, nil, nil, 1)
    taken = seconds do
      Async do |task|
        assert_raises(Async::TimeoutError) { task.with_timeout(0.1) { delivery.wait } }
        nil # a task's value that is an error is raised
      end.wait
    end
    assert_operator taken, :<, 60
  end

  def test_a_stopped_task_does_not_wait_on
    delivery = lonely_producer.produce("t", "x", nil, -1, nil, nil, 1)
    taken = seconds do
      Async do |task|
        waiting = task.async { delivery.wait }
        pause(0.05)
        waiting.stop
      end.wait
    end
    assert_operator taken, :<, 60
  end
end
