# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"

# What comes after a fatal error, on the fake native side.
class RenewalTest < Minitest::Test
  include FakeTransactions

  def test_a_fatal_error_replaces_the_client
    producer.transaction { 1 }
    first = fake
    raised = assert_raises(Pelton::KafkaError) do
      producer.transaction do
        fake.fatal_error = error(46, fatal: true)
        producer.produce_async(**row)
      end
    end
    assert_predicate raised, :fatal?
    assert_equal 2, producer.transaction { 2 }
    refute_same first, fake
    assert first.instance_variable_get(:@closed)
    assert_equal %w[transaction.committed producer.fatal transaction.aborted producer.reloaded transaction.committed],
                 names
    fatal, reloaded = @events.values_at(1, 3)
    assert_equal [46, 1, false], [fatal[:error].code, fatal[:attempt], fatal[:final]], "code, attempt, final"
    assert_equal [46, 1], [reloaded[:error].code, reloaded[:attempt]]
  end

  def test_a_flush_behind_a_new_client_was_true_although_messages_failed
    producer.transaction { 1 }
    fake.failures = [["orders", -192, :_MSG_TIMED_OUT, 3]]
    refute producer.flush
    assert producer.flush
    2.times do
      fake.fatal_error = error(46, fatal: true)
      producer.transaction { 1 }
    end
    assert_equal 3, @native.producers.size
    assert producer.flush
    fake.failures = [["orders", -192, :_MSG_TIMED_OUT, 1]]
    refute producer.flush, "one more failed"
    assert_equal({ "orders" => { _MSG_TIMED_OUT: 4 } }, producer.failures)
    assert_equal 1, producer.client.failures.size, "a row for each kind, however many clients there were"
  end

  def test_failures_were_missing_while_a_failed_client_was_being_closed
    producer.transaction { 1 }
    old = fake
    old.failures = [["orders", -192, :_MSG_TIMED_OUT, 3]]
    renewal = producer.instance_variable_get(:@native).instance_variable_get(:@replacement)
    seen = []
    old.define_singleton_method(:close) do |timeout|
      seen << renewal.failures
      super(timeout)
    end
    old.fatal_error = error(46, fatal: true)
    producer.transaction { 1 }
    assert_equal [[["orders", -192, :_MSG_TIMED_OUT, 3]]] * 2, [*seen, renewal.failures]
  end

  def test_a_fatal_error_at_the_begin_costs_only_time
    @native.prepare = failing(:begin, error(48, fatal: true), error(48, fatal: true))
    assert_equal 2, producer.transaction { 2 }
    assert_equal 3, @native.producers.size
  end

  def test_init_transactions_after_a_fatal_error_opens_another_client
    @config.reload_attempts = 2
    @native.prepare = failing(:begin, error(48, fatal: true), error(48, fatal: true))
    producer.init_transactions
    assert_equal 3, @native.producers.size
    @native.prepare = failing(:begin, error(48, fatal: true))
    fake.fatal_error = error(48, fatal: true)
    producer.init_transactions
    assert_equal 5, @native.producers.size, "failures count from 0 again"
    fatal = @events.select { |event| event.name == "producer.fatal" }
    assert_equal([false] * 4, fatal.map { |event| event[:final] })
  end

  def test_init_transactions_of_a_fenced_producer_raises
    @native.prepare = failing(:begin, error(-144, fatal: true))
    2.times { assert_predicate assert_raises(Pelton::KafkaError) { producer.init_transactions }, :fenced? }
    assert_equal [%w[producer.fatal], 1], [names, @native.producers.size]
  end

  def test_replacing_ends_some_time
    @config.reload_attempts = 3
    @native.prepare = ->(made) { made.on_step = ->(*) { raise error(48, fatal: true) } }
    2.times { assert_predicate assert_raises(Pelton::KafkaError) { producer.transaction { 1 } }, :fatal? }
    assert_equal 4, @native.producers.size
    fatal = @events.select { |event| event.name == "producer.fatal" }
    assert_equal [false, false, false, true], (fatal.map { |event| event[:final] })
  end

  def test_replacing_is_switched_off_by_0
    @config.reload_attempts = 0
    @native.prepare = failing(:begin, error(48, fatal: true))
    2.times { assert_predicate assert_raises(Pelton::KafkaError) { producer.transaction { 1 } }, :fatal? }
    assert_equal 1, @native.producers.size
  end

  def test_a_success_counts_from_the_start_again
    @config.reload_attempts = 2
    5.times do
      fake&.fatal_error = error(48, fatal: true)
      producer.transaction { 1 }
    end
    assert_equal 5, @native.producers.size
  end

  def test_fenced_is_final
    @native.prepare = failing(:begin, error(-144, fatal: true))
    2.times { assert_predicate assert_raises(Pelton::KafkaError) { producer.transaction { 1 } }, :fenced? }
    assert_equal 1, @native.producers.size
  end

  def test_a_transaction_that_outlived_its_time_is_not_fenced
    @config.kafka = { "transactional.id" => "t", "transaction.timeout.ms" => "10" }
    raised = assert_raises(Pelton::TransactionTimeout) do
      producer.transaction do
        began = Pelton::Clock.now
        eventually { Pelton::Clock.now - began > 0.02 }
        fake.fatal_error = error(-144, fatal: true)
        producer.produce_async(**row)
      end
    end
    assert_equal [-144, true, false, 0.01], [raised.code, raised.fatal?, raised.fenced?, raised.limit]
    assert_match(/the transaction ran \d+\.\d s, longer than transaction.timeout.ms \(0.01 s\)/, raised.message)
    assert_equal 2, producer.transaction { 2 }
    fatal = @events.find { |event| event.name == "producer.fatal" }
    assert_equal [Pelton::TransactionTimeout, false], [fatal[:error].class, fatal[:final]]
  end

  def test_error_that_fences_in_time_is_fenced
    producer.transaction { 1 }
    raised = assert_raises(Pelton::KafkaError) do
      producer.transaction { raise fake.fatal_error = error(-144, fatal: true) }
    end
    assert_predicate raised, :fenced?
    assert_equal true, @events.find { |event| event.name == "producer.fatal" }[:final]
  end

  # A revoked partition published a failure for its operator, because its next owner's producer fenced this one.
  def test_fenced_producer_of_a_partition_that_moves_publishes_no_fatal_error
    @producer = Pelton::Producer.new(@config, bus: @bus, native: @module, moves: true)
    @native.prepare = failing(:begin, error(48, fatal: true), error(-144, fatal: true))
    2.times { assert_predicate assert_raises(Pelton::KafkaError) { producer.transaction { 1 } }, :fenced? }
    fatal = @events.select { |event| event.name == "producer.fatal" }
    assert_equal([48], fatal.map { |event| event[:error].code })
  end

  # Partitions that a route names move nowhere: there, a second process is a mistake that its operator must see.
  def test_only_producers_of_partitions_that_kafka_assigns_may_move
    type = Class.new(Pelton::Consumer) { def consume = nil }
    fatal = { nil => [], [0] => ["producer.fatal"] }.map do |numbers, expected|
      @events.clear
      app = Pelton::App.new
      app.routes { group("g") { topic("a", to: type) { partitions numbers if numbers } } }
      clients = Pelton::Clients.new(@config, bus: @bus, native: @module)
      @native.prepare = failing(:begin, error(-144, fatal: true))
      own = clients.producers(app.routes.groups(@config).first).call("t", { group: "g", topic: "a", partition: 0 })
      assert_raises(Pelton::KafkaError) { own.init_transactions }
      own.close
      [expected, names]
    end
    fatal.each { |expected, found| assert_equal expected, found }
  end

  def test_fenced_is_replaced_where_that_is_wanted
    @config.reload_fenced = true
    @native.prepare = failing(:begin, error(-144, fatal: true))
    assert_equal 1, producer.transaction { 1 }
  end

  def test_others_wait_while_a_client_is_replaced
    @config.reload_backoff = 0.05
    producer.transaction { 1 }
    fake.fatal_error = error(48, fatal: true)
    threads = Array.new(5) { Pelton::Threads.start("test") { producer.produce_async(**row) } }
    Pelton::Threads.join(threads)
    assert_equal 2, @native.producers.size
    assert_equal 5, fake.committed.size
  end

  # --- idempotent producers ---

  def test_an_idempotent_client_is_not_replaced
    idempotent
    producer.produce_async(**row)
    fake.fatal_error = error(46, fatal: true)
    2.times { assert_raises(Pelton::KafkaError) { producer.produce_async(**row) } }
    assert_equal 1, @native.producers.size
  end

  # Many threads meet the same fatal error. The client is replaced once, and no thread sees an error about a closed
  # client.
  def test_idempotent_client_is_replaced_once_for_all_threads
    idempotent(reload_idempotent: true)
    producer.produce_async(**row)
    20.times do
      fake.fatal_error = error(46, fatal: true)
      before = @native.producers.size
      errors = Thread::Queue.new
      threads = Array.new(8) do
        Pelton::Threads.start("test", report: ->(e) { errors << e }) { 5.times { producer.produce_async(**row) } }
      end
      Pelton::Threads.join(threads)
      assert_empty errors
      assert_equal [before + 1, 40], [@native.producers.size, fake.calls.size]
    end
  end

  def test_an_idempotent_client_that_is_not_replaced_any_more_says_why_each_time
    idempotent(reload_idempotent: true, reload_attempts: 1)
    made_ready = @native.prepare
    @native.prepare = ->(made) { made_ready.call(made) && made.fatal_error = error(46, fatal: true) }
    3.times { assert_equal 46, assert_raises(Pelton::KafkaError) { producer.produce_async(**row) }.code }
    fatal = @events.select { |event| event.name == "producer.fatal" }
    assert_equal [false, true], (fatal.map { |event| event[:final] })
  end
end
