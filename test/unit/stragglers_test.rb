# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/consuming/partition/keyed/keyed_backlog"

# Keys that wait must not hold the partition up: batches are released before all of their messages are finished.
class StragglersTest < Minitest::Test
  Executor = Struct.new(:process?)
  # At most this many batches may be out, as with `prefetch_batches`.
  LIMIT = 4

  def setup
    @out = []
    @offset = 0
    keys = Pelton::Consuming::Keys.new(:key)
    @backlog = Pelton::Consuming::KeyedBacklog.new(100, executors: 2, keys: keys)
  end

  # A batch of messages of this size, each of another key. sort: its keys are known at once.
  def add(count = 1, size: 1, sort: true)
    flunk "#{@out.size} batches are out" if @out.size == LIMIT
    all = Array.new(count) { |index| Fakes::Message.new("orders", 0, @offset + index, "x" * size, key: nil) }
    @offset += count
    batch = Fakes::Batch.new(all, crowded: -> { @out.size * 2 >= LIMIT }) { @out.delete(batch) }
    @out << batch
    @backlog.add(@backlog.prepare(batch))
    self.sort if sort
    batch
  end

  def sort
    while (tracker = @backlog.unsorted)
      @backlog.sorted(tracker, @backlog.ids(tracker))
    end
  end

  # All messages that may run are tried, and fail except these.
  def try(*finished)
    while (slice = @backlog.next(Executor.new(true)))
      offset = slice.position
      finished.include?(offset) ? @backlog.finish(slice, offset, nil, mark: true) : @backlog.again(slice, 600.0)
      @backlog.put_back(slice)
    end
  end

  def retry_again(*finished)
    @backlog.wake(600.0)
    try(*finished)
  end

  def released?(batch) = batch.releases == 1

  def test_messages_that_wait_for_a_retry_do_not_hold_up_the_ones_behind
    batches = Array.new(100) { |index| add(1 + (index % 3)).tap { try } }
    assert_equal [99, 1], [batches.count { |batch| released?(batch) }, @out.size], "fewer than half are out"
    assert_equal 0, @backlog.first_open
    retry_again(*0...@offset)
    assert_equal [1] * 100, batches.map(&:releases)
    assert_equal [@offset, 7], @backlog.done
  end

  def test_a_batch_stays_while_there_is_room_and_until_its_keys_have_had_their_turn
    first = add
    try
    refute released?(first), "one of four is out"
    add
    refute released?(first), "the key of the second may run"
    try
    assert released?(first)
  end

  def test_a_batch_whose_keys_are_not_known_stays
    batches = [add(sort: false), add(sort: false)]
    try
    assert(batches.none? { |batch| released?(batch) })
    sort
    try
    assert released?(batches.first)
  end

  # What a released batch leaves is not bounded by the native memory of batches.
  def test_at_most_two_megabytes_of_released_batches_wait
    batches = Array.new(6) { add(size: 500_000).tap { try } }
    assert_equal [4, 2], [batches.count { |batch| released?(batch) }, @out.size]
    retry_again(0)
    assert_equal [5, 1], [batches.count { |batch| released?(batch) }, @out.size], "the first makes room for one more"
    retry_again(*1..5)
    assert_equal [1] * 6, batches.map(&:releases)
    assert_equal 4, (Array.new(6) { add(size: 500_000).tap { try } }.count { |batch| released?(batch) })
  end

  def test_of_a_batch_with_few_messages_left_only_their_bytes_count
    batches = Array.new(30) { add(16, size: 20_000).tap { try(*(@offset - 16)..(@offset - 3)) } }
    assert_equal 29, batches.count { |batch| released?(batch) }, "2 of 16 wait: 40 of 320 kB"
    full = Array.new(5) { add(16, size: 20_000).tap { try(*(@offset - 16)..(@offset - 4)) } }
    assert_equal 2, full.count { |batch| released?(batch) }, "3 of 16 wait"
  end

  def test_at_most_ten_thousand_messages_of_released_batches_wait
    batches = Array.new(102) { add(100).tap { try } }
    assert_equal [100, 2], [batches.count { |batch| released?(batch) }, @out.size]
    retry_again(*5_000..5_098)
    assert_equal 2, @out.size, "one of the fiftieth is left"
    retry_again(5_099)
    assert_equal 1, @out.size
  end
end
