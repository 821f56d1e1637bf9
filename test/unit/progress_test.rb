# frozen_string_literal: true

require_relative "../test_helper"
require "support/coordinator_kit"
require "pelton/consuming/partition/partition_state"
require "pelton/consuming/partition/progress"

# What is stored of a partition, and when; and the time of ticks.
class ProgressTest < Minitest::Test
  Progress = Pelton::Consuming::Progress

  def setup
    @ownership = CoordinatorKit::Ownership.new
    @errors = []
    @progress = Progress.new(@ownership, { topic: "orders", partition: 0 }) { |error, _| @errors << error }
  end

  def test_an_offset_that_is_stored_is_not_stored_again_with_another_leader_epoch
    [[5, 7], [5, 8], [4, 9]].each { |done| assert @progress.store(done) }
    assert_equal 1, @ownership.marks.size
  end

  # Another member has the partition, so a mark that says it counts would lose the message.
  def test_nothing_is_stored_after_the_end_of_the_assignment
    @progress.abandon
    refute @progress.store([5, 7])
    refute @progress.store(nil, ask: true)
    assert_empty @ownership.marks
  end

  # 4,096 characters were once allowed. With more than 4,096 bytes, the broker refused each commit of the partition.
  def test_metadata_is_measured_in_bytes
    ["é" * 2049, "x" * 4097, :word].each do |word|
      assert_raises(Pelton::InvalidMessageError) { @progress.metadata = word }
    end
    @progress.metadata = "é" * 2048
    @progress.store([1, 7])
    assert_equal ["é" * 2048], @ownership.metadata
  end

  # librdkafka once committed an older mark at the end of the assignment. That took back what a transaction had
  # committed since.
  def test_offsets_committed_by_a_transaction_are_no_longer_marked_natively
    @progress.store([1, 7])
    @progress.committed(3, 7)
    assert_equal [1, [3, 7]], [@ownership.unmarks, @progress.stored]
    @progress.committed(2, 7)
    assert_equal [1, [3, 7]], [@ownership.unmarks, @progress.stored], "never back"
    @progress.committed(4, 7)
    assert_equal 1, @ownership.unmarks, "nothing is marked"
    @progress.store([5, 7])
    @progress.abandon
    @progress.committed(6, 7)
    assert_equal 1, @ownership.unmarks, "it is another's"
  end

  # They happen on the listener's thread, which serves all partitions.
  def test_refused_marks_commits_and_withdrawals_are_reported_and_not_raised
    error = Pelton::KafkaError.new(-172, :_STATE, "not assigned")
    @progress.store([1, 7])
    @ownership.error = error
    %i[unmark commit_offset_async].each { |name| @ownership.define_singleton_method(name) { |*| raise error } }
    refute @progress.store([2, 7])
    @progress.committed(3, 7)
    @progress.start_over(0)
    assert_equal [error] * 3, @errors
    assert_equal [3, 7], @progress.stored
  end

  # After a long call, or a process that was stopped, missed ticks once came in a burst.
  def test_missed_ticks_are_one_tick
    control = Pelton::Consuming::PartitionState.new(10)
    first = control.wake_at
    assert control.wake(first + 95)
    refute control.wake(first + 96)
    assert_in_delta first + 105, control.wake_at
    assert control.wake(first + 105)
    refute control.wake(first + 106)
  end
end
