# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "support/server_kit"

# Marks, revocation and the end.
class CoordinatorEndTest < Minitest::Test
  include CoordinatorKit

  def test_a_topic_whose_partitions_ended_is_forgotten
    coordinator.receive(batch(0))
    lines = @jobs.instance_variable_get(:@turns).instance_variable_get(:@lines)
    run = -> { @jobs.finished(@jobs.pop.tap(&:call)) until idle? }
    run.call
    assert_equal 1, lines.size
    coordinator.end(:revoked)
    run.call
    assert_empty lines
  end

  def test_manual_offsets
    coordinator(manual_offsets: true).receive(batch(0, 1))
    coordinator.receive(batch(2, 3))
    work
    script { |consumer| consumer.mark_as_consumed(consumer.messages.first) if consumer.messages.first.offset == 2 }
    2.times { work }
    assert_equal [[3, 7]], @ownership.marks
    assert_equal [:assigned, [0, 1], [2, 3]], @log
  end

  def test_marking
    coordinator.receive(batch(5, 6, 7))
    work
    script do |consumer|
      all = consumer.messages
      assert consumer.mark_as_consumed(all[1])
      assert consumer.mark_as_consumed(all[0]), "an older one is done too"
      assert consumer.mark_as_consumed!(all[1])
      @ownership.owned = false
      refute consumer.mark_as_consumed(all[2])
      refute consumer.mark_as_consumed!(all[2])
      @ownership.owned = true
      assert_raises(Pelton::InvalidMessageError) { consumer.mark_as_consumed(Fakes::Message.new("other", 0, 1, "x")) }
    end
    work
    assert_equal [[7, 7], [8, 7]], @ownership.marks
    assert_equal 1, @ownership.commits
    assert_empty named("error.occurred"), "no assertion failed in there"
  end

  def test_a_mark_that_raises_is_reported_by_the_owner
    coordinator.receive(batch(0))
    work
    @ownership.error = Pelton::KafkaError.new(-172, :_STATE)
    work
    assert_equal [[:failed, @ownership.error, coordinator.facts]], @owner.named(:failed)
  end

  def test_revocation_waits_for_the_running_job
    coordinator.receive(first = batch(0, 1))
    coordinator.receive(second = batch(2))
    work
    script do |consumer|
      refute_predicate consumer, :revoked?
      coordinator.end(:revoked)
      assert_equal 2, consumer.messages.size
      assert consumer.mark_as_consumed(consumer.messages.first), "still ours"
    end
    work
    assert_equal [[1, 7], [2, 7]], @ownership.marks
    assert_equal [1, 1], [first.releases, second.releases]
    assert_empty @owner.named(:ended)
    work
    assert_equal [:assigned, [0, 1], :revoked], @log
    assert_equal 1, @owner.named(:ended).size
    assert_empty named("error.occurred")
  end

  # `break if revoked?` lost messages: the return marked them all.
  def test_a_return_after_revoked_answered_true_marks_nothing
    coordinator.receive(batch(0, 1))
    work
    script do |consumer|
      coordinator.end(:revoked)
      consumer.mark_as_consumed(consumer.messages.first)
      assert_predicate consumer, :revoked?
    end
    work
    assert_equal [[1, 7]], @ownership.marks
    work
    assert_equal [:assigned, [0, 1], :revoked], @log
    assert_equal 1, @owner.named(:ended).size
  end

  # Marks and commits return false once the partition is lost.
  def test_a_job_that_outlives_the_revocation_marks_nothing
    coordinator.receive(batch(0, 1))
    work
    script do |consumer|
      coordinator.end(:revoked)
      coordinator.abandon
      refute consumer.mark_as_consumed(consumer.messages.first)
    end
    work
    assert_empty @ownership.marks
    assert_empty named("error.occurred")
    work
    assert_equal :revoked, @log.last
  end

  def test_an_ended_consumer_marks_nothing
    %i[revoked shutdown].each do |reason|
      @coordinator = nil
      coordinator(manual_offsets: true).receive(batch(0, 1))
      work
      first = last = nil
      script { |consumer| first, last = consumer.messages.to_a }
      work
      consumer = nil
      Consumer.hooks[reason] = ->(instance) { (consumer = instance).mark_as_consumed(first) }
      coordinator.end(reason)
      work
      refute consumer.mark_as_consumed(last), "the partition may be another's"
      refute consumer.mark_as_consumed!(last)
    end
    assert_equal [[1, 7], [1, 7]], @ownership.marks
    assert_equal 0, @ownership.commits
  end

  def test_queued_jobs_of_a_revoked_partition_are_removed
    coordinator.receive(received = batch(0))
    work
    coordinator.end(:revoked)
    work
    assert_equal %i[assigned revoked], @log
    assert_equal 1, received.releases
  end

  def test_a_consumer_that_was_not_born_has_no_end
    coordinator.end(:revoked)
    assert_predicate self, :idle?
    assert_equal [[:ended, coordinator]], @owner.calls
    assert_empty @log
  end

  def test_no_retry_once_the_end_has_begun
    coordinator.receive(batch(0))
    work
    script do
      coordinator.end(:shutdown)
      raise "failed"
    end
    work
    work
    assert_equal [:assigned, [0], :shutdown], @log
    assert_empty @owner.named(:retry_at)
    assert_empty named("consumer.retrying")
  end

  def test_the_end_during_a_back_off
    coordinator.receive(received = batch(0))
    work
    script { raise "failed" }
    work
    coordinator.end(:revoked)
    work
    wake
    assert_predicate self, :idle?
    assert_equal [:assigned, [0], :revoked], @log
    assert_equal 1, received.releases
  end

  class Plain < Pelton::Consumer
    def consume = nil
  end

  # A job for nothing waited for workers that were busy with other partitions, and so did the rebalance.
  def test_an_end_without_anything_to_do_needs_no_worker
    gate = Thread::Queue.new
    busy = Class.new(Plain) { define_method(:assigned) { background("busy") { gate.pop } } }
    noting = Class.new(Plain) { def shutdown = nil }
    around = Class.new(Plain) { def around(_) = yield }
    alone = Class.new(Plain) { def assigned = define_singleton_method(:revoked) { nil } }
    { Plain => %i[revoked shutdown], noting => [:revoked], alone => [:shutdown], around => [], busy => [] }
      .each do |consumer, at_once|
        %i[revoked shutdown].each do |reason|
          topic = Pelton::Routing::Topic.new("orders", consumer, { max_messages: 100 })
          @coordinator = Pelton::Consuming::Coordinator.new(
            topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership,
                      jobs: @jobs, bus: @bus, owner: @owner
          ).start
          work
          coordinator.end(reason)
          assert_equal at_once.include?(reason), idle?, "#{reason} #{at_once}"
          gate << :end
          work until idle?
          assert_equal [:ended, coordinator], @owner.calls.last
          assert_empty coordinator.due
        end
      end
  end

  def test_the_first_end_counts
    coordinator
    work
    coordinator.end(:shutdown)
    coordinator.end(:revoked)
    work
    assert_equal %i[assigned shutdown], @log
    coordinator.end(:revoked)
    assert_predicate self, :idle?
    coordinator.receive(late = batch(9))
    assert_equal 1, late.releases
  end

  def test_held_until_its_predecessor_has_ended
    coordinator(held: true).receive(batch(0))
    assert_predicate self, :idle?
    coordinator.unhold
    2.times { work }
    assert_equal [:assigned, [0]], @log
  end

  def test_held_and_revoked
    coordinator(held: true).end(:revoked)
    assert_equal 1, @owner.named(:ended).size
    coordinator.unhold
    assert_predicate self, :idle?
  end

  def test_a_consumer_that_cannot_be_made_is_tried_again_with_its_work
    coordinator.receive(batch(0))
    calls = 0
    Consumer.hooks[:new] = -> { raise "no database" if (calls += 1) < 3 }
    2.times do
      work
      assert_predicate self, :idle?, "nothing is consumed before its consumer is there"
      assert_equal :retry_at, @owner.calls.last.first
      wake
    end
    2.times { work }
    assert_equal [:assigned, [0]], @log
    assert_equal %w[consumer.assigned] * 2, named("error.occurred").map { |event| event[:source] }
  end

  # --- exactly one end ---

  # Each job on a thread of its own: what kills it kills nobody else, and its stack is gone.
  def work_on_threads
    Pelton::Threads.start("test") { work }.join until idle?
  end

  def test_a_consumer_that_was_never_made_has_no_end
    Consumer.hooks[:new] = -> { raise "no database" }
    coordinator
    work
    coordinator.end(:revoked)
    assert_predicate self, :idle?
    wake
    assert_predicate self, :idle?
    assert_equal 1, @owner.named(:ended).size
    assert_empty @log
  end

  def test_an_assigned_that_raises_has_its_end
    Consumer.hooks[:assigned] = ->(_) { raise "hook" }
    coordinator.receive(batch(0))
    work
    coordinator.end(:revoked)
    work
    assert_equal %i[assigned revoked], @log
    assert_equal 1, @owner.named(:ended).size
  end

  def test_the_end_while_assigned_runs
    Consumer.hooks[:assigned] = ->(_) { coordinator.end(:revoked) }
    coordinator.receive(received = batch(0))
    work
    assert_equal [:revoked], coordinator.due
    work
    assert_equal %i[assigned revoked], @log
    assert_empty coordinator.due
    assert_equal 1, received.releases
  end

  # A constructor, `assigned`, consume and the end itself: each killed in the middle.
  def test_a_kill_in_the_middle_of_anything
    { new: [:assigned, :revoked], assigned: [:assigned, :revoked], consume: [:assigned, [0], [0], :revoked],
      revoked: [:assigned, :revoked] }.each do |place, expected|
      setup
      @coordinator = nil
      kills = 0
      once = ->(*) { Thread.current.kill if (kills += 1) == 1 }
      place == :consume ? script(&once) : Consumer.hooks[place] = once
      coordinator.receive(batch(0)) if place == :consume
      coordinator
      work_on_threads
      wake
      work_on_threads
      coordinator.end(:revoked)
      work_on_threads
      assert_equal expected, @log, place
      assert_equal 1, @owner.named(:ended).size, place
      assert_equal 1, named("error.occurred").size, place
    end
  end

  def test_afterwards_nothing_refers_to_the_consumer
    traces = %i[revoked shutdown].map do |reason|
      @coordinator = nil
      trace = nil
      Consumer.hooks[:assigned] = ->(consumer) { trace = ServerKit::Trace.new(consumer) }
      coordinator.receive(batch(0))
      work_on_threads
      assert_predicate trace, :alive?
      coordinator.end(reason)
      work_on_threads
      [trace, @coordinator]
    end
    Consumer.hooks.clear
    eventually do
      GC.start
      traces.none? { |trace, _| trace.alive? }
    end
  end

  def test_hooks_that_raise_are_reported_only
    coordinator
    Consumer.hooks[:shutdown] = ->(_) { raise NotImplementedError, "hook" }
    work
    coordinator.end(:shutdown)
    work
    assert_equal "consumer.shutdown", named("error.occurred").last[:source]
    assert_equal 1, @owner.named(:ended).size
  end

  def test_messages_are_there_during_consume_only
    seen = []
    Consumer.hooks[:revoked] = lambda do |instance|
      seen << instance.messages.size << instance.topic << instance.partition << instance.producer
    end
    consumer = nil
    script { |instance| consumer = instance }
    coordinator.receive(batch(0, 1))
    2.times { work }
    assert_empty consumer.messages
    assert_equal 0, consumer.attempt
    coordinator.end(:revoked)
    work
    assert_equal [0, "orders", 0, nil], seen
  end

  def test_loss
    assert_empty coordinator.unfinished_jobs.values
    work
    coordinator.receive(batch(0, 1, 2))
    assert_includes coordinator.unfinished_jobs.values.join, "waits for a worker"
    script do |consumer|
      consumer.mark_as_consumed(consumer.messages.first)
      assert_match(%r{orders/0: consume runs for 0\.\d s, 2 of 3 messages not finished},
                   coordinator.unfinished_jobs.values.join)
    end
    work
    assert_empty coordinator.unfinished_jobs.values
    assert_empty named("error.occurred")
  end

  def test_a_step_that_raises_loses_nothing
    step = Class.new { def settle(_) = raise("bug") }.new
    flow = Pelton::Consuming::Flow.new([step])
    topic = Pelton::Routing::Topic.new("orders", Consumer, { max_messages: 100 })
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                jobs: @jobs, bus: @bus, owner: @owner).start
    coordinator.receive(batch(0))
    2.times { work }
    assert_equal "flow", named("error.occurred").last[:source]
    assert_equal :retry_at, @owner.calls.last.first
    assert_empty @ownership.marks
  end

  def test_a_step_that_raises_before_the_job_loses_nothing
    broken = true
    step = Class.new { define_method(:ready) { |messages| broken ? raise("bug") : messages } }.new
    topic = Pelton::Routing::Topic.new("orders", Consumer, { max_messages: 100 })
    flow = Pelton::Consuming::Flow.new([step, Pelton::Consuming::Steps::Mark.for(topic, @bus)])
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                jobs: @jobs, bus: @bus, owner: @owner).start
    coordinator.receive(received = batch(0))
    2.times { work }
    assert_equal [:assigned], @log
    assert_equal 0, received.releases
    assert_includes named("error.occurred").map { |event| event[:error].message }, "bug"
    broken = false
    wake
    work
    assert_equal [:assigned, [0]], @log
    assert_equal [[1, 7]], @ownership.marks
  end
end
