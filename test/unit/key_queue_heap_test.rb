# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/consuming/partition/keyed/key_queue"
require "pelton/consuming/partition/keyed/key_queue_heap"

# Key queues in the order of their ranks, compared with a sorted list.
class KeyQueueHeapTest < Minitest::Test
  KeyQueue = Pelton::Consuming::KeyQueue

  def setup
    @heap = Pelton::Consuming::KeyQueueHeap.new
  end

  def push(*ranks) = ranks.map { |rank| KeyQueue.new(rank).tap { |key_queue| @heap.push(key_queue, rank) } }
  def shift_all = Array.new(@heap.size) { @heap.shift.rank }

  def test_the_smallest_rank_comes_first_whatever_the_order_was
    [[1, 2, 3], [3, 2, 1], [2, 9, 1, 8, 3, 7, 4, 6, 5], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0], [5, 5, 1, 1]].each do |ranks|
      push(*ranks)
      assert_equal [ranks.size, ranks.min], [@heap.size, @heap.first.rank]
      assert_equal ranks.sort, shift_all
      assert_predicate @heap, :empty?
    end
    assert_equal [nil, nil], [@heap.first, @heap.shift]
  end

  def test_a_key_queue_knows_where_it_waits
    first, second = push(2, 1)
    assert_equal [@heap, @heap, 2, 1], [first.queue, second.queue, first.rank, second.rank]
    assert_same second, @heap.shift
    assert_nil second.queue
    assert_equal [first], @heap.clear
    assert_equal [nil, nil, 0], [first.queue, first.at, @heap.size]
  end

  def test_deleted_key_queues_are_never_given
    all = push(*0..99, *(0..99).to_a.reverse)
    gone = all.values_at(0, 1, 50, 99, 100, 150, 199, 198)
    gone.each { |key_queue| assert_same key_queue, @heap.delete(key_queue) }
    assert_equal [192, []], [@heap.size, @heap.to_a & gone]
    assert_equal (all - gone).map(&:rank).sort, shift_all
  end

  # Those that were deleted stay in the Array until it has sixteen more than twice what is left.
  def test_deleted_key_queues_do_not_pile_up
    row = @heap.instance_variable_get(:@row)
    all = push(*0...100)
    all.drop(1).first(70).each { |key_queue| @heap.delete(key_queue) }
    assert_operator row.size, :<=, (2 * @heap.size) + 16
    assert_equal 30, @heap.size
    assert_equal [0, *71..99], shift_all
  end

  def test_random_pushes_shifts_and_deletions_are_those_of_a_sorted_list
    random = Random.new(7)
    model = []
    5_000.times do
      case random.rand(5)
      when 0, 1, 2 then model << push(random.rand(1000)).first
      when 3
        key_queue = @heap.shift
        assert_equal [*model.map(&:rank).min], [*key_queue&.rank]
        model.delete(key_queue)
      else
        key_queue = model.delete_at(random.rand(model.size)) unless model.empty?
        @heap.delete(key_queue) if key_queue
      end
      assert_equal model.size, @heap.size
    end
    assert_equal model.map(&:rank).sort, shift_all
  end
end
