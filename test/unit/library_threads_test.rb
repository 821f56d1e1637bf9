# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/runtime/library_threads"

# Which threads that outlive their consumers are leaks.
class LibraryThreadsTest < Minitest::Test
  Running = Struct.new(:alive) do
    def alive? = alive
  end

  def setup
    @library = Pelton::LibraryThreads.new
    @threads = []
  end

  # A thread that a consumer left which lived from `began` to `ended`.
  def left(began, ended, line: "pool.rb:3")
    @threads << Running.new(true)
    @library.add(@threads.last, line, began.to_f, ended.to_f)
  end

  def test_the_third_consumer_in_a_row_that_leaves_a_thread_makes_a_leak_of_all
    assert_equal [[], []], [left(0, 1), left(2, 3)]
    found = left(4, 5)
    assert_equal @threads, found
    assert_equal [], left(4.5, 5), "it is reported once for consumers that overlap"
    found = left(6, 7)
    assert_equal @threads, found
  end

  def test_consumers_that_overlap_count_as_one
    assert_equal [[]] * 6, [[0, 5], [1, 6], [5, 9], [6, 7], [7, 7], [3, 8]].map { |times| left(*times) }
  end

  def test_threads_of_different_lines_are_counted_apart
    assert_equal [[]] * 4, Array.new(4) { |number| left(number * 2, (number * 2) + 1, line: "a.rb:#{number / 2}") }
  end

  def test_threads_that_ended_are_forgotten
    2.times { |number| left(number * 2, (number * 2) + 1) }
    @threads.first.alive = false
    assert_equal [], left(4, 5)
    found = left(6, 7)
    assert_equal @threads.drop(1), found
  end

  def test_more_than_a_hundred_threads_of_a_line_are_a_leak
    assert_equal [[]] * 100, (Array.new(100) { left(0, 1) })
    found = left(0, 1)
    assert_equal @threads, found
    assert_equal [], left(0, 1)
  end
end
