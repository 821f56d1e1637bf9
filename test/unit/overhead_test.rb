# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/reports/process_state"
require "support/coordinator_kit"
require "support/fake_feed"
require "support/fakes"

# What the way of a batch through the framework costs, counted: bench/overhead.rb measures the time.
class OverheadTest < Minitest::Test
  BATCHES = 2_000
  WARM = 1_000
  # There were 23 when this was written; whoever adds some should know.
  OBJECTS = 30

  def setup
    @app = Pelton::App.new(native: FakeFeed.of(partitions: 2, batches: BATCHES / 2, size: 100))
    @app.configure { |config| config.group_id = "overhead" }
  end

  def teardown = @app.close(timeout: 10)

  # (A batch of the feed raises when it is asked for a message.)
  def test_an_untouched_batch_makes_few_objects_and_no_message
    readings = {}
    count = 0
    messages = 0
    done = Thread::Queue.new
    lock = Mutex.new
    consumer = consumer_of do |batch|
      lock.synchronize do
        messages += batch.size
        readings[count] = GC.stat(:total_allocated_objects) if [WARM, BATCHES].include?(count += 1)
        done << true if count == BATCHES
      end
    end
    @app.subscribe("error.occurred") { |event| done << event[:error] }
    @app.routes { topic "orders", to: consumer }
    @app.start
    assert_equal true, done.pop
    assert_equal BATCHES * 100, messages
    assert_operator (readings[BATCHES] - readings[WARM]).fdiv(BATCHES - WARM), :<=, OBJECTS
  end

  private

  def consumer_of(&block) = Class.new(Pelton::Consumer) { define_method(:consume) { block.call(messages) } }
end

# How many of the framework's own methods are called. The number does not depend on how busy the machine is, and is the
# same on Ruby 3.1 to 4.0. If you add a call for each batch or message, measure what it costs with bench/overhead.rb.
class OverheadCallsTest < Minitest::Test
  include CoordinatorKit

  LIBRARY = File.expand_path("../../lib/pelton/", __dir__)
  SIZE = 100
  BATCHES = 10
  # There were 133, 22.5 and 29.4 when this was written.
  BATCH = 140
  MESSAGE = 24
  KEYED = 31
  # More, while metrics count it. There were 6.
  COUNTED = 7
  # Of a message with neither middleware nor label nor partition key. There were 1 and 4.
  ASYNC = 1
  SYNC = 4

  class Whole < Pelton::Consumer
    def consume = nil
  end

  class Single < Pelton::Consumer
    def process(_message) = nil
  end

  def setup
    super
    @bus = Pelton::Notifications.new # nobody listens
  end

  def test_a_plain_batch_takes_few_calls
    assert_operator calls(Whole), :<=, BATCH
  end

  def test_a_message_that_is_processed_by_itself_takes_few_calls
    assert_operator calls(Single) / SIZE, :<=, MESSAGE
  end

  def test_a_message_whose_order_is_that_of_its_key_takes_few_calls
    assert_operator calls(Whole, concurrency: 4, by: ->(message) { message.offset % 25 }) / SIZE, :<=, KEYED
  end

  def test_a_batch_that_metrics_count_takes_few_calls_more
    plain = calls(Whole)
    counts = Pelton::Native::CallCounts.new([1.0], [1.0])
    @bus.add_counter(Struct.new(:counts) { def calls(_facts) = counts }.new(counts))
    assert_operator calls(Whole) - plain, :<=, COUNTED
    assert_equal 2 * BATCHES * SIZE, counts.take[:messages]
  end

  def test_a_plain_produced_message_takes_few_calls
    producer = Pelton::Producer.new(Pelton::Config.new, native: Fakes::Native.new.to_module)
    message = { topic: "orders", payload: "x", key: "7", headers: { "a" => "b" } }
    producer.produce_sync(**message) # opens the client
    assert_equal ASYNC, count { producer.produce_async(**message) }
    assert_equal SYNC, count { producer.produce_sync(**message) }
  ensure
    producer&.close
  end

  def test_process_reports_add_no_call_to_a_batch
    plain = calls(Whole)
    state = Pelton::Reports::ProcessState.new(Pelton::Config.new, nil, [], nil, bus: @bus, sent: -> { 0 })
    assert_equal plain, calls(Whole)
  ensure
    state&.close
  end

  private

  # Of one batch, on the average.
  def calls(consumer, **settings)
    topic = Pelton::Routing::Topic.new("orders", consumer, { max_messages: SIZE, backoff: 1..1 }.merge(settings))
    coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    batches = Array.new(2 * BATCHES) { |number| batch(*(number * SIZE...(number + 1) * SIZE)) }
    batches.shift(BATCHES).each { |batch| consume(coordinator, batch) }
    count { batches.each { |batch| consume(coordinator, batch) } }.fdiv(BATCHES)
  end

  # As the listener and a worker do.
  def consume(coordinator, batch)
    coordinator.receive(batch)
    Thread.handle_interrupt(Object => :never) do
      until @jobs.size.zero?
        job = @jobs.pop
        job.call
        job.clear if @jobs.finished(job)
      end
    end
    assert_equal batch.last_offset + 1, @ownership.marks.last.first
  end

  def count(&block)
    thread = Thread.current
    calls = 0
    trace = TracePoint.new(:call) do |point|
      calls += 1 if point.path.start_with?(LIBRARY) && Thread.current.equal?(thread)
    end
    trace.enable(&block)
    calls
  end
end
