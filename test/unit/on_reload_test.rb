# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"

# config.on_reload: what the next client is opened with after a fatal error, on the fake native side.
class OnReloadTest < Minitest::Test
  include FakeTransactions

  def reload(&block) = @config.on_reload = block
  def ids = @native.producers.map { |made| made.config["transactional.id"] }
  def complaints = @events.select { |event| event.name == "error.occurred" }

  # The clients' ids after a client that ended by each of these errors, with what is returned after each.
  def after(*errors, &block)
    @bus.subscribe("error.occurred") { |event| @events << event }
    reload(&block)
    errors.each do |error|
      producer.transaction { 1 }
      fake.fatal_error = error
    end
    assert_equal 2, producer.transaction { 2 }
    ids
  end

  def test_the_next_client_may_have_another_id
    seen = []
    fatal = error(46, fatal: true)
    found = after(fatal, fatal) do |options, error|
      seen << [options["transactional.id"], options.frozen?, error.code]
      options.merge("transactional.id" => "#{options["transactional.id"]}x", "linger.ms" => 7)
    end
    assert_equal %w[t tx txx], found
    assert_equal [["t", true, 46], ["tx", true, 46]], seen
    assert_equal "7", fake.config["linger.ms"]
    assert_equal "murmur2_random", fake.config["partitioner"]
    assert_empty complaints
  end

  def test_settings_not_returned_by_on_reload_stay
    assert_equal %w[t u], after(error(46, fatal: true)) { { "transactional.id": "u" } }
    assert_equal @native.producers.first.config.merge("transactional.id" => "u"), fake.config
  end

  def test_on_reload_must_be_callable
    error = assert_raises(Pelton::ConfigError) { @config.on_reload = "u" }
    assert_equal %(on_reload = "u": expected an object with the method call), error.message
  end

  def test_nil_changes_nothing
    assert_equal %w[t t], after(error(46, fatal: true)) { nil }
    assert_empty complaints
  end

  def test_fenced_producer_stays_fenced_without_calling_on_reload
    asked = 0
    reload { asked += 1 }
    producer.transaction { 1 }
    fake.fatal_error = error(-144, fatal: true)
    2.times { assert_predicate assert_raises(Pelton::KafkaError) { producer.transaction { 1 } }, :fenced? }
    assert_equal [0, %w[t]], [asked, ids]
  end

  def test_fenced_producer_with_reload_fenced_opens_with_the_new_id
    @config.reload_fenced = true
    assert_equal %w[t u], after(error(-144, fatal: true)) { { "transactional.id" => "u" } }
  end

  def test_a_client_that_is_replaced_without_a_fatal_error_keeps_its_id
    reload { { "transactional.id" => "u" } }
    producer.transaction { 1 }
    fake.define_singleton_method(:gap?) { true }
    assert_nil(producer.transaction { raise Pelton::AbortTransaction })
    producer.transaction { 1 }
    assert_equal %w[t t], ids
  end

  # {what is returned => what the error says}
  WRONG = { 5 => /on_reload = Integer: expected a Hash/,
            "transactional.id=u" => /on_reload = String: expected a Hash/,
            { "transactional.id" => nil } => /transactional.id: is nil .*expected a String/,
            { "transactional.id" => "" } => /transactional.id = "": on_reload can neither make a/,
            { "sasl.password" => ["hunter2"] } => /sasl.password = \[hidden\]: expected a String/,
            { "partitioner" => "random" } => /partitioner = "random": on_reload cannot change it/,
            { "sasl.mechanisms" => "OAUTHBEARER", "security.protocol" => "sasl_ssl" } =>
              /sasl.mechanisms = "OAUTHBEARER": needs config.oauth/ }.freeze

  def test_invalid_return_value_of_on_reload_is_reported_and_changes_nothing
    answers = WRONG.keys
    after(*[error(46, fatal: true)] * WRONG.size) { answers.shift }
    assert_equal [@native.producers.first.config], @native.producers.map(&:config).uniq
    complaints.each { |event| assert_equal ["on_reload", producer.name], [event[:source], event[:client]] }
    assert_equal WRONG.size, complaints.size
    WRONG.values.zip(complaints) do |pattern, event|
      assert_match pattern, "#{event[:error].class}: #{event[:error].message}"
      refute_includes event[:error].message, "hunter2"
    end
  end

  def test_on_reload_that_raises_is_reported_and_changes_nothing
    kinds = [ArgumentError, NotImplementedError, SystemExit]
    after(*[error(46, fatal: true)] * 3) { raise kinds.rotate!.last }
    assert_equal kinds, (complaints.map { |event| event[:error].class })
    assert_equal %w[t], ids.uniq
  end

  def test_options_with_which_no_client_opens_are_taken_back
    @native.prepare = lambda do |made|
      raise Pelton::ConfigError.new("linger.ms", "no") if made.config["linger.ms"] == "no"
    end
    assert_equal %w[t t], after(error(46, fatal: true)) { { "linger.ms" => "no" } }
    assert_equal [["linger.ms", "no"]], (complaints.map { |event| [event[:error].key, event[:error].value] })
  end

  # 53: this id is not allowed. 46: nothing that another id helps against.
  def test_an_id_that_is_not_allowed_is_taken_back
    @config.reload_attempts = 1
    @native.prepare = lambda do |made|
      made.on_step = ->(*) { raise error(53, fatal: true) if made.config["transactional.id"] == "u" }
    end
    assert_equal %w[t u t], after(error(46, fatal: true)) { { "transactional.id" => "u" } }
    assert_equal([53], complaints.map { |event| event[:error].code })
  end

  def test_id_that_worked_is_kept_after_a_new_one_fails
    answers = %w[u v]
    @native.prepare = lambda do |made|
      made.on_step = ->(*) { raise error(53, fatal: true) if made.config["transactional.id"] == "v" }
    end
    found = after(error(46, fatal: true), error(46, fatal: true)) { { "transactional.id" => answers.shift } }
    assert_equal %w[t u v u], found
  end

  def test_the_time_of_a_transaction_is_that_of_its_client
    after(error(46, fatal: true)) { { "transaction.timeout.ms" => 10 } }
    raised = assert_raises(Pelton::TransactionTimeout) do
      producer.transaction do
        began = Pelton::Clock.now
        eventually { Pelton::Clock.now - began > 0.02 }
        raise fake.fatal_error = error(-144, fatal: true)
      end
    end
    assert_in_delta 0.01, raised.limit
  end

  # It may look at what it likes, but there is no client to use.
  def test_the_producer_in_its_own_callback
    raised = []
    use = lambda do |*|
      producer.produce_async(**row)
    rescue Pelton::Error => e
      raised << e.class
      nil
    end
    assert_equal %w[t t], after(error(46, fatal: true), &use)
    assert_equal [Pelton::TransactionError], raised
  end

  def test_other_threads_wait_for_on_reload
    asked = Thread::Queue.new
    gate = Thread::Queue.new
    reload { (asked << true) && gate.pop }
    producer.transaction { 1 }
    fake.fatal_error = error(46, fatal: true)
    threads = Array.new(3) { Pelton::Threads.start("test") { producer.produce_async(**row) } }
    asked.pop
    eventually { threads.all? { |thread| thread.status == "sleep" } }
    assert_equal 1, @native.producers.size
    gate << { "transactional.id" => "u" }
    Pelton::Threads.join(threads)
    assert_equal [%w[t u], 3], [ids, fake.committed.size]
  end

  def test_on_reload_whose_thread_is_killed_leaves_the_producer_usable
    asked = Thread::Queue.new
    reload { (asked << true) && Thread::Queue.new.pop }
    producer.transaction { 1 }
    fake.fatal_error = error(46, fatal: true)
    thread = Pelton::Threads.start("test") { producer.produce_async(**row) }
    asked.pop
    Pelton::Threads.join([thread.kill])
    assert_equal 2, producer.transaction { 2 }
    assert_equal %w[t t], ids
  end

  # --- others ---

  def test_an_idempotent_client_may_have_other_options
    raised = []
    reload do |options, _|
      raised << assert_raises(Pelton::KafkaError) { producer.produce_async(**row) }.code
      options.merge("linger.ms" => 7)
    end
    idempotent(reload_idempotent: true)
    producer.produce_async(**row)
    fake.fatal_error = error(46, fatal: true)
    producer.produce_async(**row)
    assert_equal [[46], [nil, "7"]], [raised, @native.producers.map { |made| made.config["linger.ms"] }]
  end

  def test_a_variant_with_a_client_of_its_own_has_its_own_options_changed
    reload { |options, _| options.merge("linger.ms" => options["compression.codec"] ? 7 : 8) }
    idempotent(reload_idempotent: true)
    [producer, producer.with(compression: :zstd)].each do |variant|
      variant.produce_async(**row)
      fake.fatal_error = error(46, fatal: true)
      variant.produce_async(**row)
    end
    assert_equal [nil, "8", nil, "7"], (@native.producers.map { |made| made.config["linger.ms"] })
    assert_equal [nil, nil, "zstd", "zstd"], (@native.producers.map { |made| made.config["compression.codec"] })
  end

  def test_on_reload_cannot_make_an_idempotent_producer_transactional
    @bus.subscribe("error.occurred") { |event| @events << event }
    reload { { "transactional.id" => "u" } }
    idempotent(reload_idempotent: true)
    producer.produce_async(**row)
    fake.fatal_error = error(46, fatal: true)
    producer.produce_async(**row)
    assert_match(/transactional.id = "u": on_reload can neither make/, complaints.first[:error].message)
  end

  # Each executor of a pool changes its own.
  def test_a_pool_of_producers
    reload { |options, _| { "transactional.id" => "#{options["transactional.id"]}b" } }
    pool = Pelton::ProducerPool.new(@config, size: 2, bus: @bus, native: @module)
    pool.with do |_|
      other = Pelton::Threads.start("test") { pool.transaction { 1 } }
      pool.transaction { 1 }
      Pelton::Threads.join([other])
    end
    @native.producers.first(2).each { |made| made.fatal_error = error(46, fatal: true) }
    2.times { pool.with { pool.transaction { 1 } } }
    assert_equal %w[t-0 t-0b t-1], ids.sort
  ensure
    pool&.close
  end
end
