# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/registry/cache"
require "support/forked_child"

# What a registry answered, and threads that are interrupted while they ask.
class RegistryCacheTest < Minitest::Test
  include ForkedChild

  class Stop < Exception; end # rubocop:disable Lint/InheritException

  # Everybody who wanted the same waited for ever.
  def test_thread_interrupted_at_any_line_leaves_no_other_waiting
    points = 0
    %i[raise kill].product([false, true]).each do |kind, expired|
      (1..).each do |at|
        cache = Pelton::Registry::Cache.new
        cache.fetch(:a, 0, ->(_) { 1 }) { 6 } if expired
        break unless interrupted(kind, at) { fetch(cache) }

        points += 1
        other = Thread.new { fetch(cache) }
        assert other.join(10 * Guard::PATIENCE), "#{kind} at #{at}"
        assert_equal 7, other.value
      end
    end
    assert_operator points, :>, 20
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

  # An outage of the registry stopped producers whose schema is "latest", though the last one was known.
  def test_known_schemas_are_used_while_no_registry_answers
    cache = Pelton::Registry::Cache.new
    answers = [[nil, nil], [503, nil], [404, 40_403]].map do |status, code|
      Pelton::RegistryError.new("x", status: status, code: code)
    end
    ask = ->(&look_up) { cache.fetch(:a, 0, ->(_) { 0 }, &look_up) }
    assert_raises(Pelton::RegistryError) { ask.call { raise answers[0] } }
    assert_equal 1, ask.call { 1 }
    assert_equal [1, 1], (answers.first(2).map { |error| ask.call { raise error } })
    assert_equal 2, ask.call { 2 }
    assert_equal 2, ask.call { raise answers[0] }
    assert_raises(Pelton::RegistryError, "it is said to be gone") { ask.call { raise answers[2] } }
    assert_raises(Pelton::RegistryError) { ask.call { raise answers[0] } }
  end

  # An outage stopped each produce for all timeouts of the request, again and again.
  def test_known_schema_is_used_while_the_registry_hangs
    cache = Pelton::Registry::Cache.new(patience: 0.01)
    gate = Thread::Queue.new
    asked = Thread::Queue.new
    ask = lambda do |ttl = 0|
      cache.fetch(:a, ttl, ->(_) { 0 }) do
        asked << true
        gate.pop
      end
    end
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { 1 }
    assert_equal [1, 1, 1], Array.new(3) { ask.call }, "while nothing answers"
    asked.pop
    assert_empty asked, "one request for all"
    gate << 2
    renewals.each { |thread| assert thread.join(10 * Guard::PATIENCE) }
    cache = Pelton::Registry::Cache.new
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { 1 }
    gate << 3
    assert_equal 3, ask.call(600), "who can get the new one within the patience, gets it"
    assert_equal 3, ask.call
  end

  def test_expired_schema_is_used_for_a_longer_time_after_an_outage
    cache = Pelton::Registry::Cache.new(outage: 600)
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { 1 }
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { raise Pelton::RegistryError }
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { flunk "asks again" }
  end

  def test_unexpected_error_of_a_renewal_is_raised_where_it_was_wanted
    cache = Pelton::Registry::Cache.new
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { 1 }
    2.times { assert_raises(KeyError) { cache.fetch(:a, 0, ->(_) { 0 }) { raise KeyError } } }
    assert_equal 2, cache.fetch(:a, 0, ->(_) { 0 }) { 2 }
  end

  # Its request ran on a thread of the parent.
  def test_forked_child_asks_for_a_newer_schema_by_itself
    cache = Pelton::Registry::Cache.new(patience: 0.01)
    gate = Thread::Queue.new
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { 1 }
    assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { gate.pop }
    in_child { nil until cache.fetch(:a, 0, ->(_) { 0 }) { 2 } == 2 }
    gate << 1
    renewals.each { |thread| assert thread.join(10 * Guard::PATIENCE) }
  end

  def test_status_500_is_retried_and_status_499_is_an_answer
    { 500 => 1, 499 => nil }.each do |status, known|
      cache = Pelton::Registry::Cache.new
      assert_equal 1, cache.fetch(:a, 0, ->(_) { 0 }) { 1 }
      ask = -> { cache.fetch(:a, 0, ->(_) { 0 }) { raise Pelton::RegistryError.new("x", status: status) } }
      known ? assert_equal(known, ask.call) : assert_raises(Pelton::RegistryError, &ask)
    end
  end

  def test_each_caller_has_an_error_object_of_its_own
    cache = Pelton::Registry::Cache.new
    errors = Array.new(3) do
      assert_raises(Pelton::RegistryError) do
        cache.fetch(:a, nil, ->(_) { 600 }) { raise Pelton::RegistryError.new("x", status: 404) }
      end
    end
    assert_equal 3, errors.map(&:object_id).uniq.size
    assert_equal [404], errors.map(&:status).uniq
  end

  # Not for each message a question that nobody answers.
  def test_waiting_schema_is_requested_again_after_a_failed_request
    cache = Pelton::Registry::Cache.new
    asked = 0
    down = lambda do
      asked += 1
      raise Pelton::RegistryError
    end
    cache.fetch(:a, 0, ->(_) { 0 }) { 1 }
    assert_equal([1, 1, 1], Array.new(3) { cache.fetch(:a, 600, ->(_) { 0 }, &down) })
    assert_equal 1, asked
  end

  private

  def renewals = Pelton::Threads.list.select { |thread| thread.name == "pelton.registry" }

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
