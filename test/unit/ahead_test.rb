# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/decoding/parallel/engines"
require "pelton/consuming/jobs_queue"
require "pelton/consuming/listener"
require "pelton/consuming/worker"
require "pelton/routing/routing"
require "pelton/runtime/resource_monitor"

# What begins with a batch when it arrives.
class AheadTest < Minitest::Test
  # Says that its partition is ready.
  class Orders < Pelton::Consumer
    ASSIGNED = Thread::Queue.new
    def assigned = ASSIGNED << partition
    def consume = nil
  end

  # Keeps what it is told, and which jobs there were at that time.
  Witness = Struct.new(:jobs, :told) do
    def dispatch(batch) = told << [batch.topic_partition, batch.size, jobs.counts]
    def cancel(*place) = told << place
  end

  # A Decoding that notes its batches.
  class Noted < Pelton::Parallel::Decoding
    def told = @told ||= []
    def dispatch(batch) = told << batch.topic
    def cancel(*place) = told << place
  end

  def setup = Orders::ASSIGNED.clear

  def teardown
    @listener&.stop(Pelton::Clock.now)
    assert @listener.thread.join(60) if @listener
  end

  # Decoding ahead starts when messages arrive, before their job enters the workers' queue.
  def test_decoding_ahead_sees_batches_before_their_jobs_and_revocations
    native = Fakes::Native.new
    witness = Witness.new(Pelton::Consuming::JobsQueue.new, Thread::Queue.new)
    start(native, witness)
    subscription = native.subscriptions.last
    eventually(20, "the subscription") { subscription.topics }
    worker = Pelton::Consuming::Worker.new("pelton.worker#1", witness.jobs, Pelton::Notifications.new).start
    subscription.assign_now(["orders", 0])
    assert_equal 0, Orders::ASSIGNED.pop
    witness.jobs.remove_workers(1)
    assert worker.thread.join(60), "from here on jobs wait"
    native.kafka.append("orders", 0, "{}")
    subscription.produced
    assert_equal [["orders", 0], 1, { running: 0, waiting: 0, aside: 0 }], witness.told.pop
    eventually(20, "the job") { witness.jobs.counts == { running: 0, waiting: 1, aside: 0 } }
    @listener.stop(Pelton::Clock.now)
    assert_equal ["orders", 0], witness.told.pop
  end

  def test_topics_without_parallel_are_not_decoded_ahead
    noted = Noted.new(nil, nil, topic: "*", bus: nil, timeout: 1)
    ahead = Pelton::Parallel::EagerDecoding.new({ "orders" => noted, "logs" => ->(_) {}, "none" => nil, "*" => noted })
    batch = Struct.new(:topic)
    %w[orders logs none other].each { |topic| ahead.dispatch(batch.new(topic)) && ahead.cancel(topic, 0) }
    ahead.cancel("logs", 0)
    assert_equal ["orders", ["orders", 0], "other", ["other", 0]], noted.told
    refute_predicate ahead, :none?
    assert_predicate Pelton::Parallel::EagerDecoding.new({ "logs" => ->(_) {}, "none" => nil }), :none?
    assert_predicate Pelton::Parallel::EagerDecoding.new({}), :none?
  end

  # Schemas first: payloads are made of what is decoded.
  def test_schemas_are_looked_up_first
    order = []
    look_ups = Object.new
    look_ups.define_singleton_method(:dispatch) { |_| order << :schemas }
    decoding = Noted.new(nil, nil, topic: "*", bus: nil, timeout: 1)
    decoding.define_singleton_method(:dispatch) { |_| order << :payloads }
    Pelton::Parallel::EagerDecoding.new({ "orders" => decoding }, look_ups).dispatch(Struct.new(:topic).new("orders"))
    assert_equal %i[schemas payloads], order
  end

  # A batch was lost for good when the thread of the look-ups could not start.
  def test_decoding_ahead_that_fails_to_start_loses_no_batch
    native = Fakes::Native.new
    ahead = Witness.new(Pelton::Consuming::JobsQueue.new)
    ahead.define_singleton_method(:dispatch) { |_| raise ThreadError, "can't create Thread" }
    ahead.define_singleton_method(:cancel) { |*| nil }
    start(native, ahead)
    worker = Pelton::Consuming::Worker.new("pelton.worker#1", ahead.jobs, Pelton::Notifications.new).start
    subscription = read(native)
    eventually(20, "the mark") { subscription.marks.map { |_, offset, _| offset } == [1] }
    assert_equal ThreadError, @told.pop.class
    ahead.jobs.remove_workers(1)
    assert worker.thread.join(60)
  end

  # Its partition must not go on past it: the group begins anew, or the server stops.
  def test_a_batch_that_its_coordinator_does_not_get_is_the_listeners_end
    native = Fakes::Native.new
    failures = Thread::Queue.new
    jobs = Pelton::Consuming::JobsQueue.new
    jobs.define_singleton_method(:push) { |*| raise ThreadError, "no coordinator" }
    start(native, nil, jobs: jobs, on_failure: ->(*facts) { failures << facts })
    subscription = read(native)
    assert @listener.thread.join(20 * Guard::PATIENCE), "its end"
    assert_equal ["no coordinator", @listener], failures.pop.then { |error, who| [error.message, who] }
    assert_empty subscription.marks
    assert_equal [ThreadError] * 2, Array.new(2) { @told.pop.class }, "of the assignment, and of the batch"
  end

  private

  # A message comes; the subscription.
  def read(native)
    subscription = native.subscriptions.last
    eventually(20, "the subscription") { subscription.topics }
    native.kafka.append("orders", 0, "{}")
    subscription.assign_now(["orders", 0])
    subscription.produced
    subscription
  end

  def start(native, ahead, jobs: ahead.jobs, on_failure: ->(*) {})
    config = Pelton::Config.new.tap { |settings| settings.group_id = "g" }
    routing = Pelton::Routing.new
    routing.draw { topic "orders", to: Orders }
    bus = Pelton::Notifications.new
    @told = Thread::Queue.new
    bus.subscribe("error.occurred") { |event| @told << event[:error] }
    subscription = Pelton::Subscription.new(config, group_id: "g", native: native.to_module)
    monitor = Pelton::ResourceMonitor.new(bus, 30) {}
    @listener = Pelton::Consuming::Listener.new(routing.groups(config).first, config,
                                                subscription: subscription, jobs: jobs, bus: bus, monitor: monitor,
                                                ahead: ahead, on_failure: on_failure)
    @listener.start
  end
end
