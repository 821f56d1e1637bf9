# frozen_string_literal: true

require_relative "../test_helper"
require "weakref"
require "support/forked_child"
require "pelton/decoding/parallel/auto"

# `parallel: :auto`: what it chooses, what that costs, and what it keeps.
class ParallelAutoTest < Minitest::Test
  include ForkedChild

  Parallel = Pelton::Parallel

  # Dear enough to be no matter of inline's alone.
  DEAR = ->(input) { 2000.times { input.hash } && input }

  def auto(engines, **options)
    @said = Thread::Queue.new
    @auto = Parallel::Auto.new(engines, **options) { |*facts| @said << facts }
  end

  def teardown = assert(@auto.nil? || @auto.close(timeout: 20))

  # What it says after a trial with as many batches of these as it takes.
  def trial(inputs = Array.new(50, "a"), job = DEAR)
    eventually(60) do
      assert_equal inputs, @auto.dispatch(inputs, job).values
      !@said.empty?
    end
    eventually(20) { Pelton::Threads.list.none? { |thread| thread.name == "pelton.parallel[auto]" } }
    @said.pop.tap { |name, *| assert_equal name, @auto.name }
  end

  # A pool without workers.
  class Pool
    def retain = self
    def release = nil
    def worth?(_) = true
  end

  # Gives what it was given, at once.
  class Quick < Pool
    def dispatch(inputs, _job, **) = Parallel::Lazy.new(inputs, ->(input) { input })
  end

  # Does the work ten times: on a loaded machine, too, that takes longest.
  class Clumsy < Pool
    def dispatch(inputs, job, **) = Parallel::Lazy.new(inputs, ->(input) { 10.times.map { job.call(input) }.last })
  end

  # Fails fast.
  class Failing < Pool
    def dispatch(inputs, _job, **) = Parallel::Lazy.new(inputs, ->(_) { raise "no" })
  end

  def test_auto_takes_the_fastest_engine
    auto({ thread: Quick.new })
    assert @auto.worth?(50)
    name, seconds, messages = trial
    assert_equal :thread, name
    assert_equal %i[inline thread], seconds.keys
    assert_operator seconds[:thread], :<, seconds[:inline]
    assert_operator messages, :>=, 50 * ((2 * Parallel::Trial::ROUNDS) + 1)
    assert @auto.worth?(50)
  end

  def test_auto_stays_inline_when_no_engine_is_faster
    auto({ thread: Clumsy.new })
    assert_equal :inline, trial.first
    refute @auto.worth?(50), "inline dispatches nothing"
  end

  def test_errors_are_not_taken_for_speed
    auto({ ractor: Failing.new })
    eventually(60) do
      @auto.dispatch(["a"] * 50, DEAR).to_a
      !@said.empty?
    end
    name, seconds, = @said.pop
    assert_equal [:inline, nil], [name, seconds[:ractor]]
  end

  def test_an_engine_may_fail_where_inline_does
    auto({ thread: Failing.new })
    eventually(60) do
      @auto.dispatch(["a"] * 50, ->(input) { DEAR.call(input) && raise("all are bad") }).to_a
      !@said.empty?
    end
    assert_equal :thread, @said.pop.first
  end

  # Another 0.05 s are over whenever it is asked, so each engine takes that for its batches.
  class Ticking
    def now = @now = (@now || 0) + 0.05
  end

  # Seconds of a trial whose engines get batches of this size, by 8.
  def seconds(size)
    trial = Parallel::Trial.new({ thread: Quick.new }, clock: Ticking.new)
    100.times { trial.dispatch(Array.new(size, "a"), ->(input) { input }) }
    trial.run
  end

  def test_no_engine_is_tried_when_inline_takes_no_time
    cheap = seconds(700) # 8.9 µs a message
    assert_equal [:inline], cheap.keys
    assert_in_delta 0.05 / (8 * 700), cheap[:inline].sum, 1e-12
    assert_equal %i[inline thread], seconds(500).keys, "12.5 µs a message"
  end

  # A little faster is not enough to be chosen, and enough to stay.
  def test_noise_changes_nothing
    auto({ thread: Quick.new, ractor: Quick.new })
    assert_equal :inline, choice(thread: 0.9, ractor: 1.2)
    assert_equal :ractor, choice(thread: 0.9, ractor: 0.8)
    assert_equal :inline, choice({})
    trial
    assert_includes %i[thread ractor], name = @auto.name
    assert_equal name, choice({ name => 0.9 })
    assert_equal :inline, choice({ name => 0.96 })
  end

  def choice(shares) = @auto.send(:best, { inline: 1.0, **shares })

  # One slow round of the machine, in which all were slow, and one in which only this one was.
  def test_auto_compares_engines_round_by_round
    auto({})
    costs = { inline: [1.0, 1.0, 9.0, 1.0, 1.0], ractor: [0.5, 0.5, 4.5, 9.0, 0.5] }
    assert_equal({ inline: 1.0, ractor: 0.5 }, @auto.send(:ratios, costs))
  end

  # A pool that counts who is made.
  class Counting < Pool
    def initialize(made)
      super()
      @made = made
    end

    def dispatch(inputs, job, **) = Parallel::Lazy.new(inputs, job).tap { @made << inputs.size }
  end

  def test_a_trial_makes_everything_once
    calls = Hash.new(0).compare_by_identity
    job = ->(input) { DEAR.call(input).tap { calls[input] += 1 } }
    pool = Counting.new(made = [])
    auto({ thread: pool })
    all = []
    eventually(60) do
      all.concat(inputs = Array.new(20) { |index| "text #{index}" })
      assert_equal inputs, @auto.dispatch(inputs, job).values
      !@said.empty?
    end
    refute_empty made
    assert_equal [all.size, [1]], [calls.size, calls.values.uniq]
  end

  def test_the_first_are_there_while_the_last_are_in_work
    auto({ thread: Quick.new })
    go = Thread::Queue.new
    future = @auto.dispatch([*0..99], ->(input) { input < 99 ? input : go.pop })
    assert_equal [*0..49], future.first(50).map(&:first)
    refute_predicate future, :done?
    go << "last"
    assert_equal "last", future[99]
  end

  # Those of partitions that were revoked were made all the same, before those that somebody waits for.
  def test_cancelled_payloads_are_not_made
    auto({ thread: Quick.new })
    go = Thread::Queue.new
    first = @auto.dispatch([0], ->(_) { go.pop })
    eventually(20) { go.num_waiting == 1 }
    made = Thread::Queue.new
    futures = Array.new(20) { |number| @auto.dispatch([number], ->(input) { made << input }) }
    futures.first(19).each(&:cancel)
    go << 0
    assert_equal [0], first.values
    assert_kind_of Thread::Queue, futures.last[0]
    assert_equal [19], Array.new(made.size) { made.pop }
  end

  # Else whatever comes would wait behind it until its own time is over, for ever.
  def test_a_job_that_hangs_ends_the_trial
    auto({ thread: Quick.new })
    job = ->(input) { input == "hang" ? Thread::Queue.new.pop : input }
    assert_instance_of Pelton::WaitTimeout, @auto.dispatch(["hang"] * 50, job, timeout: 0.1).at(0).last
    eventually(20) { Pelton::Threads.list.none? { |thread| thread.name == "pelton.parallel[auto]" } }
    assert_equal ["a"] * 50, @auto.dispatch(["a"] * 50, job).values
    assert_equal :inline, @auto.name
  end

  def test_close_in_the_middle_of_measuring_leaves_no_thread_waiting
    auto({ thread: Quick.new })
    go = Thread::Queue.new
    futures = Array.new(3) { @auto.dispatch([*0..99], ->(_) { go.pop }) }
    waiter = Thread.new { futures.map { |future| future.at(99).last } }
    eventually(20) { waiter.status == "sleep" }
    assert @auto.close(timeout: 20)
    assert_equal [Pelton::CancelledError], waiter.value.map(&:class).uniq
    assert_equal [1], @auto.dispatch([1], ->(input) { input }).values, "inline"
    assert_empty(Pelton::Threads.list.select { |thread| thread.name == "pelton.parallel[auto]" })
  end

  # The trial's thread had not begun, so nobody gave the futures up.
  def test_close_right_after_a_dispatch_leaves_no_thread_waiting
    50.times do
      auto({ thread: Quick.new })
      future = @auto.dispatch([0], ->(_) { Thread::Queue.new.pop })
      assert @auto.close(timeout: 20)
      assert_kind_of Pelton::CancelledError, future.at(0).last
    end
  end

  def test_a_forked_child_does_not_wait_for_its_parents_trial
    auto({ thread: Quick.new })
    go = Thread::Queue.new
    future = @auto.dispatch([1], ->(_) { go.pop })
    output = in_child(limit: 60) { @auto.dispatch([2], ->(input) { input }).values == [2] }
    assert_equal "true\n", output
    go << 1
    assert_equal [1], future.values
  end

  def test_auto_repeats_its_measurement
    auto({ thread: Quick.new }, again: 0)
    2.times { assert_equal :thread, trial.first }
    assert @auto.close(timeout: 20)
    assert_equal %w[a], @auto.dispatch(%w[a], DEAR).values
    assert_empty @said, "it measures no more"
  end

  # Slow for who must not be chosen, and remembers how often it is held.
  class Held < Clumsy
    attr_reader :held

    def initialize
      super
      @held = []
    end

    def retain = tap { @held << 1 }
    def release = @held << -1
  end

  def test_auto_keeps_only_the_workers_of_the_chosen_engine
    slow = Held.new
    quick = Class.new(Held) { def dispatch(inputs, _job, **) = Parallel::Lazy.new(inputs, ->(input) { input }) }.new
    auto({ thread: slow, ractor: quick }, again: 0)
    2.times do |round|
      assert_equal :ractor, trial.first
      assert_equal [[1, -1] * (round + 1), [1]], [slow.held, quick.held]
    end
  end

  # Once in some rounds: an address on some stack may keep them alive.
  def test_auto_keeps_no_message_that_it_measured_with
    eventually(60) do
      auto({ thread: Quick.new })
      given = Thread.new { weak_inputs }.value
      assert @auto.close(timeout: 20)
      GC.start
      given.none?(&:weakref_alive?)
    end
  end

  # Of what it was given, a hundred of them.
  def weak_inputs
    texts = Array.new(100) { |index| "text #{index}" }
    trial(texts)
    texts.map { |text| WeakRef.new(text) }
  end
end
