# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "timeout"

# A seek, or a pause at a place, that Kafka refuses or that comes as the partition is lost.
class PauseAtTest < Minitest::Test
  include CoordinatorKit

  # It stayed paused, for good where no seconds were given.
  def test_pause_whose_seek_raises_does_not_pause
    [nil, 30].each do |seconds|
      setup
      @coordinator = nil
      coordinator.receive(batch(0, 1))
      @ownership.on_seek = -> { raise Pelton::KafkaError.new(-195, :_TRANSPORT, "away") }
      script do |consumer|
        next if @asked.equal?(consumer)

        @asked = consumer
        assert_raises(Pelton::KafkaError) { consumer.pause(seconds, at: 9) }
        foreign = Fakes::Message.new("other", 0, 1, "x")
        assert_raises(Pelton::InvalidMessageError) { consumer.pause(seconds, at: foreign) }
        refute_predicate consumer, :paused?
      end
      coordinator.receive(batch(2))
      work until idle?
      assert_equal [:assigned, [0, 1], [2]], @log, "what consume returned from is done"
      assert_equal [3, 7], @ownership.marks.last
    end
  end

  def test_messages_before_the_place_of_a_pause_are_done_except_with_manual_offsets
    { {} => [7], { manual_offsets: true } => [] }.each do |settings, offsets|
      setup
      @coordinator = nil
      coordinator(**settings).receive(batch(5, 6, 7))
      script { |consumer| assert consumer.pause(30, at: consumer.messages.last) }
      2.times { work }
      assert_equal [offsets, offsets], [@ownership.marks.map(&:first), @ownership.committed.map(&:first)]
    end
  end

  def test_pause_whose_seek_raises_keeps_the_earlier_pause
    coordinator.receive(batch(0))
    coordinator.receive(batch(1))
    @ownership.on_seek = -> { Timeout.timeout(0.001) { Thread::Queue.new.pop } }
    script do |consumer|
      consumer.pause(30)
      assert_raises(Timeout::Error) { consumer.pause(at: 9) }
      assert_predicate consumer, :paused?
    end
    2.times { work }
    assert_predicate self, :idle?
    script { nil }
    coordinator.wake_up(Pelton::Clock.now + 31)
    work until idle?
    assert_equal [:assigned, [0], [0], [1]], @log
  end

  # Nobody was told of the loss yet; it raised _STATE.
  def test_a_seek_in_the_moment_of_a_revocation_answers_false
    coordinator.receive(first = batch(0))
    @ownership.on_seek = -> { raise Pelton::KafkaError.new(-172, :_STATE, "not assigned") }
    answers = []
    script { |consumer| answers << consumer.seek(9) << consumer.pause(1, at: 9) }
    @ownership.here = false
    2.times { work }
    assert_equal [false, false], answers
    assert_empty @ownership.marks, "what consume did not mark is for the next owner"
    coordinator.end(:revoked)
    work until idle?
    assert_equal [[:assigned, [0], :revoked], 1], [@log, first.releases]
  end

  def test_a_seek_of_a_partition_that_is_not_fetched_yet_raises
    coordinator.receive(batch(0))
    @ownership.on_seek = -> { raise Pelton::KafkaError.new(-172, :_STATE, "erroneous state") }
    script { |consumer| assert_equal :_STATE, assert_raises(Pelton::KafkaError) { consumer.seek(9) }.name }
    2.times { work }
    assert_equal [[1, 7]], @ownership.marks
  end

  # The next mark commits it, and until then a restart repeats messages.
  def test_a_seek_whose_commit_fails_took_place_and_is_reported
    coordinator.receive(batch(0))
    error = Pelton::KafkaError.new(-185, :_TIMED_OUT, "late")
    @ownership.define_singleton_method(:commit_offset) { |*| raise error }
    answers = []
    script { |consumer| answers << consumer.seek(9) if consumer.messages.first.offset.zero? }
    2.times { work }
    coordinator.receive(batch(9))
    work
    assert_equal [[true], [:assigned, [0], [9]], [10, 7]], [answers, @log, @ownership.marks.last]
    assert_equal [[:failed, error, { group: "g", topic: "orders", partition: 0 }]], @owner.named(:failed)
  end
end
