# frozen_string_literal: true

require_relative "../test_helper"
require "weakref"
require "pelton/parallel/auto"

# `parallel: :auto`: what it chooses, and what it keeps.
class ParallelAutoTest < Minitest::Test
  Parallel = Pelton::Parallel

  def chosen(engines, inputs = %w[a b], job = ->(one) { one }, **options)
    said = Thread::Queue.new
    auto = Parallel::Auto.new(engines, **options) { |*facts| said << facts }
    assert auto.worth?(inputs.size)
    assert_equal inputs, auto.dispatch(inputs, job).values
    result = said.pop
    assert_equal result.first, auto.name
    yield auto if block_given?
    result
  ensure
    assert auto.close
  end

  def test_auto_takes_the_fastest
    inline = ->(one) { 2000.times { one.hash } && one }
    name, seconds, messages = chosen({ thread: Quick.new }, Array.new(50, "a"), inline)
    assert_equal :thread, name
    assert_operator seconds[:thread], :<, seconds[:inline]
    assert_includes (100..400), messages
  end

  # A pool without workers.
  class Pool
    def hold = self
    def let_go = nil
  end

  # Gives what it was given, at once.
  class Quick < Pool
    def worth?(_) = true
    def dispatch(inputs, _job, **) = Parallel::Lazy.new(inputs, ->(one) { one })
  end

  # Does the work thirty times: on a loaded machine, too, that takes longest.
  class Clumsy < Pool
    def worth?(_) = true
    def dispatch(inputs, job, **) = Parallel::Lazy.new(inputs, ->(one) { 30.times.map { job.call(one) }.last })
  end

  # Fails fast.
  class Failing < Pool
    def worth?(_) = true
    def dispatch(inputs, _job, **) = Parallel::Lazy.new(inputs, ->(_) { raise "no" })
  end

  def test_auto_stays_inline_where_nothing_is_faster
    inline = ->(one) { 500.times { one.hash } && one }
    assert_equal(:inline, chosen({ thread: Clumsy.new }, Array.new(50, "a"), inline) do |auto|
      refute auto.worth?(50), "inline dispatches nothing"
    end.first)
  end

  def test_auto_does_not_take_errors_for_speed
    inline = ->(one) { 500.times { one.hash } && one }
    name, seconds, = chosen({ ractor: Failing.new }, Array.new(50, "a"), inline)
    assert_equal [:inline, nil], [name, seconds[:ractor]]
    bad = ->(one) { 500.times { one.hash } && raise("all are bad") }
    said = Thread::Queue.new
    auto = Parallel::Auto.new({ thread: Failing.new }) { |engine, *| said << engine }
    auto.dispatch(%w[a b], bad).to_a
    assert_equal :thread, said.pop, "where inline fails as often"
  ensure
    auto&.close
  end

  def test_auto_measures_again
    said = Thread::Queue.new
    auto = Parallel::Auto.new({ thread: Quick.new }, again: 0) { |name, *| said << name }
    2.times do
      auto.dispatch(%w[a b], ->(one) { 2000.times { one.hash } && one }).values
      assert_equal :thread, said.pop
      eventually { Pelton::Threads.list.none? { |thread| thread.name == "pelton.parallel[auto]" } }
    end
  ensure
    assert auto.close
    auto.dispatch(%w[a], ->(one) { one }) # measures no more
    assert_empty(Pelton::Threads.list.select { |thread| thread.name == "pelton.parallel[auto]" })
  end

  # Slow for who must not be chosen, and remembers how often it is held.
  class Held < Clumsy
    attr_reader :held

    def initialize
      super
      @held = []
    end

    def hold = tap { @held << 1 }
    def let_go = @held << -1
  end

  def test_auto_holds_the_workers_that_it_chose_only
    slow = Held.new
    quick = Class.new(Held) { def dispatch(inputs, _job, **) = Parallel::Lazy.new(inputs, ->(one) { one }) }.new
    said = Thread::Queue.new
    auto = Parallel::Auto.new({ thread: slow, ractor: quick }, again: 0) { |name, *| said << name }
    2.times do |round|
      auto.dispatch(%w[a b], ->(one) { 2000.times { one.hash } && one }).values
      assert_equal :ractor, said.pop
      eventually(20) { Pelton::Threads.list.none? { |thread| thread.name == "pelton.parallel[auto]" } }
      assert_equal [[1, -1] * (round + 1), [1]], [slow.held, quick.held]
    end
  ensure
    assert auto.close
  end

  # Once in some rounds: an address on some stack may keep them alive.
  def test_auto_keeps_nothing_that_it_measured_with
    said = Thread::Queue.new
    auto = Parallel::Auto.new({ thread: Quick.new }, again: 0) { |name, *| said << name }
    eventually(20) do
      given = Thread.new { weak_inputs(auto) }.value
      said.pop
      eventually(20) { Pelton::Threads.list.none? { |thread| thread.name == "pelton.parallel[auto]" } }
      GC.start
      given.none?(&:weakref_alive?)
    end
  ensure
    assert auto.close
  end

  # Of what it was given, a hundred of them.
  def weak_inputs(auto)
    texts = Array.new(100) { |index| "text #{index}" }
    auto.dispatch(texts, ->(one) { one }).values
    texts.map { |text| WeakRef.new(text) }
  end
end
