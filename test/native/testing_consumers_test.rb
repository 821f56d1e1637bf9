# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"

# Consumers of an app, run by pelton/testing/minitest: what its helpers and assertions do.
class TestingConsumersTest < Minitest::Test
  class OrdersConsumer < Pelton::Consumer
    attr_accessor :seen, :script

    def process(message)
      (@seen ||= []) << [message.offset, attempt]
      @script&.call(message)
      raise KeyError, "no id" unless message.payload.key?("id")

      producer.produce_sync(topic: "shipped", key: message.key, payload: message.raw_payload)
    end

    %i[assigned revoked shutdown tick].each { |name| define_method(name) { hooks << name } }
    def hooks = @hooks ||= []
  end

  class BatchConsumer < Pelton::Consumer
    def sizes = @sizes ||= []
    def consume = sizes << messages.map { |message| message.payload && message.payload["id"] }
  end

  def setup
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "billing"
    end
    Pelton.routes do
      topic("orders", to: OrdersConsumer) do
        decode :json
        retries 2
        backoff 5..5
        retry_in 60
        dead_letters "orders.dead"
        tick_every 30
      end
      topic("clicks", to: BatchConsumer) { where("id").gt(0) }
      topic(/^logs\./, to: BatchConsumer)
      group("audit") { topic("clicks", to: BatchConsumer) { max_messages 2 } }
    end
  end

  def test_a_message_goes_through_the_route_to_the_consumer
    consumer = consumer_for("orders")
    message = produce("orders", { "id" => 7 }, key: "7", headers: { "trace" => "42" })
    assert_equal ["orders", 0, 0, "7", { "id" => 7 }],
                 [message.topic, message.partition, message.offset, message.key, message.payload]
    assert_equal [[0, 1]], consumer.seen
    assert_equal [{ "id" => 7 }], produced_messages("shipped").map(&:payload)
    assert_equal [message.offset], consumed_messages("orders").map(&:offset)
    assert_equal 1, committed_offset("orders")
  end

  def test_retries_retry_topic_and_dead_letters_in_virtual_time
    consumer = consumer_for("orders")
    produce("orders", {}, key: "k")
    assert_equal [[0, 1]], consumer.seen
    travel 4.9
    assert_equal [[0, 1]], consumer.seen
    travel 0.1
    travel 5
    assert_equal [[0, 1], [0, 2], [0, 3]], consumer.seen
    assert_retried("orders", times: 2, error: KeyError)
    assert_postponed("orders", to: "orders.retry.60", attempts: 3)
    refute_dead_lettered
    travel 59.9
    assert_nil consumer_for("orders.retry.60").seen
    travel 0.1
    assert_equal [[0, 4]], consumer_for("orders.retry.60").seen
    assert_dead_lettered("orders.retry.60", to: "orders.dead", error: "no id", attempts: 4)
    letter = assert_produced("orders.dead", key: "k", payload: {}, headers: { "pelton.attempts" => "4" })
    assert_equal ["orders", 0, "KeyError"], [letter.origin.topic, letter.origin.offset, letter.origin.error]
    assert_in_delta 0, letter.origin.failed_at.to_f - Pelton::Clock.wall, 0.002
  end

  def test_no_thread_starts_and_no_time_passes
    before = Thread.list
    produce("orders", {})
    travel 3600
    assert_dead_lettered("orders.retry.60")
    assert_empty Thread.list - before
    assert_equal 120, consumer_for("orders").hooks.count(:tick)
  end

  def test_ticks_come_each_at_its_time
    consumer = consumer_for("orders")
    times = []
    consumer.define_singleton_method(:tick) { times << Pelton::Clock.now }
    started = Pelton::Clock.now
    travel 100
    assert_equal([30, 60, 90], times.map { |time| (time - started).round(3) })
  end

  def test_where_drops_natively_and_the_drop_is_committed
    produce_together do
      produce("clicks", { "id" => 0 }, group: "billing")
      produce("clicks", { "id" => 5 }, group: "billing")
      produce("clicks", { "id" => -1 }, group: "billing")
    end
    assert_equal [[5]], consumer_for("clicks", group: "billing").sizes
    assert_dropped("clicks", reason: :where, count: 2)
    assert_equal 3, committed_offset("clicks", group: "billing")
    assert_nil committed_offset("clicks", group: "audit")
  end

  def test_batches_are_cut_at_max_messages
    produce_together { 5.times { |id| produce("clicks", { "id" => id + 1 }) } }
    assert_equal [[1, 2], [3, 4], [5]], consumer_for("clicks", group: "audit").sizes
    assert_equal [[1, 2, 3, 4, 5]], consumer_for("clicks", group: "billing").sizes
  end

  def test_a_pattern_s_topic
    produce("logs.web", { "id" => 1 })
    assert_equal [[1]], consumer_for("logs.web").sizes
  end

  def test_topics_of_a_pattern_have_one_listener
    produce("logs.web", { "id" => 1 })
    produce("logs.app", { "id" => 2 })
    produce("logs.web", { "id" => 3 })
    assert_equal [[[1], [3]], [[2]]], [consumer_for("logs.web").sizes, consumer_for("logs.app").sizes]
    assert_consumed("logs.web", count: 2)
  end

  def test_a_consumer_may_produce_with_the_helper
    test = self
    consumer_for("orders").script = lambda do |message|
      test.produce("clicks", { "id" => 9 }, group: "billing") if message.offset.zero?
    end
    produce_together { 2.times { |id| produce("orders", { "id" => id }) } }
    assert_equal [[0, 1], [1, 1]], consumer_for("orders").seen
    assert_equal [[9]], consumer_for("clicks", group: "billing").sizes
  end

  def test_a_failed_assertion_at_the_end_is_raised_after_all_consumers_have_ended
    first = consumer_for("orders")
    second = consumer_for("clicks", group: "billing")
    first.define_singleton_method(:shutdown) { raise Minitest::Assertion, "at the end" }
    ended = false
    second.define_singleton_method(:shutdown) { ended = true }
    assert_equal "at the end", assert_raises(Minitest::Assertion) { stop_consumers }.message
    assert ended
  end

  def test_the_code_under_test_produces_and_the_consumers_run_afterwards
    consumer = consumer_for("orders")
    Pelton.producer.produce_sync(topic: "orders", payload: '{"id":1}')
    assert_nil consumer.seen
    run_consumers
    assert_equal [[0, 1]], consumer.seen
  end

  def test_partition_offset_and_timestamp_are_as_given
    time = Time.at(1_700_000_000, 123, :millisecond)
    message = produce("orders", { "id" => 1 }, partition: 3, offset: 41, timestamp: time)
    assert_equal [3, 41, time], [message.partition, message.offset, message.timestamp]
    assert_equal [[41, 1]], consumer_for("orders", partition: 3).seen
    assert_equal 42, committed_offset("orders", 3)
    assert_equal 42, produce("orders", { "id" => 2 }, partition: 3).offset
  end

  def test_revoke_and_assign
    first = consumer_for("orders")
    revoke("orders", 0)
    assert_equal %i[assigned revoked], first.hooks
    produce("orders", { "id" => 1 })
    assert_nil first.seen
    assign("orders", 0)
    second = consumer_for("orders")
    refute_same first, second
    assert_equal [[0, 1]], second.seen
  end

  def test_revoke_in_a_call_makes_revoked_true_and_its_return_marks_nothing
    consumer = consumer_for("orders")
    answers = [consumer.revoked?]
    consumer.script = ->(_) { revoke("orders", 0).tap { answers << consumer.revoked? } }
    produce("orders", { "id" => 1 })
    assert_equal [[false, true], %i[assigned revoked], nil], [answers, consumer.hooks, committed_offset("orders")]
    assign("orders", 0)
    assert_equal [[[0, 1]], 1], [consumer_for("orders").seen, committed_offset("orders")]
  end

  def test_a_lost_partition_takes_no_marks
    consumer = consumer_for("orders")
    marked = nil
    consumer.define_singleton_method(:revoked) { marked = mark_as_consumed(@script_message) }
    consumer.script = ->(message) { consumer.instance_variable_set(:@script_message, message) }
    produce("orders", { "id" => 1 })
    revoke("orders", lost: true)
    assert_equal false, marked
    assert_equal 1, committed_offset("orders")
  end

  def test_stopped_consumers_get_shutdown_and_others_take_over
    first = consumer_for("orders")
    stop_consumers
    assert_equal %i[assigned shutdown], first.hooks
    produce("orders", { "id" => 1 })
    assert_equal [[0, 1]], consumer_for("orders").seen
    assert_consumed("orders", count: 1)
  end

  def test_an_unknown_topic_or_group_gets_a_suggestion
    { -> { produce("ordres", {}) } => "did you mean orders?", -> { consumer_for("ordres") } => "did you mean orders?",
      -> { consumer_for("clicks") } => 'read by the groups billing and audit: add group: "billing"',
      -> { consumer_for("clicks", group: "adit") } => "did you mean audit?" }.each do |call, text|
      assert_includes assert_raises(Pelton::ConfigError, &call).message, text
    end
  end

  def test_bad_input_gets_an_error_and_changes_nothing
    produce("orders", { "id" => 1 }, offset: 4)
    { -> { produce("orders", {}, offset: 4) } => /offset: 4.*Integer >= 5, the partition's next offset/,
      -> { produce("orders", {}, partition: -1) } => /partition/, -> { produce("orders", {}, key: 7) } => /key/,
      -> { produce("orders", {}, headers: { "a" => 1 }) } => /header/, -> { travel(-1) } => /travel = -1: /,
      -> { travel("soon") } => /travel = "soon"/, -> { revoke("orders", 3) } => /partition = 3: orders has .*\[0\]/,
      -> { fail_next(:TIMED_OUT) } => /did you mean _TIMED_OUT/, -> { fail_next(7, times: 0) } => /times = 0/,
      -> { create_topic("orders", partitions: 0) } => /partitions = 0/,
      -> { assert_produced("shipped", payloda: 1) } => /did you mean payload/ }.each do |call, pattern|
      assert_match pattern, assert_raises(Pelton::ConfigError, Pelton::InvalidMessageError, &call).message
    end
    assert_equal [[4, 1]], consumer_for("orders").seen
    assert_equal 5, produce("orders", { "id" => 2 }).offset
  end

  def test_a_consumer_that_cannot_be_built_says_why
    broken = Class.new(BatchConsumer) { define_method(:initialize) { raise IOError, "no disk" } }
    Pelton.routes { topic("broken", to: broken) }
    error = assert_raises(Pelton::ConfigError) { consumer_for("broken") }
    assert_match(/partition = 0: of broken has no consumer.*no disk/, error.message)
  end

  def test_a_server_is_refused_and_a_reset_begins_again
    consumer_for("orders")
    assert_match(/call `real_clients` first/, assert_raises(Pelton::ShutdownError) { Pelton.start }.message)
    Pelton.reset!
    Pelton.configure { |config| config.group_id = "other" }
    Pelton.routes { topic("more", to: BatchConsumer) }
    produce("more", { "id" => 3 })
    assert_equal [[3]], consumer_for("more").sizes
    assert_equal 1, committed_offset("more", group: "other")
  end

  def test_metadata_and_seeks_of_a_consumer
    consumer = consumer_for("orders")
    consumer.script = ->(message) { consumer.seek(0) if message.offset == 1 && consumer.seen.size == 2 }
    produce_together { 2.times { |id| produce("orders", { "id" => id }) } }
    assert_equal [[0, 1], [1, 1], [0, 1], [1, 1]], consumer.seen
    assert_equal 4, produced_messages("shipped").size
  end

  def test_new_is_refused_and_names_the_helper
    error = assert_raises(Pelton::ConsumerError) { OrdersConsumer.new }
    assert_match(/OrdersConsumer\.new: .*consumer_for\("topic"\)/, error.message)
  end

  def test_an_error_of_a_consumer_is_raised_if_asked_for
    raise_errors
    assert_equal "no id", assert_raises(KeyError) { produce("orders", {}) }.message
    raise_errors false
    travel 5
    assert_equal [KeyError, KeyError], consumer_errors.map(&:class)
  end

  def test_a_failed_assertion_in_a_consumer_fails_the_test
    consumer_for("orders").script = ->(_) { flunk "seen in the consumer" }
    error = assert_raises(Minitest::Assertion) { produce("orders", { "id" => 1 }) }
    assert_equal "seen in the consumer", error.message
  end

  def test_consumers_that_never_rest_are_stopped
    consumer_for("clicks", group: "audit").define_singleton_method(:consume) do
      producer.produce_sync(topic: "clicks", payload: "{}")
    end
    error = assert_raises(Pelton::RestlessError) { produce("clicks", {}) }
    assert_match(/after 5000 jobs: does one produce to its own topic/, error.message)
  end

  def test_producing_fails_as_asked
    consumer_for("orders")
    fail_next(:MSG_SIZE_TOO_LARGE, topic: "shipped")
    produce("orders", { "id" => 1 })
    assert_failed("orders", error: Pelton::DeliveryError)
    travel 5
    assert_produced("shipped", payload: { "id" => 1 })
  end

  def test_events_of_the_producer_are_published_by_the_calling_thread
    failed = []
    Pelton.subscribe("message.delivery_failed") { |event| failed << [event[:topic], event[:label]] }
    fail_next(:_MSG_TIMED_OUT)
    Pelton.producer.produce_async(topic: "shipped", payload: "x", label: 7)
    assert_equal [["shipped", 7]], failed
  end

  def test_an_app_of_the_test_s_own
    app = Pelton::App.new
    app.configure { |config| config.group_id = "own" }
    app.routes { topic("own", to: BatchConsumer) }
    consumer = consumer_for("own", app: app)
    produce("own", { "id" => 3 })
    assert_equal [[3]], consumer.sizes
    assert_same app, Pelton.app
  end

  def test_clusters_have_topics_of_their_own
    app = Pelton::App.new
    app.configure do |config|
      config.kafka = { "bootstrap.servers" => "here:1" }
      config.group_id = "here"
      config.logger = nil
    end
    app.routes do
      topic("orders", to: BatchConsumer)
      group("there", kafka: { "bootstrap.servers" => "there:1" }) do
        topic("orders", to: OrdersConsumer) { dead_letters "orders.dead", retries: 0 }
      end
    end
    there = consumer_for("orders", group: "there", app: app)
    produce("orders", {}, group: "there")
    here = consumer_for("orders", group: "here")
    assert_equal [[[0, 1]], []], [there.seen, here.sizes]
    assert_dead_lettered("orders", group: "there")
    app.producer.produce_sync(topic: "orders", payload: "{}")
    run_consumers
    assert_equal [[[0, 1]], [[nil]]], [there.seen, here.sizes]
  end
