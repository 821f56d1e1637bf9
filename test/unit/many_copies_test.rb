# frozen_string_literal: true

require_relative "../test_helper"
require "support/dead_letters_kit"

# More failing partitions at once than jobs may wait for Kafka: no copy holds a worker.
class ManyCopiesTest < Minitest::Test
  include DeadLettersKit
  include Pelton::Consuming

  FAILING = 150

  class Healthy < Pelton::Consumer
    def consume = CoordinatorKit::Consumer.hooks[:healthy].call(messages)
  end

  def teardown
    @producer.release
    @jobs.close
    eventually { @workers.all?(&:over?) }
    super
  end

  def topic(name, consumer, **settings) = Pelton::Routing::Topic.new(name, consumer, { max_messages: 9, **settings })

  def start(topic, partition)
    Coordinator.new(topic, partition, group: "g", flow: Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                                      bus: @bus, owner: @owner).start
  end

  def give(coordinator, *offsets)
    messages = offsets.map { |at| Fakes::Message.new(coordinator.topic_name, coordinator.partition, at, "x") }
    coordinator.receive(Fakes::Batch.new(messages))
  end

  # So many partitions, of whose first messages each fails, while Kafka takes no copy.
  def failing_partitions(workers: 1)
    (@workers = Workers.new(@jobs, @bus)).scale(workers)
    @producer.hold
    script { |consumer| raise IOError, "bad" if consumer.messages.first.offset.zero? }
    orders = topic("orders", Consumer, dead_letters: "dead", retries: 0, backoff: 0..0)
    @failing = Array.new(FAILING) { |partition| start(orders, partition).tap { |coordinator| give(coordinator, 0) } }
    eventually { @jobs.counts == { running: 0, waiting: 0, aside: FAILING } }
  end

  def alive = @workers.count { |worker| !worker.over? }

  def test_many_failing_partitions_leave_the_only_worker_to_a_healthy_topic
    failing_partitions
    seen = Thread::Queue.new
    Consumer.hooks[:healthy] = ->(messages) { seen << messages.map(&:offset) }
    healthy = start(topic("healthy", Healthy), 0)
    3.times do |offset|
      give(healthy, offset)
      assert_equal [offset], seen.pop
    end
    assert_operator alive, :<=, 102
    assert_empty dead
    @failing.each { |coordinator| give(coordinator, 1) }
    @producer.release
    eventually { @jobs.counts == { running: 0, waiting: 0, aside: 0 } && alive == 1 }
    origins = dead.map { |letter| Pelton::Origin.of(letter) }
    assert_equal (0...FAILING).to_a, origins.map(&:partition).sort, "one letter each"
    assert_equal FAILING, @log.count([1]), "each goes on behind its message"
    assert_equal FAILING, named("message.dead_lettered").size
    assert_equal FAILING, named("error.occurred").size
  end

  def test_a_partition_that_is_revoked_while_its_copy_waits_for_others_sends_none
    failing_partitions(workers: 3)
    @failing.each { |coordinator| coordinator.end(:revoked, 0.0) }
    eventually { @jobs.counts[:aside] == 100 }
    @producer.release
    eventually { @failing.all?(&:ended) }
    assert_equal 100, dead.size
    assert_equal FAILING, @log.count(:revoked)
    eventually { @jobs.counts == { running: 0, waiting: 0, aside: 0 } && alive == 3 }
  end

  # It failed while its partition was ending, when there was time yet.
  def test_a_partition_whose_time_is_over_does_not_wait_for_a_copy_that_waits_for_others
    failing_partitions(workers: 2)
    gate = Thread::Queue.new
    Consumer.hooks[:healthy] = lambda do |_|
      gate.pop
      raise IOError, "bad"
    end
    settings = { dead_letters: "dead", retries: 0, concurrency: 2 }
    give(keyed = start(topic("keyed", Healthy, **settings), 0), 0)
    eventually { gate.num_waiting == 1 }
    keyed.end(:revoked, Pelton::Clock.now + 1000)
    gate << 1
    eventually { @jobs.counts[:aside] == FAILING + 1 }
    refute keyed.ended
    keyed.end(:revoked, 0.0)
    eventually { keyed.ended }
    assert_equal FAILING, @jobs.counts[:aside]
    assert_empty dead
  end
end
