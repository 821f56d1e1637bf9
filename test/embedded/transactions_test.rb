# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/small_scheduler"

# Transactions and fatal errors on the embedded cluster, with errors made to order. (It knows no read_committed: what
# readers see is in test/integration/transactions.rb.)
class EmbeddedTransactionsTest < Minitest::Test
  include EmbeddedApp

  PRODUCE = 0
  INIT_PRODUCER_ID = 22
  ADD_PARTITIONS = 24
  ADD_OFFSETS = 25
  END_TXN = 26
  OFFSET_COMMIT = 28

  def transactional(settings = {}, kafka: {})
    app(kafka: { "transactional.id" => "id-#{@apps.size}", **kafka }, reload_backoff: 0.05, **settings)
  end

  # The native client that a producer has at present.
  def native(app)
    client = app.producer.instance_variable_get(:@native)
    client = client.instance_variable_get(:@replacement) if client.is_a?(Pelton::Producer::Transactions)
    client.is_a?(Pelton::Producer::ClientReplacement) ? client.client : client
  end

  def fatal(app, code = 46) = native(app).fail_for_good(code, "for a test")

  def test_messages_and_batches_in_and_outside_of_blocks
    name = topic(2)
    producer = transactional.producer
    inside = producer.transaction do |tx|
      [*Array.new(50) { tx.produce_async(topic: name, payload: "x") },
       producer.produce_many_async(Array.new(50) { { topic: name, payload: "y" } })]
    end
    assert inside.all?(&:delivered?)
    assert_predicate producer.produce_async(topic: name, payload: "z"), :delivered?
    assert_predicate producer.produce_many_async([{ topic: name, payload: "z" }] * 3), :delivered?
    assert_equal 0, producer.pending
    assert_equal 3, happened("transaction.committed").size
  end

  # Middleware that writes a header, and keeps the outcome of each message.
  class Tenant
    attr_reader :outcomes

    def initialize = @outcomes = Thread::Queue.new
    def call(message) = { **message, headers: { **message[:headers].to_h, "tenant" => "acme" } }
    def on_delivery(message, report) = @outcomes << [message[:payload], report.error&.name]
  end

  # Only the app's own producer had the middleware: copies in transactions lost the header, without an error.
  def test_messages_of_transactional_routes_and_pools_lost_the_headers_of_middleware
    input, out, dead = Array.new(3) { topic }
    copying = consumer do
      messages.each do |message|
        raise "poison" if message.raw_payload == "poison"

        transaction do |tx|
          tx.produce_async(topic: out, payload: message.raw_payload)
          mark_as_consumed(message)
        end
      end
    end
    app = app(group: "copies") do
      topic(input, to: copying) do
        transactional "copies"
        dead_letters dead, retries: 0
      end
    end
    tenant = app.middleware.append(Tenant.new)
    pool = app.producer_pool(size: 1, kafka: { "transactional.id" => "pool" })
    pool.transaction { |tx| tx.produce_async(topic: out, payload: "of the pool") }
    app.start
    other = app(group: "other") # without middleware
    produce(other, input, %w[a poison])
    eventually(20) { app.each(dead).to_a.any? }
    found = app.each(out).map { |message| [message.raw_payload, message.headers["tenant"]] }
    assert_equal [["of the pool", "acme"], %w[a acme]], found
    assert_nil app.each(dead).first.headers["tenant"], "a copy has the message's own headers"
    assert_equal [["of the pool", nil], ["a", nil]], take(2, tenant.outcomes)
  end

  # {API => errors that cost time only}
  TRANSIENT = { INIT_PRODUCER_ID => [14, 15, 16], ADD_PARTITIONS => [14, 16, 51], END_TXN => [14, 16, 51],
                PRODUCE => [6, 7, 19] }.freeze

  def test_transient_errors_cost_time_only
    name = topic
    TRANSIENT.each do |api, codes|
      producer = transactional.producer
      @cluster.push_errors(api, codes)
      assert_predicate producer.produce_sync(topic: name, payload: "x"), :delivered?, api
    end
    assert_empty happened("producer.fatal")
  end

  # {API => an error after which the transaction has to be aborted}
  ABORTABLE = { ADD_PARTITIONS => 29, END_TXN => 59, PRODUCE => 10 }.freeze # not authorized, unknown id, too large

  def test_errors_that_abort
    name = topic
    ABORTABLE.each do |api, code|
      producer = transactional.producer
      producer.transaction { |tx| tx.produce_sync(topic: name, payload: "x") }
      @cluster.push_errors(api, [code])
      fails = -> { producer.transaction { |tx| tx.produce_async(topic: name, payload: "x") } }
      error = assert_raises(Pelton::KafkaError, api, &fails)
      refute_predicate error, :fatal?, api
      assert_predicate producer.produce_sync(topic: name, payload: "x"), :delivered?, api
    end
    assert_empty happened("producer.fatal")
  end

  # {API => an error that ends the client}
  FATAL = { ADD_PARTITIONS => 53, END_TXN => 48 }.freeze

  def test_errors_that_end_the_client
    name = topic
    FATAL.each do |api, code|
      app = transactional
      app.producer.transaction { |tx| tx.produce_sync(topic: name, payload: "x") }
      first = native(app)
      @cluster.push_errors(api, [code])
      error = assert_raises(Pelton::KafkaError, api) do
        app.producer.transaction { |tx| tx.produce_async(topic: name, payload: "x") }
      end
      assert_equal [code, true], [error.code, error.fatal?]
      again = -> { app.producer.produce_sync(topic: name, payload: "x") }
      next assert_raises(Pelton::KafkaError, &again) if error.permanent? # another client would not be allowed either

      assert_predicate again.call, :delivered?
      refute_same first, native(app)
    end
    assert_equal([true, false], happened("producer.fatal").map { |payload| payload[:final] })
  end

  def test_a_fatal_error_inside_of_a_block
    name = topic
    app = transactional
    error = assert_raises(Pelton::KafkaError) do
      app.producer.transaction do |tx|
        tx.produce_sync(topic: name, payload: "x")
        fatal(app)
        tx.produce_async(topic: name, payload: "x")
      end
    end
    assert_equal [46, true], [error.code, error.fatal?]
    assert_predicate app.producer.produce_sync(topic: name, payload: "x"), :delivered?
    assert_equal([[1, false]], happened("producer.fatal").map { |payload| payload.values_at(:attempt, :final) })
    assert_equal 1, happened("producer.reloaded").size
  end

  def test_a_fatal_error_between_transactions_is_not_noticed
    name = topic
    app = transactional
    5.times do
      app.producer.produce_sync(topic: name, payload: "x")
      fatal(app)
    end
    assert_predicate app.producer.produce_many_sync([{ topic: name, payload: "x" }]), :delivered?
    assert_equal [1] * 5, (happened("producer.reloaded").map { |payload| payload[:attempt] })
  end

  # librdkafka's assertion "txn_req_cnt > 0" ended the process after some 40 of these errors.
  def test_a_fatal_error_right_after_the_first_message_ends_the_process
    name = topic
    app = transactional({ reload_backoff: 0, reload_attempts: 1000 })
    outcome = in_child do
      100.times do
        app.producer.produce_sync(topic: name, payload: "x")
        app.producer.transaction do |tx|
          tx.produce_async(topic: name, payload: "x")
          fatal(app)
        end
      rescue Pelton::KafkaError
        next # the error itself, or the message that it cost
      end
    end
    assert_equal "100", outcome
  end

  # Everybody goes on with the new client, nobody hears of the old one's close.
  def test_many_threads_and_fatal_errors
    name = topic
    app = transactional({ reload_attempts: 100 })
    wrong = Thread::Queue.new
    threads = Array.new(6) do
      Pelton::Threads.start("test", report: ->(e) { wrong << e }) do
        15.times do
          app.producer.produce_sync(topic: name, payload: "x")
        rescue Pelton::KafkaError => e
          raise unless [46, -149].include?(e.code) # the error itself, or the messages that it cost
        end
      end
    end
    3.times do |times|
      eventually(20) { happened("transaction.committed").size > 5 * times }
      fatal(app)
    rescue Pelton::KafkaError => e
      raise unless e.name == :_PREV_IN_PROGRESS # nobody has met the last one yet
    end
    Pelton::Threads.join(threads, 200)
    assert_equal 0, wrong.size, wrong.empty? || wrong.pop
    assert_operator happened("producer.reloaded").size, :<=, 3
  end

  def test_reloads_leave_nothing_behind
    name = topic
    app = transactional({ reload_backoff: 0, reload_attempts: 1000 })
    again = lambda do
      app.producer.produce_sync(topic: name, payload: "x")
      fatal(app)
    end
    5.times { again.call }
    before = eventually(10, "a calm state") { (counts = state) == state && counts }
    20.times { again.call }
    app.producer.produce_sync(topic: name, payload: "x")
    eventually(15, "the state as before (#{before}, now #{state})") { state.zip(before).all? { |now, old| now <= old } }
  end

  # Threads and descriptors.
  def state = [Dir.children("/proc/self/task").size, Dir.children("/proc/self/fd").size]

  # --- an idempotent producer

  def test_an_idempotent_producer_stays_as_it_is
    name = topic
    app = app(kafka: { "enable.idempotence" => true })
    app.producer.produce_sync(topic: name, payload: "x")
    fatal(app)
    2.times do
      error = assert_raises(Pelton::KafkaError) { app.producer.produce_sync(topic: name, payload: "x") }
      assert_predicate error, :fatal?
    end
  end

  def test_an_idempotent_producer_whose_client_is_replaced
    name = topic
    app = app(kafka: { "enable.idempotence" => true }, reload_idempotent: true, reload_backoff: 0.05)
    3.times do
      app.producer.produce_sync(topic: name, payload: "x")
      fatal(app)
    end
    assert_predicate app.producer.produce_many_sync([{ topic: name, payload: "x" }]), :delivered?
    fatal(app)
    threads = Array.new(8) { Pelton::Threads.start("test") { app.producer.produce_sync(topic: name, payload: "x") } }
    assert_empty Pelton::Threads.join(threads, 100)
    assert_equal 4, happened("producer.reloaded").size
  end

  # --- no broker, slow broker

  def test_a_killed_thread_in_every_step
    name = topic
    producer = transactional({ transaction_timeout: 30 }).producer
    producer.produce_sync(topic: name, payload: "x")
    12.times do |index|
      @cluster.round_trip_time = 60
      reached = Thread::Queue.new
      thread = Pelton::Threads.start("test") do
        reached << 1
        producer.transaction { |tx| tx.produce_async(topic: name, payload: "x") }
      end
      reached.pop
      thread.join(0.02 * index)
      assert_operator seconds { thread.kill.join }, :<, 60
      @cluster.round_trip_time = 0
      assert_predicate producer.produce_sync(topic: name, payload: "x"), :delivered?
    end
    assert_empty happened("producer.fatal")
  end

  def test_a_broker_that_is_away
    name = topic
    app = transactional({ transaction_timeout: 2 })
    app.producer.produce_sync(topic: name, payload: "x")
    @cluster.broker_down
    error = assert_raises(Pelton::Error) { app.producer.produce_sync(topic: name, payload: "x") }
    assert_kind_of(Pelton::TransactionError, error) # the commit was not answered, nor was the abort
    assert_equal :unknown, error.reason
    @cluster.broker_up
    delivery = eventually(30) do
      app.producer.produce_sync(topic: name, payload: "x")
    rescue Pelton::Error
      nil
    end
    assert_predicate delivery, :delivered?
  end

  # --- forks

  def in_child
    reader, writer = IO.pipe
    pid = fork do
      writer.write(yield)
    rescue Exception => e # rubocop:disable Lint/RescueException
      writer.write("#{e.class}: #{e.message}")
    ensure
      writer.close
      exit!(0)
    end
    writer.close
    reader.read
  ensure
    Process.wait(pid)
  end

  # It would fence its parent.
  def test_a_child_does_not_use_its_parent_s_producer
    name = topic
    producer = transactional.producer
    producer.produce_sync(topic: name, payload: "x")
    calls = [-> { producer.produce_sync(topic: name, payload: "x") }, -> { producer.transaction { 1 } },
             -> { producer.close }]
    calls.each { |call| assert_match(/\APelton::ForkError: .* was opened in process #{Process.pid}/, in_child(&call)) }
    producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "x")
      assert_match(/\APelton::ForkError/, in_child { producer.produce_sync(topic: name, payload: "x") })
    end
    assert_predicate producer.produce_sync(topic: name, payload: "x"), :delivered?
    assert_empty happened("producer.fatal")
  end

  def test_a_pool_in_parent_and_child
    name = topic
    pool = app.producer_pool(size: 2) { |index| { "transactional.id" => "#{Process.pid}-#{index}" } }
    send = -> { pool.transaction { |tx| tx.produce_sync(topic: name, payload: "x").offset } }
    offsets = [send.call, in_child { "#{send.call} #{pool.close(timeout: 10)}" }, send.call]
    assert_equal [0, "1 0", 2], offsets
  end

  # --- fibers

  def test_fibers_have_their_transactions_one_after_the_other
    name = topic
    producer = transactional.producer
    steps = []
    ticks = 0
    SmallScheduler.run do
      3.times do |index|
        Fiber.schedule do
          producer.transaction do |tx|
            steps << [:in, index]
            2.times { tx.produce_sync(topic: name, payload: "x") }
            steps << [:out, index]
          end
        end
      end
      Fiber.schedule { 20.times { Fiber.scheduler.kernel_sleep(0.001) && (ticks += 1) } }
    end
    assert_equal [0, 0, 1, 1, 2, 2], steps.map(&:last)
    assert_equal %i[in out] * 3, steps.map(&:first)
    assert_equal 20, ticks
    assert_equal 3, happened("transaction.committed").size
  end

  HEARTBEAT = 12
  UNKNOWN_MEMBER_ID = 25

  # Kafka would take them: who has lost all is a member without a name. Others read those messages again.
  def test_offsets_of_a_lost_assignment_were_committed
    name = topic
    app = transactional
    app.producer.produce_sync(topic: name, payload: "x")
    subscription = Pelton::Subscription.new(app.config, group_id: "bare", kafka: { "heartbeat.interval.ms" => 100 })
    subscription.subscribe([name])
    batch = poll_for(subscription, :batch).first
    @cluster.push_errors(HEARTBEAT, [UNKNOWN_MEMBER_ID] * 3)
    _, _, lost = poll_for(subscription, :revoked)
    assert lost
    error = assert_raises(Pelton::KafkaError) do
      app.producer.transaction { |tx| tx.mark_as_consumed(batch, subscription) }
    end
    assert_predicate error, :assignment_lost?
    assert_equal [nil], subscription.committed([[name, 0]])
  ensure
    subscription&.close(5)
  end

  def poll_for(subscription, wanted)
    found = nil
    eventually(30, wanted) do
      kind, *facts = subscription.poll(1)
      found = facts if kind == wanted
    end
    found
  end
end
