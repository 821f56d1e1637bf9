# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "pelton/app"
require "pelton/runtime/threads"

class ThreadsTest < Minitest::Test
  def test_a_thread_has_a_name_and_is_registered_while_it_lives
    gate = Thread::Queue.new
    thread = Pelton::Threads.start("pelton.test", priority: -1) { gate.pop }
    assert_equal ["pelton.test", -1], [thread.name, thread.priority]
    assert_includes Pelton::Threads.list, thread
    gate << :go
    thread.join
    refute_includes Pelton::Threads.list, thread
  end

  # A background thread that stops its app in its first step was taken for a foreign thread, and waited for itself.
  def test_thread_has_its_name_at_its_first_step_even_if_it_runs_at_once
    seen = Thread::Queue.new
    start = Thread.method(:new)
    Thread.stub(:new, ->(&block) { start.call(&block).tap { |thread| thread.join(0.05) } }) do
      Pelton::Threads.start("pelton.early") { seen << Thread.current.name }
    end
    assert_equal "pelton.early", seen.pop
  end

  def test_errors_are_reported
    reported = Thread::Queue.new
    Pelton::Threads.start("pelton.test", report: ->(error) { reported << error }) { raise NotImplementedError, "x" }
    assert_kind_of NotImplementedError, reported.pop
    _, err = capture_io { Pelton::Threads.start("pelton.test") { raise "nobody listens" }.join }
    assert_includes err, "pelton.test ended: "
    assert_includes err, "nobody listens"
  end

  def test_a_killed_thread_is_forgotten
    thread = Pelton::Threads.start("pelton.test") { Thread::Queue.new.pop }
    thread.kill
    thread.join
    refute_includes Pelton::Threads.list, thread
  end

  # The server's thread was the next one: a stop hung for ever.
  def test_thread_killed_as_it_unregisters_does_not_block_the_next_one
    gates = Array.new(2) { Thread::Queue.new }
    threads = gates.map { |gate| Pelton::Threads.start("pelton.test") { gate.pop } }
    Pelton::Threads.send(:const_get, :LOCK).synchronize do
      threads.zip(gates) do |thread, gate|
        gate.close
        eventually { thread.stop? && Pelton::Threads.at(thread).include?("/lib/pelton/runtime/threads.rb") }
      end
      threads.first.kill
    end
    assert_equal [true, true], threads.map { |thread| !thread.join(20).nil? }
  ensure
    threads.each(&:kill)
  end

  def test_join_returns_the_threads_that_still_run
    gate = Thread::Queue.new
    long = Pelton::Threads.start("pelton.long") { gate.pop }
    short = Pelton::Threads.start("pelton.short") { nil }
    eventually { !short.alive? }
    assert_equal [long], Pelton::Threads.join([short, long, Thread.current], 0.02)
    gate << :go
    assert_empty Pelton::Threads.join([short, long])
  end

  def test_join_does_not_raise_the_threads_error_but_passes_an_interrupt_of_the_waiter
    thread = Thread.new { raise IOError, "its own" }
    thread.report_on_exception = false
    assert_empty Pelton::Threads.join([thread])
    # Comes in the midst of the join, when that thread has died already.
    interrupted = Class.new(Exception) # rubocop:disable Lint/InheritException -- as Timeout's
    thread.define_singleton_method(:join) do |*|
      singleton_class.remove_method(:join)
      Kernel.raise interrupted
    end
    assert_raises(interrupted) { Pelton::Threads.join([thread]) }
    assert_empty Pelton::Threads.join([thread])
  end

  # --- traps ---

  # What the block returns, called by a signal's handler.
  def in_trap
    answers = Thread::Queue.new
    before = trap("USR2") do
      answers << yield
    rescue StandardError => e
      answers << e
    end
    Process.kill(:USR2, Process.pid)
    eventually { !answers.empty? }
    answers.pop
  ensure
    trap("USR2", before || "DEFAULT")
  end

  def test_outside_of_a_trap_nothing_is_special
    refute_predicate Pelton::Threads, :trap?
    assert_same Thread.current, Pelton::Threads.outside_trap("pelton.test") { Thread.current }
  end

  def test_a_trap_gets_a_thread_on_which_locks_may_be_taken
    lock = Mutex.new
    assert_kind_of ThreadError, in_trap { lock.synchronize { 1 } }
    assert(in_trap { Pelton::Threads.trap? })
    seen = in_trap do
      Pelton::Threads.outside_trap("pelton.test") do
        lock.synchronize { [Thread.current.name, Pelton::Threads.list.size] }
      end
    end
    assert_equal "pelton.test", seen.first
    assert_operator seen.last, :>, 0
    assert_empty(Pelton::Threads.list.select { |thread| thread.name == "pelton.test" })
  end

  def test_threads_of_earlier_signals_are_not_kept
    200.times { in_trap { Pelton::Threads.after_trap("pelton.test.kept") { nil } } }
    # On a thread of its own: an Array of all of them, left on this one's stack, would keep them.
    Thread.new { Thread.list.each { |thread| thread.join if thread.name == "pelton.test.kept" } }.join
    GC.start
    kept = ObjectSpace.each_object(Thread).count { |thread| thread.name == "pelton.test.kept" }
    assert_operator kept, :<, 100
  end

  # It does not wait for the lock that the interrupted thread holds.
  def test_blocks_of_a_trap_run_after_it_in_order
    lock = Mutex.new
    seen = Thread::Queue.new
    lock.synchronize do
      in_trap { 20.times { |n| Pelton::Threads.after_trap("pelton.test") { lock.synchronize { seen << n } } } }
      assert_empty seen
    end
    eventually(20) { seen.size == 20 }
    assert_equal [*0...20], Array.new(20) { seen.pop }
    eventually(20) { Pelton::Threads.list.none? { |thread| thread.name == "pelton.test" } }
  end

  def test_an_error_of_a_block_after_a_trap_keeps_no_other_one_from_running
    seen = Thread::Queue.new
    in_trap do
      Pelton::Threads.after_trap("pelton.test") do
        Thread.current.report_on_exception = false
        raise IOError, "x"
      end
      Pelton::Threads.after_trap("pelton.test") { seen << 1 }
    end
    assert_equal 1, seen.pop
  end

  # The app is interrupted while it holds the lock that its close needs.
  def test_an_app_that_cannot_be_closed_in_a_trap_says_that_nothing_was_lost
    app = Pelton::App.new
    assert_equal 0, in_trap { app.close }
    lock = Mutex.new
    app = Pelton::App.new
    app.define_singleton_method(:shut) { |_| lock.synchronize { 3 } }
    assert_equal 0, (lock.synchronize { in_trap { app.close(timeout: 0.05) } })
    assert_equal 3, in_trap { app.close }
  end

  def test_a_trap_hears_of_an_error
    error = in_trap { Pelton::Threads.outside_trap("pelton.test") { raise IOError, "x" } }
    assert_kind_of IOError, error
  end

  def test_trap_does_not_wait_for_a_lock_of_the_interrupted_thread
    lock = Mutex.new
    done = Thread::Queue.new
    lock.synchronize do
      answer = in_trap do
        [Pelton::Threads.outside_trap("pelton.test", timeout: 0.05) { lock.synchronize { done << :done } }]
      end
      assert_equal [nil], answer
      assert_empty done
    end
    assert_equal :done, done.pop
  end
end
