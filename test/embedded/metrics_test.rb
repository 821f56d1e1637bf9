# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "pelton/metrics"

# Counts of calls by a real server. test/unit/metrics_test.rb has the text and its limits.
class EmbeddedMetricsTest < Minitest::Test
  include EmbeddedApp

  # {["pelton_consumer_messages_total", "topic-1"] => 3, …}, of series of a topic and no further label.
  def series(metrics)
    rows = metrics.to_text.scan(/^(\w+)\{group="g",topic="([\w-]+)"\} (\S+)$/)
    rows.to_h { |name, topic, value| [[name.delete_prefix("pelton_"), topic], Float(value)] }
  end

  def counted(metrics)
    series(metrics).select { |(name, _), _| name.match?(/_(total|count)\z|batch_messages_sum/) }
  end

  def test_calls_with_batches_and_with_single_messages_are_counted_also_after_the_clients_are_gone
    whole = topic
    single = topic
    failures = Thread::Queue.new([1])
    batches = consumer { raise "once" unless failures.empty? || failures.pop.nil? }
    messages = Class.new(Pelton::Consumer) { define_method(:process) { |_message| nil } }
    app = app(group: "g", kafka: ONE_BATCH) do
      topic(whole, to: batches) { backoff 0..0 }
      topic(single, to: messages)
    end
    metrics = Pelton::Metrics.new(app)
    [whole, single].each { |name| app.producer.partition_count(name, timeout: 60) }
    rows = [whole, whole, whole, single, single].map { |name| { topic: name, payload: "a", partition: 0 } }
    app.producer.produce_many_sync(rows, timeout: 20)
    app.start
    expected = { ["consumer_messages_total", whole] => 6, ["consumer_failures_total", whole] => 1,
                 ["consumer_retries_total", whole] => 1, ["consume_seconds_count", whole] => 2,
                 ["consume_batch_messages_sum", whole] => 6, ["consume_batch_messages_count", whole] => 2,
                 ["message_age_seconds_count", whole] => 2, ["job_wait_seconds_count", whole] => 2,
                 ["consumer_messages_total", single] => 2, ["consume_seconds_count", single] => 1,
                 ["consume_batch_messages_sum", single] => 2, ["consume_batch_messages_count", single] => 1,
                 ["message_age_seconds_count", single] => 1, ["job_wait_seconds_count", single] => 1 }
    counted = -> { counted(metrics).reject { |_, value| value.zero? } }
    eventually(20, -> { counted.call.inspect }) { counted.call == expected }
    client = app.producer.name
    sent = -> { metrics.to_text[/^pelton_produce_seconds_count\{client="#{client}"\} (\d+)$/, 1] }
    eventually(20, -> { "5 times, not #{sent.call}" }) { sent.call == "5" }
    assert_equal 2, metrics.to_text.scan(/^pelton_partition_lag_seconds\{/).size
    assert app.stop
    app.close
    GC.start
    assert_equal expected, counted.call
    assert_includes metrics.to_text, "pelton_produce_seconds_count{client=\"#{client}\"} 5\n"
  end

  # Each failure counted the rest of its batch again: 222.
  def test_thirty_messages_of_which_six_are_tried_twice_count_as_thirty_six
    name = topic
    tried = Hash.new(0)
    reader = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        raise "once" if message.offset % 5 == 2 && (tried[message.offset] += 1) == 1
      end
    end
    app = app(group: "g", kafka: ONE_BATCH) { topic(name, to: reader) { backoff 0..0 } }
    metrics = Pelton::Metrics.new(app, statistics: false)
    produce(app, name, Array.new(30, "x"))
    app.start
    eventually(20, "an end") { app.stats.dig(:lags, "g", name, 0) == 0 && tried.values.sum == 12 }
    assert app.stop
    assert_equal [36, 36, 6], series(metrics).values_at(*%w[consumer_messages_total consume_batch_messages_sum
                                                            consumer_failures_total].map { |kind| [kind, name] })
  end

  def test_documents_that_ruby_decodes_are_counted_once
    name = topic
    found = Thread::Queue.new
    reader = Class.new(Pelton::Consumer) { define_method(:process) { |message| found << message.payload } }
    app = app(group: "g") { topic(name, to: reader) { decode :json } }
    metrics = Pelton::Metrics.new(app, statistics: false)
    fallbacks = -> { metrics.to_text[/^pelton_decode_fallbacks_total\{topic="#{name}",decoder="native"\} (\d+)$/, 1] }
    produce(app, name, %w[[1] [123456789012345678901234567890] [2] [18446744073709551616]])
    app.start
    assert_equal [[1], [123_456_789_012_345_678_901_234_567_890], [2], [18_446_744_073_709_551_616]],
                 take(4, found)
    assert_equal %w[2 2], [fallbacks.call, fallbacks.call]
    child = fork { exit!(fallbacks.call.nil? ? 0 : 1) }
    assert_predicate Process.wait2(child).last, :success?
    metrics.close
    produce(app, name, ["[#{10**29}]"])
    assert_equal [[10**29]], take(1, found)
    assert_equal "2", fallbacks.call, "after close"
  end

  # Its producer began with an empty transaction, which counted.
  def test_an_idle_exactly_once_partition_counts_no_transaction
    name = topic
    ready = Thread::Queue.new
    reader = Class.new(Pelton::Consumer) do
      define_method(:assigned) { ready << partition }
      define_method(:consume) { transaction { mark_as_consumed(messages.last) } }
    end
    app = app(group: "g") { topic(name, to: reader) { transactional "shop" } }
    metrics = Pelton::Metrics.new(app, statistics: false)
    app.start
    take(1, ready)
    counted = -> { metrics.to_text.scan(/^pelton_transaction\w*(?:_total|_count)\{.*\} \d+$/) }
    none = %w[committed aborted].map do |outcome|
      "pelton_transactions_total{group=\"g\",topic=\"#{name}\",outcome=\"#{outcome}\"} 0"
    end
    assert_equal [1, none], [happened("producer.opened").size, counted.call]
    assert_equal [[], [], []], %w[started committed aborted].map { |what| happened("transaction.#{what}") }
    produce(app, name, %w[x])
    eventually(20, "a commit") { happened("transaction.committed").any? }
    place = { group: "g", topic: name, partition: 0 }
    assert_equal([place], happened("transaction.started").map { |event| event.slice(*place.keys) })
    # The metrics hear of it after @events does.
    expected = [none.first.sub(/0\z/, "1"), none.last,
                "pelton_transaction_seconds_count{group=\"g\",topic=\"#{name}\"} 1"]
    eventually(20, -> { counted.call.inspect }) { counted.call == expected }
    assert app.stop
  end

  def test_only_delivered_messages_have_a_time
    app = app(delivery_timeout: 20)
    metrics = Pelton::Metrics.new(app, statistics: false)
    name = topic
    produce(app, name, %w[a])
    assert_raises(Pelton::DeliveryError) { app.producer.produce_sync(topic: name, payload: "b", partition: 7) }
    delivered = -> { metrics.to_text[/^pelton_produce_seconds_count\{.*\} (\d+)$/, 1] }
    eventually(20, -> { "1 time, not #{delivered.call}" }) { delivered.call == "1" }
    app.producer.produce_many_sync(Array.new(3) { { topic: name, payload: "c" } })
    eventually(20, -> { "4 times, not #{delivered.call}" }) { delivered.call == "4" }
    metrics.close
    produce(app, name, %w[d])
    assert_equal "4", delivered.call
    assert_operator metrics.to_text[/^pelton_produce_seconds_sum\{.*\} (\S+)$/, 1].to_f, :>, 0
  end
end
