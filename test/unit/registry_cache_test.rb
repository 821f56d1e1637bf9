# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/registry/cache"

# What a registry answered, and threads that are interrupted while they ask.
class RegistryCacheTest < Minitest::Test
  class Stop < Exception; end # rubocop:disable Lint/InheritException

  # Everybody who wanted the same waited for ever.
  def test_a_thread_that_is_interrupted_at_any_line_leaves_nobody_waiting
    points = 0
    %i[raise kill].each do |kind|
      (1..).each do |at|
        cache = Pelton::Registry::Cache.new
        break unless interrupted(kind, at) { fetch(cache) }

        points += 1
        other = Thread.new { fetch(cache) }
        assert other.join(10), "#{kind} at #{at}"
        assert_equal 7, other.value
      end
    end
    assert_operator points, :>, 10
  end

  def test_errors_that_are_kept
    cache = Pelton::Registry::Cache.new
    asked = 0
    1100.times do |key|
      assert_raises(Pelton::RegistryError) do
        cache.fetch(key, nil, ->(_) { 600 }) do
          asked += 1
          raise Pelton::RegistryError
        end
      end
    end
    assert_raises(Pelton::RegistryError) { cache.fetch(1099, nil, ->(_) { 600 }) { flunk "the last one is kept" } }
    assert_equal 8, cache.fetch(0, nil, ->(_) { 600 }) { 8 }, "the first one is not"
    assert_equal 1100, asked
  end

  private

  def fetch(cache) = cache.fetch(:a, nil, ->(_) { 1 }) { 7 }

  # Whether there was such a point.
  def interrupted(kind, at, &block)
    seen = 0
    orders = Thread::Queue.new
    done = Thread::Queue.new
    begun = Thread::Queue.new
    victim = Thread.new do
      Thread.current.report_on_exception = false
      begun.pop
      trace = TracePoint.new(:line, :return, :b_return) do |point|
        next unless Thread.current.equal?(victim) && point.path.end_with?("registry/cache.rb") && (seen += 1) == at

        orders << true
        done.pop
      end
      trace.enable(&block)
    end
    attacker = Thread.new { (kind == :kill ? victim.kill : victim.raise(Stop)) && (done << true) if orders.pop }
    begun << true
    begin
      victim.join
    rescue Stop
      nil
    end
    seen >= at
  ensure
    orders << nil
    attacker&.join
  end
end
