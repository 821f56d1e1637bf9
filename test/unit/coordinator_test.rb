# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# One coordinator, its jobs run by the test itself: what it does in which order, without threads.
class CoordinatorTest < Minitest::Test
  # The listener's role.
  class Owner
    attr_reader :calls, :producer

    def initialize = @calls = []
    %i[retry_at ended critical failed].each { |name| define_method(name) { |*facts| @calls << [name, *facts] } }
    def named(name) = @calls.select { |call| call.first == name }
  end

  # The subscription's role.
  class Ownership
    attr_reader :marks, :commits
    attr_accessor :owned, :error

    def initialize
      @marks = []
      @commits = 0
      @owned = true
    end

    def mark(_topic, _partition, offset, epoch)
      raise @error if @error

      @marks << [offset, epoch] if @owned
      @owned
    end

    def commit
      raise @error if @error

      @commits += 1
      true
    end
  end

  class Consumer < Pelton::Consumer
    class << self
      attr_accessor :script, :log
    end

    def assigned = log << :assigned
    def revoked = log << :revoked
    def shutdown = log << :shutdown

    def consume
      log << messages.map(&:offset)
      self.class.script&.call(self)
    end

    private

    def log = self.class.log
  end

  def setup
    @owner = Owner.new
    @ownership = Ownership.new
    @jobs = Pelton::Processing::JobsQueue.new
    @bus = Pelton::Notifications.new
    @events = []
    Pelton::Events::TABLE.each_key { |name| @bus.subscribe(name) { |event| @events << event } }
    Consumer.log = @log = []
    Consumer.script = nil
  end

  def coordinator(held: false, **settings)
    @coordinator ||= begin
      topic = Pelton::Routing::Topic.new("orders", Consumer, { batch: 100, backoff: 1..1 }.merge(settings))
      Pelton::Processing::Coordinator.new(topic, 0, group: "g", flow: Pelton::Processing::Flow.for(topic, @bus),
                                                    subscription: @ownership, jobs: @jobs, bus: @bus, owner: @owner,
                                                    held: held).start
    end
  end

  def batch(*offsets) = Fakes::Batch.new(offsets.map { |offset| Fakes::Message.new("orders", 0, offset, "x") })
  def script(&block) = Consumer.script = block
  def named(name) = @events.select { |event| event.name == name }

  # Runs the next job as a worker would.
  def work
    flunk "no job" if @jobs.size.zero?
    Thread.handle_interrupt(Object => :never) { @jobs.pop.call }
  end

  def idle? = @jobs.size.zero?

  def test_life
    coordinator
    work
    assert_equal [:assigned], @log
    assert_predicate self, :idle?
    first = batch(0, 1, 2)
    coordinator.receive(first)
    work
    assert_equal [[3, 7]], @ownership.marks
    assert_equal 1, first.releases
    coordinator.end(:shutdown)
    work
    assert_equal [:assigned, [0, 1, 2], :shutdown], @log
    assert_equal [[:ended, coordinator]], @owner.calls
    assert_predicate self, :idle?
  end

  def test_one_job_at_a_time_in_order
    coordinator.receive(batch(0))
    coordinator.receive(batch(1))
    assert_equal 1, @jobs.size
    work
    assert_equal 1, @jobs.size
    work
    work
    assert_equal [:assigned, [0], [1]], @log
  end

  def test_failure_waits_and_runs_the_rest_again
    coordinator.receive(all = batch(0, 1, 2))
    work
    script do |consumer|
      assert_equal consumer.attempt > 1, consumer.retrying?
      assert consumer.mark_as_consumed(consumer.messages.first)
      raise "failed"
    end
    work
    assert_predicate self, :idle?
    assert_equal 0, all.releases
    name, who, time = @owner.calls.last
    assert_equal [:retry_at, coordinator], [name, who]
    assert_in_delta Pelton::Clock.now + 0.9, time, 0.2
    retrying = named("consumer.retrying").first
    assert_equal [1, 1, "failed"], [retrying[:offset], retrying[:attempt], retrying[:error].message]
    assert_equal ["consumer.consume", "g", "orders", 0], named("error.occurred").first.payload.values_at(:source, :group, :topic, :partition)
    script { nil }
    coordinator.wake_up
    work
    assert_equal [:assigned, [0, 1, 2], [1, 2]], @log
    assert_equal [[1, 7], [3, 7]], @ownership.marks
    assert_equal 1, all.releases
  end

  def test_attempts_count_for_the_first_unfinished_message
    coordinator.receive(batch(0, 1))
    work
    attempts = []
    script do |consumer|
      attempts << consumer.attempt
      raise "failed" if attempts.size < 3

      consumer.mark_as_consumed(consumer.messages.first)
      attempts << consumer.attempt
      raise "failed" if attempts.size < 5
    end
    work
    3.times do
      coordinator.wake_up
      work
    end
    assert_equal [1, 2, 3, 1, 2], attempts.first(5)
  end

  def test_everything_raisable_is_contained
    [RuntimeError, NotImplementedError, SystemStackError, Class.new(Exception)].each do |kind| # rubocop:disable Lint/InheritException
      @coordinator = nil
      coordinator.receive(batch(0))
      work
      script { raise kind }
      work
      assert_equal :retry_at, @owner.calls.last.first, kind.inspect
    end
    @coordinator = nil
    coordinator.receive(batch(0))
    work
    script { throw :nowhere }
    work
    assert_equal :retry_at, @owner.calls.last.first
    script { raise StopIteration }
    coordinator.wake_up
    work
    assert_equal :retry_at, @owner.calls.last.first
  end

  def test_a_killed_worker_means_a_retry
    coordinator.receive(batch(0))
    work
    script { Thread.current.kill }
    Pelton::Threads.start("test") { work }.join
    assert_kind_of Pelton::WorkerKilled, named("error.occurred").last[:error]
    assert_equal :retry_at, @owner.calls.last.first
    script { nil }
    coordinator.wake_up
    work
    assert_equal [[1, 7]], @ownership.marks
  end

  def test_exit_and_lack_of_memory_stop_the_process_gracefully
    [SystemExit.new(3), Interrupt.new("x"), NoMemoryError.new].each do |error|
      @coordinator = nil
      coordinator.receive(one = batch(0))
      work
      script { raise error }
      work
      assert_equal [:critical, error], @owner.calls.last
      assert_predicate self, :idle?
      script { nil }
      coordinator.end(:shutdown)
      work
      assert_equal :shutdown, @log.last
      assert_equal 1, one.releases
    end
    assert_empty @ownership.marks
  end

  def test_skip_finds_the_one_that_fails
    coordinator(retries: 2, then: :skip, backoff: 0..0).receive(batch(0, 1, 2))
    work
    script { |consumer| raise "poison" if consumer.messages.any? { |message| message.offset == 1 } }
    work until idle?
    assert_equal [:assigned, [0, 1, 2], [0], [1], [1], [1], [2]], @log
    assert_equal [1, 2, 3], @ownership.marks.map(&:first)
    skipped = named("message.skipped")
    assert_equal [[1, 3, "poison"]], (skipped.map { |event| [event[:offset], event[:attempts], event[:error].message] })
  end

  def test_skip_does_not_mark_where_the_user_does
    coordinator(retries: 0, then: :skip, backoff: 0..0, manual_offsets: true).receive(batch(0, 1))
    work
    script { |consumer| raise "poison" if consumer.messages.first.offset.zero? }
    work until idle?
    assert_equal [:assigned, [0, 1], [0], [1]], @log
    assert_empty @ownership.marks
  end

  def test_stop_keeps_everything_behind_the_failure
    coordinator(retries: 1, backoff: 0..0).receive(all = batch(0, 1))
    work
    script { |consumer| raise "poison" if consumer.messages.first.offset == 1 || consumer.messages.size > 1 }
    work until idle?
    assert_equal [:assigned, [0, 1], [0], [1], [1]], @log
    stopped = named("partition.stopped").first
    assert_equal [1, 2], [stopped[:offset], stopped[:attempts]]
    coordinator.receive(later = batch(2))
    assert_predicate self, :idle?
    assert_equal [0, 0], [all.releases, later.releases]
    coordinator.end(:revoked)
    work
    assert_equal [1, 1], [all.releases, later.releases]
    assert_equal [[1, 7]], @ownership.marks
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

  def test_commit_errors
    coordinator.receive(batch(0))
    work
    results = []
    script do |consumer|
      message = consumer.messages.first
      consumer.mark_as_consumed(message)
      [-168, 22, -142, -185].each do |code|
        @ownership.error = Pelton::KafkaError.new(code, :X)
        results << begin
          consumer.mark_as_consumed!(message)
        rescue Pelton::KafkaError => e
          e.code
        end
      end
      @ownership.error = nil
    end
    work
    assert_equal [true, false, false, -185], results
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
      assert_predicate consumer, :revoked?
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

  def test_what_waits_in_the_queue_is_taken_back
    coordinator.receive(one = batch(0))
    work
    coordinator.end(:revoked)
    work
    assert_equal %i[assigned revoked], @log
    assert_equal 1, one.releases
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
    coordinator.receive(one = batch(0))
    work
    script { raise "failed" }
    work
    coordinator.end(:revoked)
    work
    coordinator.wake_up
    assert_predicate self, :idle?
    assert_equal [:assigned, [0], :revoked], @log
    assert_equal 1, one.releases
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
    Consumer.define_method(:initialize) { raise "no database" if (calls += 1) < 3 }
    2.times { work }
    assert_equal :retry_at, @owner.calls.last.first
    coordinator.wake_up
    work
    assert_equal [[0]], @log
    assert_equal %w[consumer.assigned consumer.consume], named("error.occurred").map { |event| event[:source] }
  ensure
    Consumer.remove_method(:initialize)
  end

  def test_hooks_that_raise_are_reported_only
    coordinator
    Consumer.define_method(:shutdown) { raise NotImplementedError, "hook" }
    work
    coordinator.end(:shutdown)
    work
    assert_equal "consumer.shutdown", named("error.occurred").last[:source]
    assert_equal 1, @owner.named(:ended).size
  ensure
    Consumer.define_method(:shutdown) { log << :shutdown }
  end

  def test_messages_are_there_during_consume_only
    seen = []
    Consumer.define_method(:revoked) { seen << messages.size << topic << partition << producer }
    coordinator.receive(batch(0, 1))
    2.times { work }
    assert_empty coordinator.messages
    coordinator.end(:revoked)
    work
    assert_equal [0, "orders", 0, nil], seen
  ensure
    Consumer.define_method(:revoked) { log << :revoked }
  end

  def test_loss
    assert_nil coordinator.loss
    work
    coordinator.receive(batch(0, 1, 2))
    assert_includes coordinator.loss, "waits for a worker"
    script do |consumer|
      consumer.mark_as_consumed(consumer.messages.first)
      assert_match(%r{orders/0: consume runs for 0\.\d s, 2 of 3 messages not finished}, coordinator.loss)
    end
    work
    assert_nil coordinator.loss
    assert_empty named("error.occurred")
  end

  def test_a_step_that_raises_loses_nothing
    step = Class.new { def settle(_) = raise("bug") }.new
    flow = Pelton::Processing::Flow.new([step])
    topic = Pelton::Routing::Topic.new("orders", Consumer, { batch: 100 })
    @coordinator = Pelton::Processing::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                 jobs: @jobs, bus: @bus, owner: @owner).start
    coordinator.receive(batch(0))
    2.times { work }
    assert_equal "flow", named("error.occurred").last[:source]
    assert_equal :retry_at, @owner.calls.last.first
    assert_empty @ownership.marks
  end

  def test_an_admit_that_raises_loses_nothing
    step = Class.new { def admit(_) = raise("bug") }.new
    flow = Pelton::Processing::Flow.new([step])
    topic = Pelton::Routing::Topic.new("orders", Consumer, { batch: 100 })
    @coordinator = Pelton::Processing::Coordinator.new(topic, 0, group: "g", flow: flow, subscription: @ownership,
                                                                 jobs: @jobs, bus: @bus, owner: @owner).start
    work
    coordinator.receive(one = batch(0))
    assert_predicate self, :idle?
    assert_equal 0, one.releases
    assert_equal "flow", named("error.occurred").last[:source]
  end
end
