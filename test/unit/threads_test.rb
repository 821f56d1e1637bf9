# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/threads"

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

  def test_join_returns_who_is_left
    gate = Thread::Queue.new
    long = Pelton::Threads.start("pelton.long") { gate.pop }
    short = Pelton::Threads.start("pelton.short") { nil }
    assert_equal [long], Pelton::Threads.join([short, long, Thread.current], 0.02)
    gate << :go
    assert_empty Pelton::Threads.join([short, long])
  end
end
