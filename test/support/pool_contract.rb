# frozen_string_literal: true

require "weakref"
require "support/parallel_contract"

# The further contract of pools, which are engines with workers.
module PoolContract
  def setup
    bus = Pelton::Notifications.new
    @told = Thread::Queue.new
    %w[worker.replaced error.occurred].each { |name| bus.subscribe(name) { |event| @told << [name, event] } }
    @bus = bus
    super
  end

  def test_less_than_is_worth_it_is_not_dispatched
    future = @engine.dispatch(inputs([*numbers(49)]), decoder, timeout: 60)
    assert_kind_of Pelton::Parallel::Lazy, future
    assert_equal numbers(49), future.values
  end

  def test_waiting_thread_gets_an_error_in_time_and_the_worker_is_replaced
    payloads = inputs([{ "hang" => 1 }, *numbers(99)])
    future = @engine.dispatch(payloads, decoder, timeout: 0.3)
    error = assert_raises(Pelton::WaitTimeout) { future[0] }
    assert_match(/work of 100 inputs not finished after 0.3 s/, error.message)
    assert_raises(Pelton::WaitTimeout) { future[99] }
    list = inputs(numbers(100))
    eventually(20) { @engine.dispatch(list, decoder, timeout: 60).values && !@told.empty? }
    assert_equal "worker.replaced", @told.pop.first
    4.times { assert_equal numbers(100), @engine.dispatch(list, decoder, timeout: 60).values }
  end

  # Again and again: a worker that hangs has half of its dispatch's time, however late it came to it.
  def assert_serves(pool)
    list = inputs(numbers(100))
    eventually(20, "the values") { pool.dispatch(list, decoder, timeout: 1).map(&:first) == numbers(100) }
  end

  def test_a_pool_whose_workers_all_overran_has_as_many_again
    pool = engine(1)
    3.times do
      future = pool.dispatch(inputs([{ "hang" => 1 }, *numbers(99)]), decoder, timeout: 0.3)
      assert_raises(Pelton::WaitTimeout) { future[0] }
      assert_serves(pool)
    end
  ensure
    assert pool.close(timeout: 20)
  end

  def test_hanging_worker_is_replaced_without_a_waiting_thread
    pool = engine(1)
    list = inputs([*numbers(100), { "hang" => 1 }, *numbers(99)])
    assert_equal numbers(100), pool.dispatch(list.first(100).freeze, decoder, timeout: 60).values # it has begun
    future = nil
    eventually(20) do # on a busy machine, also the first task may be late
      (future = pool.dispatch(list, decoder, timeout: 3)).first == [{ "i" => 0 }, nil] # the worker has the second task
    end
    future.cancel
    eventually(20) { future.late? }
    assert_serves(pool)
  ensure
    assert pool.close(timeout: 20)
  end

  def test_cancel_during_the_work_ends_the_wait
    future = @engine.dispatch(last_at_the_gate, gated, timeout: 60)
    waiter = Thread.new { future[299] rescue $! } # rubocop:disable Style/RescueModifier
    assert_equal({ "i" => 0 }, future[0])
    future.cancel
    assert_kind_of Pelton::CancelledError, waiter.value
    assert_equal({ "i" => 0 }, future[0], "what was there is there")
    open_gate
    assert_equal numbers(100), @engine.dispatch(inputs(numbers(100)), decoder, timeout: 60).values
  end

  def test_a_cancelled_dispatch_is_not_begun
    busy = Array.new(4) { @engine.dispatch(last_at_the_gate, gated, timeout: 60) }
    future = @engine.dispatch(inputs([*numbers(99), { "die" => 1 }]), decoder, timeout: 60)
    future.cancel
    4.times { open_gate }
    busy.each(&:values)
    assert_equal numbers(100), @engine.dispatch(inputs(numbers(100)), decoder, timeout: 60).values
    assert @told.empty?, "a worker began it"
  end

  def test_a_worker_that_dies_is_replaced_and_costs_one_message
    payloads = [*numbers(150), { "die" => 1 }, *numbers(149)]
    future = @engine.dispatch(inputs(payloads), decoder, timeout: 60)
    assert_equal numbers(149), future.to_a.last(149).map(&:first)
    assert_equal numbers(150), future.first(150).map(&:first)
    error = assert_raises(Pelton::WorkerKilled) { future[150] }
    assert_match(/killed while it ran a job of pelton.parallel#\d+/, error.message)
    assert_equal %w[worker.replaced worker.replaced], Array.new(2) { @told.pop.first }
    assert_equal numbers(100), @engine.dispatch(inputs(numbers(100)), decoder, timeout: 60).values
  end

  def test_exit_ends_neither_worker_nor_process
    future = @engine.dispatch(inputs([*numbers(60), { "exit" => 1 }]), decoder, timeout: 60)
    _, error = future.to_a.last
    assert_includes [error.class.name, (error.error_class if error.is_a?(Pelton::WorkError))], "SystemExit"
    assert_predicate @told, :empty?
  end

  def test_killed_waiter_affects_no_other
    future = @engine.dispatch(last_at_the_gate, gated, timeout: 60)
    waiters = Array.new(4) { Thread.new { future.values } }
    eventually(20) { waiters.all? { |waiter| waiter.status == "sleep" } }
    waiters.first(3).each(&:kill).each(&:join)
    open_gate
    assert_equal 300, waiters.last.value.size
    assert_equal 300, future.values.size
  end

  # Several rounds, because an address on a stack may keep a task alive.
  def test_workers_that_rest_keep_nothing_alive
    eventually(20) do
      given = Thread.new { weak_inputs }.value
      GC.start
      given.none?(&:weakref_alive?)
    end
  end

  def test_unused_pool_ends_its_workers_and_restarts_them_on_use
    before = Thread.list
    @engine.retain.retain
    assert_equal numbers(100), @engine.dispatch(inputs(numbers(100)), decoder, timeout: 60).values
    @engine.release
    assert_equal numbers(100), @engine.dispatch(inputs(numbers(100)), decoder, timeout: 60).values
    refute_empty Thread.list - before
    @engine.release
    eventually(20) { (Thread.list - before).empty? }
    assert_equal numbers(100), @engine.dispatch(inputs(numbers(100)), decoder, timeout: 60).values
  end

  def test_released_pool_finishes_running_work
    future = @engine.retain.dispatch(last_at_the_gate, gated, timeout: 60)
    at_the_gate # a worker has the last task
    @engine.release
    open_gate
    assert_equal 300, future.values.size
  end

  def test_close_finishes_running_work_and_starts_none
    future = @engine.dispatch(last_at_the_gate, gated, timeout: 60)
    at_the_gate # a worker has the last task
    closing = Thread.new { @engine.close(timeout: 60) }
    eventually(20) { refused? }
    open_gate
    assert closing.value
    assert_equal 300, future.values.size
  end

  def test_close_ends_in_time_beside_hanging_work
    list = inputs([*numbers(249), { "gate" => 1 }, { "hang" => 1 }, *numbers(49)])
    future = @engine.dispatch(list, gated, timeout: 60)
    at_the_gate # a worker has the last task
    open_gate
    refute @engine.close(timeout: 0.2)
    assert_kind_of Pelton::ClosedError, future.to_a.last.last
  end

  def test_a_killed_dispatcher_is_replaced
    future = @engine.dispatch(last_at_the_gate, gated, timeout: 60)
    assert_equal({ "i" => 0 }, future[0])
    dispatcher = Pelton::Threads.list.find { |thread| thread.name == "pelton.parallel" }
    dispatcher.kill.join
    assert_raises(Pelton::ClosedError) { future[299] }
    assert_equal numbers(100), @engine.dispatch(inputs(numbers(100)), decoder, timeout: 60).values
  end

  def test_a_forked_child_has_workers_of_its_own
    list = inputs_of(Array.new(100) { |index| %({"i":#{index}}) })
    texts = list.map(&:raw_payload).map(&:freeze).freeze
    pending = @engine.dispatch(last_at_the_gate, gated, timeout: 60)
    assert_equal 100, @engine.dispatch(list, decoder, timeout: 60).values.size
    output = in_child(limit: 60) do
      mine = @engine.dispatch(texts, ParallelTexts, timeout: 30).values
      theirs = begin
        pending[299]
      rescue Pelton::ForkError
        :refused
      end
      @engine.close(timeout: 10) && mine == numbers(100) && theirs == :refused
    end
    assert_equal "true\n", output
    open_gate
    assert_equal 300, pending.values.size
  end

  def test_nothing_is_left_of_many_pools
    list = inputs(numbers(60))
    before = Thread.list
    1000.times do |round|
      pool = engine
      future = pool.dispatch(list, decoder, timeout: 60) if (round % 2).zero?
      assert_equal 60, future.values.size if (round % 4).zero?
      assert pool.close(timeout: 60)
    end
    assert_empty Thread.list - before
    eventually(20, -> { "#{Ractor.count} Ractors are left, one alone" }) { Ractor.count == 1 }
  end

  def test_while_garbage_is_collected_all_the_time
    list = inputs([*numbers(60), { "odd" => 1 }])
    GC.stress = true
    future = @engine.dispatch(list, decoder, timeout: 500)
    outcomes = future.to_a
    GC.stress = false
    assert_equal numbers(60), outcomes.first(60).map(&:first)
    assert outcomes.last.last
  ensure
    GC.stress = false
  end

  private

  def weak_inputs
    texts = Array.new(100) { |index| %({"i":#{index}}).freeze }.freeze
    assert_equal numbers(100), @engine.dispatch(texts, ParallelTexts, timeout: 60).values
    texts.map { |text| WeakRef.new(text) }
  end

  def refused?
    @engine.dispatch(inputs(numbers(50)), decoder, timeout: 60)
    false
  rescue Pelton::ClosedError
    true
  end
end
