# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/ractor_pool"
require "support/ractor_process"

class RactorPoolTest < Minitest::Test
  include RactorProcess

  # Multiplies; frozen by the pool.
  class Times
    def initialize(factor) = @factor = factor
    def call(number) = number * @factor
  end

  # Keeps something that Ractors cannot share.
  class Keeper
    def initialize(inner) = @inner = inner
    def call(_) = @inner
  end

  if NEEDED
    def test_in_a_process_of_its_own = assert_passes_alone(__FILE__)
  elsif HERE
    def test_objects_modules_and_blocks
      pool = Pelton::RactorPool.new(size: 2)
      assert_equal [2, 4, 6], pool.map(1..3, Times.new(2))
      assert_equal %w[A B], pool.map(%w[a b], &:upcase)
      assert_equal [3], pool.map([2].each, ->(number) { number + 1 })
      assert_equal [], pool.map([]) { |number| number }
      assert_equal Array.new(1000) { |number| number * 3 }, pool.map(0...1000, Times.new(3))
      assert_predicate pool.map([1]) { |number| [number.to_s] }.first, :frozen?
    ensure
      assert pool.close
    end

    def test_once
      assert_equal [[1, 1], [2, 4]], Pelton::RactorPool.map([1, 2]) { |number| [number, number * number] }
      eventually(20) { Ractor.count == 1 }
    end

    def test_several_callers_and_results_as_they_come
      pool = Pelton::RactorPool.new(size: 3)
      rows = Array.new(8) { |row| Thread.new { pool.map(0..99) { |number| number + 1 }.sum + row } }.map(&:value)
      assert_equal Array.new(8) { |row| 5050 + row }, rows
      outcomes = pool.dispatch([4, 0, 2]) { |number| 8 / number }.to_a
      assert_equal [[2, nil], [4, nil]], outcomes.values_at(0, 2)
      assert_equal "ZeroDivisionError", outcomes[1].last.error_class
      assert_raises(Pelton::WorkError) { pool.map([1, 0]) { |number| 1 / number } }
      assert_raises(Pelton::WaitTimeout) { pool.map([1], timeout: 0.1) { |_| loop { nil } } }
      assert_equal [1], pool.map([1]) { |number| number }, "the worker was replaced"
    ensure
      assert pool.close
      assert_raises(Pelton::ClosedError) { pool.map([1]) { |number| number } }
    end

    def test_a_forked_child_has_its_own
      pool = Pelton::RactorPool.new(size: 2)
      assert_equal [2], pool.map([1], Times.new(2))
      assert_equal "[4]\n", in_child(limit: 60) { pool.map([2], Times.new(2)).inspect }
      assert_equal [6], pool.map([3], Times.new(2))
    ensure
      pool&.close
    end

    # It refers to itself, at once or by way of another.
    class Circle
      attr_accessor :inner, :cache

      def initialize = @inner = self
      def call(number) = number + 1
    end

    def test_objects_that_refer_to_themselves
      pool = Pelton::RactorPool.new(size: 1)
      assert_equal [2], pool.map([1], Circle.new), "frozen, it is shareable"
      wrong = Circle.new.tap { |circle| circle.cache = {} }
      far = Circle.new.tap { |circle| circle.inner = Circle.new.tap { |inner| inner.inner = circle } }
      { "of @cache, a Hash that is not frozen" => wrong, "of @inner, a #{Circle} that is not frozen" => far }
        .each do |text, job|
        assert_includes assert_raises(Pelton::ConfigError) { pool.map([1], job) }.message, text
      end
    ensure
      pool&.close
    end

    def test_invalid_arguments_are_refused
      pool = Pelton::RactorPool.new(size: 1)
      { "input 1 = String: is not shareable: a String that is not frozen" =>
          -> { pool.map([1, +"a"]) { |input| input } },
        "@inner, a Hash that is not frozen" => -> { pool.map([1], Keeper.new({})) },
        "@inner.@inner, a Hash that is not frozen" => -> { pool.map([1], Keeper.new(Keeper.new({}))) },
        "from variable 'pool'" => -> { pool.map([1]) { |_| pool } },
        "job = Integer" => -> { pool.map([1], 5) },
        "job = NilClass" => -> { pool.map([1]) },
        "job = Proc: cannot be shared with Ractors: write it" => -> { pool.map([1], &Integer.method(:sqrt)) },
        "inputs = Integer: expected an Array or Enumerable" => -> { pool.map(7, Times.new(1)) },
        "size = 0" => -> { Pelton::RactorPool.new(size: 0) } }.each do |text, call|
        assert_includes assert_raises(Pelton::ConfigError, &call).message, text
      end
      assert_raises(Pelton::ConfigError) { pool.map([1], Times.new(1), timeout: -1) }
    ensure
      pool&.close
    end
  else
    def test_ractors_on_an_old_ruby_raise_and_name_the_version
      error = assert_raises(Pelton::ConfigError) { Pelton::RactorPool.new }
      assert_equal "Pelton::RactorPool: needs Ruby 4.0 or later, this is Ruby #{RUBY_VERSION}", error.message
    end
  end
end
