# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"
require "support/small_scheduler"

# Borrowing producers, on the fake native side.
class ProducerPoolTest < Minitest::Test
  include FakeTransactions

  def setup
    super
    @pools = []
  end

  def teardown
    @pools.each { |pool| pool.close(timeout: 5) }
    super
  end

  def pool(size: 2, timeout: 5, kafka: {}, &options)
    Pelton::ProducerPool.new(@config, size: size, timeout: timeout, bus: @bus, native: @module, kafka: kafka, &options)
                        .tap { |pool| @pools << pool }
  end

  def ids = @native.producers.map { |made| made.config["transactional.id"] }

  # A thread that borrows and holds until it is told to go on; returns it and the queue that tells.
  def holder(pool)
    inside = Thread::Queue.new
    go_on = Thread::Queue.new
    thread = Pelton::Threads.start("test") { pool.with { |producer| inside.push(producer) && go_on.pop } }
    [inside.pop, go_on, thread]
  end

  def test_pool_has_five_producers_and_waits_five_seconds_unless_told_otherwise
    app = Pelton::App.new(native: @module)
    app.configure { |config| config.kafka = { "bootstrap.servers" => "x:1" } }
    pools = [Pelton::ProducerPool.new(@config, native: @module, kafka: { "transactional.id" => "u" }),
             app.producer_pool(kafka: { "transactional.id" => "v" })]
    @pools.concat(pools)
    assert_equal([[5, 5]] * 2, pools.map { |pool| [pool.size, pool.timeout] })
  end

  # The message said that a client had opened: a producer, admin, each or start.
  def test_setting_after_a_pool_did_not_say_what_froze_the_configuration
    app = Pelton::App.new(native: @module)
    line = __LINE__ + 1
    @pools << app.producer_pool(kafka: { "transactional.id" => "v" })
    reason = "configuration is frozen since the call of `producer_pool` in #{__FILE__.delete_prefix("#{Dir.pwd}/")}:" \
             "#{line}: set it before that line"
    late = [-> { app.config.group_id = "late" }, -> { app.config.polling.max_time = 3 }]
    assert_equal ["group_id = \"late\": #{reason}", "polling.max_time = 3: #{reason}"],
                 late.map { |set| assert_raises(Pelton::ConfigError, &set).message }
    app.reset!
    late.each(&:call)
    app.producer
    assert_match(/since the call of `producer` in/, assert_raises(Pelton::ConfigError, &late.first).message)
  end

  def test_each_has_an_id_of_its_own
    producers = pool
    assert_equal(1, producers.transaction { 1 })
    assert_equal ["t-0"], ids, "the others open when they are borrowed"
    _, go_on, thread = holder(producers)
    producers.transaction { 1 }
    go_on << 1
    thread.join
    assert_equal %w[t-0 t-1], ids
  end

  def test_ids_and_options_by_the_block
    own = pool(kafka: { "linger.ms" => 7 }) { |index| { "transactional.id" => "worker-3-#{index}" } }
    own.transaction { 1 }
    assert_equal %w[worker-3-0 7], fake.config.values_at("transactional.id", "linger.ms")
  end

  def test_a_block_within_the_block_gets_the_same_producer
    producers = pool(size: 1)
    producers.with do |outer|
      producers.with { |inner| assert_same outer, inner }
      producers.transaction { |tx| producers.transaction { |inner| assert_same tx, inner } }
    end
    assert_equal %i[begin commit], fake.steps
  end

  def test_producer_returns_to_the_pool_however_the_block_ends
    producers = pool(size: 1, timeout: 0)
    assert_raises(ZeroDivisionError) { producers.with { 1 / 0 } }
    assert_equal(3, producers.with { break 3 })
    inside = Thread::Queue.new
    thread = Pelton::Threads.start("test") { producers.with { inside.push(1) && Thread.stop } }
    inside.pop
    thread.kill.join
    assert_equal(4, producers.with { 4 })
  end

  def test_nothing_in_time
    producers = pool(size: 1, timeout: 0.05)
    _, go_on, thread = holder(producers)
    error = nil
    taken = seconds { error = assert_raises(Pelton::PoolTimeout) { producers.with { flunk } } }
    assert_operator taken, :>=, 0.05
    assert_equal "none of the pool's 1 producers was free within 0.05 s: raise its size or timeout", error.message
    go_on << 1
    thread.join
    assert_equal(1, producers.with { 1 })
  end

  def test_waiting_threads_are_served_in_order
    producers = pool(size: 1)
    _, go_on, thread = holder(producers)
    order = Thread::Queue.new
    others = Array.new(10) do |index|
      Pelton::Threads.start("test") { producers.with { order << index } }.tap { |other| eventually { other.stop? } }
    end
    go_on << 1
    Pelton::Threads.join([thread, *others])
    assert_equal (0...10).to_a, Array.new(10) { order.pop }
  end

  def test_two_threads_never_share_a_pool_producer
    three = pool(size: 3)
    users = Hash.new(0).compare_by_identity
    lock = Mutex.new
    most = 0
    threads = Array.new(12) do
      Pelton::Threads.start("test") do
        50.times do
          three.with do |producer|
            most = [most, lock.synchronize { users[producer] += 1 }].max
            Thread.pass
            lock.synchronize { users[producer] -= 1 }
          end
        end
      end
    end
    Pelton::Threads.join(threads)
    assert_equal [1, 3], [most, users.size]
  end

  def test_an_interrupt_while_a_producer_is_lent_loses_none
    stop = Class.new(StandardError)
    producers = pool(size: 1, timeout: 0)
    free = producers.instance_variable_get(:@free)
    free.define_singleton_method(:pop) { super().tap { Thread.current.raise(stop) } }
    assert_raises(stop) { producers.with { flunk } }
    free.singleton_class.remove_method(:pop)
    assert_equal(1, producers.with { 1 })
  end

  # Whoever is killed while it waits, even when it was just served, keeps nothing.
  def test_killed_waiters
    producers = pool(size: 2)
    200.times do
      threads = Array.new(6) { Pelton::Threads.start("test") { 3.times { producers.with { Thread.pass } } } }
      threads.each_with_index { |thread, index| index.even? && Thread.pass && thread.kill }
      assert_empty Pelton::Threads.join(threads, 10 * Guard::PATIENCE)
    end
    held, go_on, thread = holder(producers)
    producers.with { |other| refute_same held, other }
    go_on << 1
    thread.join
  end

  def test_a_fiber_that_is_dropped_with_its_thread_gives_its_producer_back
    producers = pool(size: 1, timeout: 0)
    Pelton::Threads.start("test") { Fiber.new { producers.with { Fiber.yield } }.resume }.join
    assert_equal(1, producers.with { 1 })
  end

  def test_fibers_wait_for_each_other
    producers = pool(size: 1)
    order = []
    SmallScheduler.run do
      5.times do |index|
        Fiber.schedule do
          producers.transaction do
            order << [:in, index]
            sleep_a_moment
            order << [:out, index]
          end
        end
      end
    end
    assert_equal (0...5).flat_map { |index| [[:in, index], [:out, index]] }, order
  end

  def sleep_a_moment = Thread::Queue.new.then { |queue| IO.select(nil, nil, nil, 0.001) && queue }

  # --- the end ---

  def test_close_waits_for_checked_out_producers
    producers = pool
    producer, go_on, thread = holder(producers)
    closer = Pelton::Threads.start("test") { producers.close }
    eventually { closer.stop? && producers.closed? }
    refute_predicate producer, :closed?
    assert_raises(Pelton::ClosedError) { producers.with { flunk } }
    go_on << 1
    Pelton::Threads.join([thread, closer])
    assert_predicate producer, :closed?
  end

  def test_close_ends_at_its_timeout
    producers = pool
    producer, go_on, thread = holder(producers)
    assert_operator seconds { producers.close(timeout: 0.05) }, :<, 30
    assert_predicate producer, :closed?
    go_on << 1
    thread.join
  end

  def test_close_raises_in_threads_that_wait_for_a_producer
    producers = pool(size: 1)
    _, go_on, thread = holder(producers)
    errors = Thread::Queue.new
    waiting = Pelton::Threads.start("test", report: ->(e) { errors << e }) { producers.with { flunk } }
    eventually { waiting.stop? }
    closer = Pelton::Threads.start("test") { producers.close }
    assert_kind_of Pelton::ClosedError, errors.pop
    go_on << 1
    Pelton::Threads.join([thread, waiting, closer])
  end

  def test_close_by_the_code_that_checked_out_a_producer_raises
    producers = pool
    assert_raises(Pelton::TransactionError) { producers.with { producers.close } }
    assert_equal(1, producers.with { 1 })
  end

  def test_close_counts_undelivered_messages
    producers = pool
    producers.with { |producer| producer.transaction { 1 } }
    fake.undelivered = 3
    assert_equal 3, producers.close
  end

  def test_reload_opens_new_producers
    producers = pool
    producers.transaction { 1 }
    old = fake
    assert_equal 0, producers.reload
    assert_equal(2, producers.transaction { 2 })
    refute_same old, fake
    assert_equal %w[t-0 t-0], ids
  end

  # --- forks ---

  def in_child
    reader, writer = IO.pipe
    pid = fork do
      writer.write(yield)
    rescue StandardError => e
      writer.write("#{e.class}: #{e.message}")
    ensure
      writer.close
      exit!(0)
    end
    writer.close
    Process.wait(pid)
    reader.read
  end

  def test_a_child_has_producers_of_its_own
    own = pool { |index| { "transactional.id" => "#{Process.pid}-#{index}" } }
    own.with do |parents|
      said = in_child do
        lent = own.with { |producer| producer.transaction { producer.equal?(parents) } }
        "#{lent} #{own.close(timeout: 1)} #{parents.closed?} #{Process.pid}-0 #{ids.last}"
      end
      assert_match(/\Afalse 0 false (\d+-0) \1\z/, said)
    end
  end

  # The child would fence the parent, and each other child.
  def test_fixed_ids_are_for_one_process
    producers = pool
    assert_match(/ForkError: the pool of producers with transactional.id t was opened in process #{Process.pid}/,
                 in_child { producers.with { "lent" } })
  end

  # Reloaded in the child, it is still the parent's ids.
  def test_fixed_ids_are_for_one_process_after_a_reload_and_beside_a_block
    [pool, pool { { "linger.ms" => 1 } }].each do |producers|
      assert_match(/ForkError: .* in process #{Process.pid} /,
                   in_child { producers.reload && producers.with { "lent" } })
    end
  end

  # --- wrong use ---

  def test_a_wrong_size
    [0, nil, 1.0].each { |size| assert_raises(Pelton::ConfigError) { pool(size: size) } }
  end

  def test_a_timeout_that_is_no_time
    [-1, nil, "5", Float::NAN, Float::INFINITY, Complex(1, 2)].each do |timeout|
      assert_match(/timeout/, assert_raises(Pelton::ConfigError) { pool(timeout: timeout) }.message)
    end
  end

  def test_a_timeout_that_ruby_cannot_wait_for
    producers = pool(size: 1, timeout: 1e300)
    _, go_on, thread = holder(producers)
    other = Pelton::Threads.start("test") { producers.with { :lent } }
    eventually { other.stop? }
    go_on << 1
    assert_equal :lent, other.value
    thread.join
  end

  def test_options_that_are_none_are_refused_and_not_shown
    [nil, "sasl.password=hunter2", ["hunter2"], 5].each do |options|
      calls = [-> { pool(kafka: options) }, -> { pool { options }.with { flunk } }]
      calls.each { |call| refute_match(/hunter2/, assert_raises(Pelton::ConfigError, &call).message) }
    end
    assert_empty @native.producers
  end

  # They would fence each other.
  def test_never_two_producers_with_one_id
    @config.kafka = {}
    key = :"transactional.id"
    kinds = [pool(kafka: { key => "s" }), pool(kafka: { "transactional.id" => "s" }) { { "linger.ms" => 1 } },
             pool(kafka: { "transactional.id" => "other" }) { |index| { key => "s-#{index}" } }]
    kinds.each do |producers|
      _, go_on, thread = holder(producers)
      producers.transaction { producers.with { 1 } }
      go_on << 1
      thread.join
      producers.transaction { 1 }
      producers.close
    end
    assert_equal %w[s-1 s-0] * 3, ids
  end

  def test_producer_closed_inside_its_block_is_replaced
    producers = pool(size: 1)
    2.times { producers.with { |producer| producer.transaction { 1 } && producer.close } }
    assert_equal(2, producers.transaction { 2 })
    assert_equal %w[t-0 t-0 t-0], ids
  end

  def test_waiter_for_a_closed_producer_gets_a_new_one
    producers = pool(size: 1)
    producer, go_on, thread = holder(producers)
    waiting = Pelton::Threads.start("test") { producers.with { |other| [other.equal?(producer), other.closed?] } }
    eventually { waiting.stop? }
    producer.close
    go_on << 1
    assert_equal [false, false], waiting.value
    thread.join
  end

  def test_wrong_options_of_one_call_do_not_affect_other_calls
    producers = pool(size: 1) { |index| (@calls = @calls.to_i + 1) == 1 ? nil : { "transactional.id" => "x#{index}" } }
    assert_raises(Pelton::ConfigError) { producers.with { flunk } }
    assert_equal(1, producers.transaction { 1 })
  end

  def test_the_app_closes_its_pools
    app = Pelton::App.new(native: @module)
    app.configure { |config| config.kafka = { "transactional.id" => "t" } }
    producers = app.producer_pool(size: 3)
    producers.transaction { 1 }
    assert_equal 0, app.close
    assert_predicate producers, :closed?
  end

  def test_the_app_closes_a_pool_that_was_closed_and_reloaded
    app = Pelton::App.new(native: @module)
    app.configure { |config| config.kafka = { "transactional.id" => "t" } }
    producers = app.producer_pool
    producers.close
    other = app.producer_pool
    producers.reload
    producers.transaction { 1 }
    app.close
    assert_equal [true, true], [producers, other].map(&:closed?)
  end
end
