# frozen_string_literal: true

require "test_helper"
require "support/fakes"

# memory.full: fetched messages take all of config.memory.
class MemoryWatchTest < Minitest::Test
  MB = 1 << 20

  def setup
    @held = { fetched: 0, batches: 0 }
    @config = Pelton::Config.new
    @config.memory = "32MB"
    Pelton::MemoryBudget.apply(@config, Fakes::Native.new.to_module)
    held = @held
    native = Module.new { define_singleton_method(:memory) { held } }
    bus = Pelton::Notifications.new
    @published = []
    bus.subscribe("memory.full") { |event| @published << event.payload }
    @watch = Pelton::MemoryWatch.new(@config, bus, native)
    @begin = Pelton::Clock.now
  end

  def check(seconds, fetched, batches)
    @held.update(fetched: fetched * MB, batches: batches * MB)
    Pelton::Clock.stub(:now, @begin + seconds) { @watch.check }
    @published.map { |payload| payload[:seconds].round }
  end

  def test_memory_that_is_full_for_five_seconds_is_published_and_again_after_a_minute
    assert_empty check(0, 16, 16)
    assert_empty check(4.9, 20, 12)
    assert_equal [5], check(5, 30, 4)
    assert_equal({ bytes: 34 * MB, budget: 32 * MB, seconds: 5.0 }, @published.last.merge(seconds: 5.0))
    assert_equal [5], check(64.9, 30, 2)
    assert_equal [5, 65], check(65, 30, 2)
    assert_equal [5, 65, 125], check(125, 30, 2)
  end

  def test_memory_that_is_full_for_a_moment_is_not_published
    assert_empty check(0, 32, 0)
    assert_empty check(4, 31, 0)
    assert_empty check(8, 0, 32), "it began anew"
    assert_empty check(12, 0, 32)
    assert_equal [5], check(13, 0, 32)
    assert_equal [5], check(14, 0, 0)
    assert_equal [5], check(15, 32, 0)
    assert_equal [5, 5], check(20, 32, 0), "the minute is over when it was not full"
  end
end
