# frozen_string_literal: true

# require "test_helper"   # at the top of every test/{unit,native,embedded,contract,assumptions}/*_test.rb

require_relative "support/guard"

root = File.expand_path("..", __dir__)
$LOAD_PATH.unshift(File.join(root, "lib"), __dir__)

# Minitest loads the plugins of all installed gems. One of them loads Rails, without an application.
ENV["MT_NO_PLUGINS"] = "1"

begin
  require "minitest"
rescue LoadError # a Ruby without gems: Debian's minitest will do
  found = Dir.glob("/usr/share/rubygems-integration/all/gems/minitest-*/lib").max
  $LOAD_PATH.push(found || abort("minitest is missing: bin/setup"), File.join(__dir__, "support/without_gems"))
end
require "minitest/autorun"
require "pelton/server/server" # tests name parts of it; Pelton loads it when a server starts

# Included in every test: a check for leaked threads, a failure if it asserts nothing, and a way to wait.
module PeltonTest
  # Threads that belong to the process, not to a test: they start with the first client and stay.
  LASTING = ["pelton.events", "pelton.fibers"].freeze

  def before_setup
    @threads_before = Thread.list
    super
  end

  def after_setup
    super
    @assertions_before = assertions
  end

  # Runs after the test, before its teardown. A test without an assertion cannot fail, so it is worth nothing.
  def before_teardown
    super
    flunk "this test asserts nothing" if failures.empty? && assertions == @assertions_before
  end

  def after_teardown
    super
    leaked = (Thread.list - @threads_before).reject { |thread| lasting?(thread) }
    deadline = now + (2 * Guard::PATIENCE)
    leaked.reject! { |thread| thread.join([deadline - now, 0].max) }
    names = leaked.map { |thread| thread.name || thread.inspect }
    leaked.each(&:kill) # or the next test would fail, too
    assert_empty names, "leaked Ruby threads"
  end

  # test/run.rb repeats it: nobody reads the output of a file that passed.
  #: (?String) -> bot
  def skip(reason = nil, *)
    puts "skipped: #{self.class}##{name}: #{reason}"
    super
  end

  # Waits until the block is true and returns what it gave; fails after `timeout` seconds, times Guard::PATIENCE. The
  # only place in the tests that polls. Where a test can wait for an event, it does that instead. A condition
  # that stands in a test file counts as an assertion of its test.
  #: (?Numeric, ?(String | ^() -> String)) { () -> untyped } -> untyped
  def eventually(timeout = 5, what = "the condition", &condition)
    timeout *= Guard::PATIENCE
    deadline = now + timeout
    self.assertions += 1 if condition.source_location.first.end_with?("_test.rb")
    loop do
      value = condition.call
      return value if value

      flunk "#{what.is_a?(Proc) ? what.call : what} was not true within #{timeout} s" if now > deadline
      IO.select(nil, nil, nil, 0.005)
    end
  end

  # The block does its work in less than `limit` seconds: the limit is for an idle machine, and a busy one may steal the
  # time of one try, or of a few, but never of each.
  #: (Numeric, ?String) { () -> void } -> void
  def assert_quick(limit, what = "the work", &block)
    times = Array.new(10) do
      seconds(&block).tap { |taken| return pass if taken < limit }
    end
    flunk "#{what} took #{times.map { |taken| taken.round(3) }} s, not less than #{limit}"
  end

  # Seconds that the block took.
  #: () { () -> void } -> Float
  def seconds
    started = now
    yield
    now - started
  end

  # Objects that the block makes: the fewest of some times, for other threads may be making theirs beside it.
  #: () { () -> void } -> Integer
  def allocations
    Array.new(5) do
      before = GC.stat(:total_allocated_objects)
      yield
      GC.stat(:total_allocated_objects) - before
    end.min
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  private

  def lasting?(thread)
    LASTING.include?(thread.name) ||
      thread.name.to_s.start_with?("Timeout") || thread.thread_variable?("\0__detached_thread__") # Ruby's timeout.rb
  end
end

Minitest::Test.include(PeltonTest)
