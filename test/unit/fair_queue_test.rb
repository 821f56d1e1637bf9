# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/consuming/fair_queue"

# Which job is next, by topic and rank. (With workers: test/unit/workers_test.rb and aside_test.rb.)
class FairQueueTest < Minitest::Test
  FairQueue = Pelton::Consuming::FairQueue
  Job = Struct.new(:name, :kind, :closing)

  def setup
    @queue = FairQueue.new
    # Topics are compared by identity.
    @a = +"a"
    @b = +"b"
  end

  def push(name, topic, rank = FairQueue::ALL) = Job.new(name).tap { |job| @queue.push(job, topic, rank: rank) }
  def shift(**how) = @queue.shift(**how)&.name
  def shift_all(**how) = Array.new(@queue.size) { shift(**how) }

  def test_hooks_at_the_end_come_before_those_at_the_begin_last_calls_and_ordinary_jobs
    ranks = [[:revoked], [:shutdown], [:assigned], [:consume, true], [:consume, false], [:tick, false],
             [:reached_end, nil]].map { |kind, closing| FairQueue.rank(Job.new(nil, kind, closing)) }
    assert_equal [0, 0, 1, 2, 3, 3, 3], ranks
  end

  def test_within_a_topic_lower_ranks_go_first_and_equal_ones_in_their_order
    { "x" => 3, "y" => 1, "z" => 3, "u" => 0, "v" => 2, "w" => 1 }.each { |name, rank| push(name, @a, rank) }
    assert_equal %w[u y w v x z], shift_all
  end

  def test_jobs_of_a_rank_or_a_lower_one_are_counted_over_all_topics
    [0, 1, 1, 2, 3, 3].each { |rank| push("x", @a, rank) }
    [1, 3].each { |rank| push("y", @b, rank) }
    assert_equal [1, 4, 5, 8], [0, 1, 2, 3].map { |rank| @queue.count(rank) }
    assert_equal 8, @queue.size
  end

  def test_only_jobs_up_to_a_rank_are_given
    push("late", @a)
    push("hook", @b, 1)
    assert_equal [nil, "hook", nil], [shift(rank: 0), shift(rank: 1), shift(rank: 2)]
    assert_equal ["late", nil], [shift, shift]
  end

  def test_topics_take_turns_and_the_one_with_fewer_running_jobs_is_next
    3.times { |number| push("a#{number}", @a) }
    running = @queue.shift
    2.times { |number| push("b#{number}", @b) }
    assert_equal %w[b0 a1 b1 a2], shift_all
    assert_equal "a0", running.name
  end

  def test_a_finished_job_no_longer_counts_for_its_topic
    2.times { |number| push("a#{number}", @a) }
    2.times { |number| push("b#{number}", @b) }
    first = @queue.shift
    assert_equal "b0", shift
    assert_same @a, @queue.finished(first)
    assert_nil @queue.finished(first)
    assert_equal %w[a1 b1], [shift, shift]
  end

  def test_the_reserved_worker_is_for_topics_without_a_running_job
    2.times { |number| push("a#{number}", @a) }
    shift
    assert_equal "a1", shift(reserved: true), "there is no other topic"
    push("a2", @a)
    push("b0", @b)
    assert_equal ["b0", nil], [shift(reserved: true), shift(reserved: true)]
    assert_equal "a2", shift
  end

  def test_a_job_may_be_taken_back
    jobs = %w[a b c].map { |name| push(name, @a) }
    assert @queue.delete(jobs[1])
    refute @queue.delete(jobs[1])
    assert_equal [2, %w[a c]], [@queue.size, shift_all]
    refute @queue.delete(Job.new("a"))
  end

  def test_a_topic_without_partitions_and_jobs_is_forgotten
    lines = @queue.instance_variable_get(:@lines)
    @queue.partitions(@a, 1)
    @queue.partitions(@a, 1)
    push("a", @a)
    job = @queue.shift
    @queue.partitions(@a, -1)
    @queue.finished(job)
    assert_equal 1, lines.size, "it has a partition"
    waiting = push("b", @a)
    @queue.partitions(@a, -1)
    assert_equal 1, lines.size, "a job waits"
    @queue.delete(waiting)
    assert_empty lines
  end
end
