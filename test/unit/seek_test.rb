# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "timeout"

# A consumer that moves its partition elsewhere: what was there before counts for nothing, whatever is under way.
class SeekTest < Minitest::Test
  include CoordinatorKit

  # Another place is sought in the first consume, then the block runs in it.
  def seeking(to, &block)
    script do |consumer|
      next if @sought

      @sought = true
      assert consumer.seek(to)
      block&.call(consumer)
    end
  end

  def test_back_to_an_offset
    coordinator.receive(first = batch(5, 6))
    coordinator.receive(second = batch(7))
    seeking(2)
    2.times { work }
    assert_equal [[2, -1]], @ownership.marks, "the batch is not marked, the new place is"
    assert_equal [[2]], @ownership.committed
    assert_equal [1, 1], [first.releases, second.releases]
    assert_predicate self, :idle?
    coordinator.receive(third = batch(2, 3))
    work until idle?
    assert_equal [:assigned, [5, 6], [2, 3]], @log
    assert_equal [4, 7], @ownership.marks.last
    assert_equal [1], [first, second, third].map(&:releases).uniq
  end

  def test_the_running_method_goes_on_and_its_marks_count_for_nothing
    coordinator.receive(batch(5, 6))
    seeking(0) do |consumer|
      consumer.messages.each { |message| refute consumer.mark_as_consumed(message) }
      coordinator.receive(batch(0))
      assert_predicate self, :idle?, "one job at a time"
    end
    work until idle?
    assert_equal [[0, -1], [1, 7]], @ownership.marks
    assert_equal [:assigned, [5, 6], [0]], @log
  end

  def test_the_users_wish_wins_over_the_retry
    coordinator(retries: 0, then: :skip).receive(batch(5))
    seeking(8) { raise "failed" }
    2.times { work }
    assert_predicate self, :idle?
    assert_empty named("message.skipped") + named("consumer.retrying")
    assert_equal ["failed"], (named("error.occurred").map { |event| event[:error].message })
    coordinator.receive(batch(8))
    work
    assert_equal [[8, -1], [9, 7]], @ownership.marks
  end

  def test_messages_read_before_a_seek_are_dropped_and_later_ones_count
    coordinator
    work
    consumer = nil
    script { |instance| consumer = instance }
    coordinator.receive(batch(0))
    work
    script { nil }
    old = batch(1)
    fresh = nil
    @ownership.on_seek = lambda do
      coordinator.receive(old) # it was in the listener's hand
      @ownership.seek_count += 1
      coordinator.receive(fresh = batch(40))
      assert_equal 1, old.releases
      work
    end
    assert consumer.seek(40)
    assert_predicate self, :idle?
    assert_equal [:assigned, [0], [40]], @log
    assert_equal [[1, 7], [41, 7]], @ownership.marks, "it is not taken back"
    assert_equal [[40]], @ownership.committed, "librdkafka goes on from there"
    coordinator.receive(stale = old)
    assert_predicate self, :idle?
    assert_equal [2, 1], [stale.releases, fresh.releases]
  end

  # A topic that was made again: its offsets were taken for old ones, so nothing of it was stored, and the next owner
  # went on where the old one had been.
  def test_partition_that_starts_again_at_offset_zero_is_read
    coordinator.receive(batch(0, 1, 2))
    coordinator.receive(old = batch(3))
    script { |consumer| start_anew if consumer.messages.first.offset.zero? && @fresh.nil? }
    work until idle?
    assert_equal [:assigned, [0, 1, 2], [0], [1]], @log
    assert_equal 1, old.releases
    assert_equal [[0, -1], [1, 7], [2, 7]], @ownership.marks
    assert_equal [[0]], @ownership.committed
  end

  def start_anew
    @ownership.seek_count += 1
    message = ->(offset) { Fakes::Message.new("orders", 0, offset, "x") }
    coordinator.receive(@fresh = Fakes::Batch.new([message.(0)], seek_count: @ownership.seek_count, restarted: true))
    coordinator.receive(Fakes::Batch.new([message.(1)], seek_count: @ownership.seek_count))
  end

  # A seek that fails must not skip the rest of its batch.
  def test_a_seek_that_fails_changes_nothing
    coordinator.receive(first = batch(0, 1))
    coordinator.receive(batch(2))
    @ownership.on_seek = -> { raise Pelton::KafkaError.new(-195, :_TRANSPORT, "away") }
    script { |consumer| assert_raises(Pelton::KafkaError) { consumer.seek(9) } if consumer.messages.first.offset.zero? }
    work until idle?
    assert_equal [:assigned, [0, 1], [2]], @log
    assert_equal [[2, 7], [3, 7]], @ownership.marks
    assert_equal 1, first.releases
  end

  # librdkafka may still do it.
  def test_a_seek_that_is_late
    coordinator.receive(first = batch(0))
    @ownership.on_seek = lambda do
      @ownership.seek_count += 1
      raise Pelton::KafkaError.new(-185, :_TIMED_OUT, "late")
    end
    script { |consumer| assert_raises(Pelton::KafkaError) { consumer.seek(9) } if consumer.messages.first.offset.zero? }
    2.times { work }
    assert_empty @ownership.marks
    assert_equal 1, first.releases
    coordinator.receive(batch(9))
    work
    assert_equal [[10, 7]], @ownership.marks
  end

  # Natively it goes on: nobody waits for it any more, so nobody tells.
  def test_an_interrupted_seek_took_place_unnoticed
    coordinator.receive(first = batch(50, 51))
    coordinator.receive(second = batch(52))
    @ownership.on_seek = -> { Timeout.timeout(0.001) { Thread::Queue.new.pop } }
    script { |consumer| assert_raises(Timeout::Error) { consumer.seek(9) } if consumer.messages.first.offset == 50 }
    2.times { work }
    assert_equal [[52, 7]], @ownership.marks, "it may not take place at all"
    other = Pelton::Consuming::JobsQueue.instance_method(:pop).bind_call(@jobs) # a worker has it
    @ownership.seek_count += 1
    coordinator.receive(third = batch(9))
    assert_predicate self, :idle?, "a job of before still runs"
    Thread.handle_interrupt(Object => :never) { other.call }
    work until idle?
    assert_equal [:assigned, [50, 51], [52], [9]], @log
    assert_equal [[52, 7], [10, 7]], @ownership.marks
    assert_equal [1], [first, second, third].map(&:releases).uniq
  end

  def test_late_seek_that_fails_loses_no_message_already_read
    coordinator.receive(batch(50))
    coordinator.receive(batch(51))
    @ownership.on_seek = -> { raise Pelton::KafkaError.new(-185, :_TIMED_OUT, "late") }
    script { |consumer| assert_raises(Pelton::KafkaError) { consumer.seek(9) } if consumer.messages.first.offset == 50 }
    work until idle?
    coordinator.receive(batch(52))
    work until idle?
    assert_equal [:assigned, [50], [51], [52]], @log
    assert_equal 53, @ownership.marks.last.first
  end

  def test_a_seek_forgot_the_word_of_the_last_mark
    coordinator.receive(batch(5, 6))
    script do |consumer|
      consumer.mark_as_consumed(consumer.messages.first, metadata: "word")
      assert consumer.seek(2)
    end
    2.times { work }
    assert_equal [[6, "word"], [2, "word"]], @ownership.marks.map(&:first).zip(@ownership.metadata)
    assert_equal [[2, "word"]], @ownership.committed
  end

  def test_marks_by_hand_are_the_only_ones
    coordinator(manual_offsets: true).receive(batch(5))
    seeking(2)
    2.times { work }
    assert_empty @ownership.marks + @ownership.committed
    coordinator.receive(batch(2))
    script { |consumer| consumer.mark_as_consumed(consumer.messages.first) }
    work
    assert_equal [[3, 7]], @ownership.marks
  end

  def test_words_for_places_and_messages
    coordinator.receive(batch(5, 6))
    time = Time.now
    script do |consumer|
      [:beginning, :end, time, consumer.messages.last].each { |place| consumer.seek(place) }
      assert_raises(Pelton::InvalidMessageError) { consumer.seek(Fakes::Message.new("other", 0, 1, "x")) }
    end
    2.times { work }
    assert_equal [:beginning, :end, time, 6], @ownership.seeks
  end

  def test_pause_at_a_message
    coordinator.receive(batch(5, 6))
    seeking(0) { |consumer| assert consumer.pause(30, at: consumer.messages.last) }
    2.times { work }
    assert_equal [0, 6], @ownership.seeks
    coordinator.receive(batch(6))
    assert_predicate self, :idle?
    coordinator.wake_up(Pelton::Clock.now + 31)
    work
    assert_equal [7, 7], @ownership.marks.last
  end

  # The hook was once called although the partition was at another position by then.
  def test_the_end_that_was_reached_before_a_seek_is_forgotten
    coordinator.receive(batch(0))
    script do |consumer|
      coordinator.change_state { |state| state.at_end = true }
      assert consumer.seek(0)
    end
    work until idle?
    assert_equal [:assigned, [0]], @log
    script { nil }
    coordinator.receive(batch(0))
    coordinator.change_state { |state| state.at_end = true }
    work until idle?
    assert_equal [:assigned, [0], [0], :reached_end], @log
  end

  # Two seeks at once, and a seek while a transaction sends its offsets.
  def test_seeks_run_one_after_the_other
    coordinator.receive(batch(0))
    instance = nil
    script { |consumer| instance = consumer }
    2.times { work }
    running = 0
    most = 0
    entered = Thread::Queue.new
    go_on = Thread::Queue.new
    @ownership.on_seek = lambda do
      most = [most, running += 1].max
      entered << true
      go_on.pop
      running -= 1
    end
    threads = [-> { instance.seek(1) }, -> { instance.seek(2) },
               -> { coordinator.seeks.exclude { @ownership.on_seek.call } }]
    threads.map! { |call| Thread.new(&call) }
    3.times do
      entered.pop
      eventually { threads.select(&:alive?).all?(&:stop?) }
      assert_equal 1, running
      go_on << true
    end
    threads.each(&:join)
    assert_equal 1, most
  end

  def test_no_seek_at_the_end_of_the_partition
    coordinator.receive(received = batch(0))
    answers = []
    script do |consumer|
      coordinator.end(:revoked)
      answers << consumer.seek(9)
    end
    Consumer.hooks[:revoked] = ->(consumer) { answers << consumer.seek(9) }
    work until idle?
    assert_equal [[false, false], [:assigned, [0], :revoked], []], [answers, @log, @ownership.seeks],
                 "answers, calls, seeks"
    assert_empty @ownership.marks, "consume may have left its rest"
    assert_equal 1, received.releases
  end

  def test_revoked_in_the_middle_of_a_seek
    coordinator.receive(first = batch(0))
    late = nil
    @ownership.on_seek = lambda do
      coordinator.receive(late = batch(1))
      coordinator.end(:revoked)
      coordinator.abandon
      raise Pelton::KafkaError.new(-172, :_STATE, "not assigned")
    end
    answer = nil
    script { |consumer| answer = consumer.seek(9) }
    work until idle?
    assert_equal [false, [:assigned, [0], :revoked]], [answer, @log]
    assert_equal [1, 1], [first.releases, late.releases]
    assert_equal 1, @owner.named(:ended).size
  end

  def test_a_job_that_waits_for_a_worker_is_taken_back
    coordinator
    work
    consumer = nil
    Consumer.hooks[:tick] = ->(instance) { consumer = instance }
    @coordinator = nil
    coordinator(tick_every: 1)
    work
    coordinator.wake_up(Pelton::Clock.now + 2)
    work
    coordinator.receive(received = batch(0))
    refute_predicate self, :idle?
    assert consumer.seek(7)
    assert_predicate self, :idle?
    assert_equal 1, received.releases
    coordinator.receive(batch(7))
    work
    assert_equal [7], @log.last
  end

  # --- per key, and message by message ---

  def test_with_several_jobs_the_last_of_them_ends_first
    coordinator(concurrency: 2, by: ->(message) { message.offset % 2 })
    2.times { work }
    coordinator.receive(batch(4, 5))
    work # which asks for keys
    other = Pelton::Consuming::JobsQueue.instance_method(:pop).bind_call(@jobs) # a worker has it
    seeking(0)
    work
    coordinator.receive(batch(0, 1))
    assert_predicate self, :idle?, "a job of before still runs"
    Thread.handle_interrupt(Object => :never) { other.call }
    work until idle?
    assert_equal [[0, -1], [2, 7]], [@ownership.marks.first, @ownership.marks.last]
    assert_equal [[0], [1]], @log.last(2).sort
  end

  # One that is given message by message.
  class One < Pelton::Consumer
    def process(message) = CoordinatorKit::Consumer.script.call(self, message)
  end

  def one_by_one
    topic = Pelton::Routing::Topic.new("orders", One, { max_messages: 100 })
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "g", flow: Pelton::Consuming::Flow.for(topic, @bus), subscription: @ownership, jobs: @jobs,
                bus: @bus, owner: @owner
    ).start
    work
  end

  def test_a_seek_breaks_off_between_two_messages
    one_by_one
    script do |consumer, message|
      @log << message.offset
      consumer.seek(0) if @log == [5]
    end
    coordinator.receive(batch(5, 6, 7))
    work
    assert_equal [5], @log
    coordinator.receive(batch(0, 1))
    work until idle?
    assert_equal [5, 0, 1], @log
    assert_equal [2, 7], @ownership.marks.last
  end

  def test_a_pause_breaks_off_and_its_message_comes_again
    one_by_one
    script do |consumer, message|
      @log << message.offset
      consumer.pause(30) if @log == [5, 6]
    end
    coordinator.receive(batch(5, 6, 7))
    work
    assert_equal [[5, 6], [[6, 7]]], [@log, @ownership.marks], "calls, marks"
    assert_predicate self, :idle?
    coordinator.wake_up(Pelton::Clock.now + 31)
    work until idle?
    assert_equal [5, 6, 6, 7], @log
    assert_equal [8, 7], @ownership.marks.last
  end
end
