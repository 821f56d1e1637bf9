# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"

# Work: order, failures, retries.
class CoordinatorTest < Minitest::Test
  include CoordinatorKit

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

  def test_a_word_is_stored_with_the_offset_until_there_is_another
    @ownership.committed_metadata = "before"
    coordinator.receive(batch(0, 1, 2))
    work
    words = []
    script do |consumer|
      words << consumer.offset_metadata << consumer.offset_metadata
      consumer.mark_as_consumed(consumer.messages[0], metadata: "one")
      second = consumer.messages[1]
      [5, :word, "x" * 4097].each do |bad|
        error = assert_raises(Pelton::InvalidMessageError) { consumer.mark_as_consumed(second, metadata: bad) }
        assert_match(/metadata: .*a String of up to 4096 bytes/, error.message)
      end
      consumer.mark_as_consumed(second)
    end
    work
    coordinator.receive(batch(3))
    script { |consumer| consumer.mark_as_consumed!(consumer.messages[0], metadata: "two") }
    work
    assert_equal [%w[before before], 1], [words, @ownership.asked]
    assert_equal %w[one one one two], @ownership.metadata
    assert_equal [[1, 7], [2, 7], [3, 7], [4, 7]], @ownership.marks
  end

  def test_offset_metadata_is_stored_with_the_mark_of_a_return
    coordinator.receive(batch(0, 1))
    work
    script do |consumer|
      assert consumer.store_offset_metadata("first")
      assert_raises(Pelton::InvalidMessageError) { consumer.store_offset_metadata(5) }
      assert_empty @ownership.marks
    end
    work
    coordinator.receive(batch(2))
    script { |consumer| coordinator.abandon || refute(consumer.store_offset_metadata("late")) }
    work
    assert_equal [[[2, 7]], %w[first]], [@ownership.marks, @ownership.metadata]
  end

  def test_new_offset_metadata_for_a_stored_offset_is_stored
    coordinator.receive(batch(0))
    work
    script do |consumer|
      message = consumer.messages.first
      consumer.mark_as_consumed(message)
      %w[one one two].each { |word| consumer.mark_as_consumed(message, metadata: word) }
    end
    work
    assert_equal [nil, "one", "two"], @ownership.metadata
    coordinator.receive(batch(1))
    script { |consumer| assert consumer.mark_as_consumed!(consumer.messages.first, metadata: "three") }
    work
    assert_equal [[2, "three"]], @ownership.committed, "librdkafka leaves out what is not behind it"
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

  def test_unread_messages_are_never_built
    topic = Pelton::Routing::Topic.new("orders", Class.new(Pelton::Consumer) do
                                                   def consume = nil
                                                 end, { max_messages: 100 })
    @coordinator = Pelton::Consuming::Coordinator.new(topic, 0, group: "g", subscription: @ownership, jobs: @jobs,
                                                                flow: Pelton::Consuming::Flow.for(topic, @bus),
                                                                bus: @bus, owner: @owner).start
    untouched = batch(0, 1, 2)
    untouched.define_singleton_method(:messages) { raise "message objects" }
    untouched.define_singleton_method(:leader_epoch) { 7 }
    coordinator.receive(untouched)
    2.times { work }
    assert_empty named("error.occurred")
    assert_equal [[3, 7]], @ownership.marks
  end

  def test_failure_waits_and_runs_the_rest_again
    coordinator.receive(all = batch(0, 1, 2))
    work
    began = Pelton::Clock.now
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
    assert_includes (began + 0.7)..(Pelton::Clock.now + 1.1), time
    retrying = named("consumer.retrying").first
    assert_equal [1, 1, "failed"], [retrying[:offset], retrying[:attempt], retrying[:error].message]
    assert_equal ["consumer.consume", "g", "orders", 0],
                 named("error.occurred").first.payload.values_at(:source, :group, :topic, :partition)
    script { nil }
    wake
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
      wake
      work
    end
    assert_equal [1, 2, 3, 1, 2], attempts.first(5)
  end

  def test_a_mark_while_a_retry_waits
    coordinator.receive(batch(0, 1, 2))
    work
    consumer = messages = nil
    script do |instance|
      consumer = instance
      messages = instance.messages.to_a
      raise "failed"
    end
    work
    assert consumer.mark_as_consumed(messages[1])
    attempts = []
    script { |instance| attempts << instance.attempt }
    wake
    work
    assert_equal [:assigned, [0, 1, 2], [2]], @log
    assert_equal [1], attempts
    assert_equal [[2, 7], [3, 7]], @ownership.marks
  end

  def test_all_is_marked_while_a_retry_waits
    coordinator.receive(all = batch(0, 1))
    coordinator.receive(batch(2))
    work
    marking = nil
    script do |consumer|
      last = consumer.messages.to_a.last
      marking = -> { consumer.mark_as_consumed(last) }
      raise "failed"
    end
    work
    assert marking.call
    script { nil }
    wake
    work
    assert_equal [:assigned, [0, 1], [2]], @log
    assert_equal 1, all.releases
  end

  def test_marked_after_the_decision_to_skip
    coordinator(retries: 0, then: :skip).receive(batch(0))
    coordinator.receive(batch(1))
    work
    script do |consumer|
      message = consumer.messages.first
      @bus.subscribe("message.skipped") { consumer.mark_as_consumed(message) }
      raise "failed"
    end
    work
    script { nil }
    work
    assert_equal [:assigned, [0], [1]], @log
    assert_equal [1, 2], @ownership.marks.map(&:first)
  end

  def test_a_subscriber_that_ends_the_thread
    coordinator.receive(batch(0))
    work
    ending = @bus.subscribe("error.occurred") { Thread.exit }
    script { raise "failed" }
    in_a_thread { work }
    assert_equal :retry_at, @owner.calls.last.first
    wake
    script { raise SystemExit }
    in_a_thread { work }
    assert_equal :critical, @owner.calls.last.first
    coordinator.end(:shutdown)
    Consumer.hooks[:shutdown] = ->(_) { raise "failed" }
    in_a_thread { work }
    assert_equal 1, @owner.named(:ended).size
    @bus.unsubscribe(ending)
  end

  def test_a_subscriber_that_ends_the_thread_does_not_change_the_outcome
    coordinator(retries: 0, then: :skip).receive(batch(0))
    work
    %w[error.occurred message.skipped].each { |name| @bus.subscribe(name) { Thread.exit } }
    script { raise "failed" }
    in_a_thread { work }
    assert_equal [[1, 7]], @ownership.marks
  end

  # Errors outside of StandardError skip no batch either.
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
    wake
    work
    assert_equal :retry_at, @owner.calls.last.first
  end

  # A killed worker thread is replaced, and its job runs again.
  def test_a_killed_worker_means_a_retry
    coordinator.receive(batch(0))
    work
    script { Thread.current.kill }
    Pelton::Threads.start("test") { work }.join
    assert_kind_of Pelton::WorkerKilled, named("error.occurred").last[:error]
    assert_equal :retry_at, @owner.calls.last.first
    script { nil }
    wake
    work
    assert_equal [[1, 7]], @ownership.marks
  end

  def test_exit_and_lack_of_memory_stop_the_process_gracefully
    [SystemExit.new(3), Interrupt.new("x"), NoMemoryError.new].each do |error|
      @coordinator = nil
      coordinator.receive(received = batch(0))
      work
      script { raise error }
      work
      assert_equal [:critical, error], @owner.calls.last
      assert_predicate self, :idle?
      script { nil }
      coordinator.end(:shutdown)
      work
      assert_equal :shutdown, @log.last
      assert_equal 1, received.releases
    end
    assert_empty @ownership.marks
  end

  def test_skip_finds_the_failing_message_of_a_batch
    coordinator(retries: 2, then: :skip, backoff: 0..0).receive(batch(0, 1, 2))
    work
    script { |consumer| raise "poison" if consumer.messages.any? { |message| message.offset == 1 } }
    work until idle?
    assert_equal [:assigned, [0, 1, 2], [0], [1], [1], [1], [2]], @log
    assert_equal [1, 2, 3], @ownership.marks.map(&:first)
    skipped = named("message.skipped")
    assert_equal [[1, 3, "poison"]], (skipped.map { |event| [event[:offset], event[:attempts], event[:error].message] })
  end

  def test_a_skipped_message_needs_no_mark_where_the_user_marks
    coordinator(retries: 0, then: :skip, backoff: 0..0, manual_offsets: true).receive(batch(0, 1))
    work
    script { |consumer| raise "poison" if consumer.messages.first.offset.zero? }
    work until idle?
    assert_equal [:assigned, [0, 1], [0], [1]], @log
    assert_equal [[1, 7]], @ownership.marks, "1 needs one"
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

  private

  def in_a_thread(&block) = Pelton::Threads.start("test", &block).join
end