end

# Each test of a class has an app of its own, whatever the tests before it did.
class TestingIsolationTest < Minitest::Test
  class Consumer < Pelton::Consumer
    def consume = nil
  end

  3.times do |number|
    define_method("test_state_is_reset_#{number}") do
      assert_nil Pelton.config.group_id
      assert_empty Pelton.routes
      Pelton.configure { |config| config.group_id = "test" }
      Pelton.routes { topic("orders", to: Consumer) }
      assert_equal 0, produce("orders", "{}").offset
      assert_equal 1, committed_offset("orders")
      assert_raises(Pelton::ConfigError) { Pelton.configure { |config| config.group_id = "other" } }
    end
  end
end

class TestingParallelTest < Minitest::Test
  class Consumer < Pelton::Consumer
    def consume = producer.produce_many_sync(messages.map { |message| { topic: "out", payload: message.raw_payload } })
  end

  # As with Minitest's parallelize_me!, which runs tests on threads.
  def test_sessions_of_threads_are_separate
    gate = Thread::Queue.new
    found = Array.new(4) do |number|
      Pelton::Threads.start("test") do
        Pelton::Testing::Session.open
        Pelton.configure { |config| config.group_id = "group-#{number}" }
        Pelton.routes { topic("in", to: Consumer) }
        gate.pop
        20.times { |index| produce("in", "#{number}-#{index}") }
        travel number
        Thread.current[:found] = produced_messages("out").map(&:raw_payload)
      ensure
        Pelton::Testing::Session.current.close
      end
    end
    4.times { gate << true }
    found.each(&:join)
    assert_equal(Array.new(4) { |number| Array.new(20) { |index| "#{number}-#{index}" } },
                 found.map { |thread| thread[:found] })
  end

  def test_threads_of_the_code_under_test_belong_to_the_test_that_started_them
    skip "Ruby 3.1 has no storage that threads inherit" unless Fiber.respond_to?(:[])
    other = Pelton::Threads.start("test") do
      Pelton::Testing::Session.open
      Pelton.producer.produce_sync(topic: "out", payload: "other")
      Thread.stop
    ensure
      Pelton::Testing::Session.current.close
    end
    eventually { other.status == "sleep" }
    Pelton::Threads.start("test") { Pelton.producer.produce_sync(topic: "out", payload: "mine") }.join
    assert_equal ["mine"], produced_messages("out").map(&:raw_payload)
  ensure
    other&.wakeup
    other&.join
  end
end
