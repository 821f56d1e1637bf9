# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/producer/partitions"
require "pelton/runtime/threads"
require "support/forked_child"

# How long what is known of a topic's partitions counts.
class PartitionsTest < Minitest::Test
  include ForkedChild

  MISSING = Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic or partition")
  SILENCE = Pelton::WaitTimeout.new("partition count of a", nil, 1)

  # Stands for the monotonic clock.
  Time = Struct.new(:now)

  def setup
    @time = Time.new(100.0)
    @asked = []
    @answer = 4
    @partitions = Pelton::Producer::Partitions.new(nil, clock: @time) do |topic, timeout|
      @asked << [topic, timeout]
      @answer.is_a?(Exception) ? raise(@answer) : @answer
    end
  end

  def count(topic = "a") = @partitions.count(topic, 1)

  # A topic may be created again with fewer partitions. The cached count expires, so the lower count is used.
  def test_a_count_holds_for_thirty_seconds
    assert_equal 4, count
    @answer = 2
    @time.now += 29
    assert_equal 4, count
    @time.now += 2
    assert_equal 2, count
    assert_equal [["a", 1]] * 2, @asked
  end

  # A missing topic is remembered for five seconds, so not every message asks Kafka about it.
  def test_a_missing_topic_is_asked_for_again_after_five_seconds
    @answer = MISSING
    3.times { assert_equal 3, assert_raises(Pelton::DeliveryError) { count }.code }
    assert_equal 1, @asked.size
    @answer = 1
    @time.now += 6
    assert_equal 1, count
  end

  def test_known_count_is_used_while_kafka_does_not_answer
    assert_equal 4, count
    @answer = SILENCE
    @time.now += 31
    2.times { assert_equal 4, count }
    2.times { assert_raises(Pelton::WaitTimeout) { count("b") } }
    assert_equal 3, @asked.size
  end

  def test_a_topic_that_went_away
    assert_equal 4, count
    @answer = MISSING
    @time.now += 31
    assert_raises(Pelton::DeliveryError) { count }
  end

  def test_one_thread_asks_while_others_use_the_known_count
    count
    @time.now += 31
    gate = Thread::Queue.new
    @answer = Class.new { define_method(:is_a?) { |_| gate.pop && false } }.new
    asking = Pelton::Threads.start("test") { count }
    Thread.pass until gate.num_waiting == 1
    assert_equal 4, count
    gate << true
    Pelton::Threads.join([asking])
    assert_equal 2, @asked.size
  end

  def test_short_timeout_of_one_thread_does_not_fail_others
    @answer = SILENCE
    assert_equal 0.5, assert_raises(Pelton::WaitTimeout) { @partitions.count("a", 0.5) }.seconds
    assert_equal 0.25, assert_raises(Pelton::WaitTimeout) { @partitions.count("a", 0.25) }.seconds
    @answer = 4
    assert_equal 4, count
  end

  # Partitions where the question for topic "slow" is answered when `gate` says how.
  def slow(gate)
    Pelton::Producer::Partitions.new(nil) { |topic, _| topic == "slow" ? gate.pop : 7 }
  end

  def asking(partitions, gate)
    thread = Pelton::Threads.start("test") { partitions.count("slow", 60) }
    eventually { gate.num_waiting == 1 }
    thread
  end

  def test_a_question_for_one_topic_does_not_hold_up_another
    gate = Thread::Queue.new
    partitions = slow(gate)
    thread = asking(partitions, gate)
    assert_equal 7, partitions.count("quick", 60)
    gate << 3
    Pelton::Threads.join([thread])
    assert_equal 3, partitions.count("slow", 0)
  end

  def test_a_time_limit_is_kept_while_others_ask
    gate = Thread::Queue.new
    partitions = slow(gate)
    thread = asking(partitions, gate)
    assert_equal 0.05, assert_raises(Pelton::WaitTimeout) { partitions.count("slow", 0.05) }.seconds
    gate << 3
    Pelton::Threads.join([thread])
  end

  def test_thread_killed_during_its_request_leaves_it_to_the_next
    gate = Thread::Queue.new
    partitions = slow(gate)
    thread = asking(partitions, gate)
    thread.kill
    Pelton::Threads.join([thread])
    gate << 3
    assert_equal 3, partitions.count("slow", 60)
  end

  # The child has no thread that will be answered.
  def test_a_child_asks_by_itself_what_its_parent_asks_at_the_moment_of_the_fork
    gate = Thread::Queue.new
    @answer = Class.new { define_method(:is_a?) { |_| gate.pop && false } }.new
    asking = Pelton::Threads.start("test") { count }
    Thread.pass until gate.num_waiting == 1
    assert_equal "3\n", in_child { (@answer = 3) && count }
    gate << true
    Pelton::Threads.join([asking])
    assert_equal 1, @asked.size
  end
end
