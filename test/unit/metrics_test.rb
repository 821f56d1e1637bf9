# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"
require "pelton/metrics"

class MetricsTest < Minitest::Test
  include ServerKit

  def metrics(**options) = @metrics ||= Pelton::Metrics.new(app, **options)
  def publish(name, **payload) = app.notifications.publish(name, **payload)
  def text(**options) = metrics.to_text(**options)
  def lines(start) = text.lines(chomp: true).select { |line| line.start_with?(start) }
  def teardown = app.close(timeout: 10)

  # What counts the calls of a topic: nil if nothing does.
  def counts(group: "g", topic: "orders", partition: 0)
    facts = { group: group, topic: topic, partition: partition }
    app.notifications.counters.map { |counter| counter.calls(facts) }.first
  end

  def consumed(messages: 20, seconds: 0.25, consumption_lag: 2.0, error: nil, **place)
    counts(**place)&.called(place.fetch(:partition, 0), messages, seconds, consumption_lag, !error.nil?)
  end

  # The partitions that this process has: { "orders" => [0, 1] }
  def own(topics)
    stats = { **app.stats, consumers: { "g" => topics.transform_values { |all| all.to_h { |number| [number, 1] } } } }
    app.singleton_class.remove_method(:stats) if app.singleton_methods(false).include?(:stats)
    app.define_singleton_method(:stats) { stats }
  end

  def test_calls_of_consumers
    metrics
    consumed
    consumed(error: RuntimeError.new("x"), seconds: 400, consumption_lag: nil)
    all = text
    ["pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 40",
     "pelton_consumer_failures_total{group=\"g\",topic=\"orders\"} 1",
     "pelton_consume_seconds_bucket{group=\"g\",topic=\"orders\",le=\"0.1\"} 0",
     "pelton_consume_seconds_bucket{group=\"g\",topic=\"orders\",le=\"0.5\"} 1",
     "pelton_consume_seconds_bucket{group=\"g\",topic=\"orders\",le=\"300.0\"} 1",
     "pelton_consume_seconds_bucket{group=\"g\",topic=\"orders\",le=\"+Inf\"} 2",
     "pelton_consume_seconds_sum{group=\"g\",topic=\"orders\"} 400.25",
     "pelton_consume_seconds_count{group=\"g\",topic=\"orders\"} 2",
     "pelton_message_age_seconds_sum{group=\"g\",topic=\"orders\"} 2.25",
     "pelton_consume_batch_messages_bucket{group=\"g\",topic=\"orders\",le=\"50\"} 2",
     "pelton_consume_batch_messages_bucket{group=\"g\",topic=\"orders\",le=\"10\"} 0"].each do |line|
      assert_includes all, "#{line}\n"
    end
  end

  def test_a_topic_of_two_groups
    metrics
    consumed
    3.times { consumed(group: "h", messages: 1) }
    consumed(error: RuntimeError.new("x"))
    assert_equal ["pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 40",
                  "pelton_consumer_messages_total{group=\"h\",topic=\"orders\"} 3"],
                 lines("pelton_consumer_messages_total")
    assert_equal ["pelton_consumer_failures_total{group=\"g\",topic=\"orders\"} 1"],
                 lines("pelton_consumer_failures_total")
  end

  def test_a_message_from_the_future_has_no_age
    metrics
    own("orders" => [0])
    consumed(consumption_lag: -30.0)
    assert_includes text, "pelton_message_age_seconds_sum{group=\"g\",topic=\"orders\"} 0.25\n"
    assert_equal ["pelton_partition_lag_seconds{group=\"g\",topic=\"orders\",partition=\"0\"} 0"],
                 lines("pelton_partition_lag_seconds")
  end

  def test_scrapes_add_up
    metrics
    consumed
    assert_equal lines("pelton_consume"), lines("pelton_consume")
    consumed(seconds: 2)
    assert_equal ["pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 40"],
                 lines("pelton_consumer_messages_total")
    assert_equal ["pelton_consume_seconds_sum{group=\"g\",topic=\"orders\"} 2.25",
                  "pelton_consume_seconds_count{group=\"g\",topic=\"orders\"} 2"],
                 lines("pelton_consume_seconds_sum") + lines("pelton_consume_seconds_count")
  end

  def test_two_metrics_count_the_same_calls
    both = [metrics, Pelton::Metrics.new(app)]
    counters = app.notifications.counters.map { |counter| counter.calls({ group: "g", topic: "orders", partition: 3 }) }
    Pelton::Native::CallMeter.new(3, counters).then do |meter|
      meter.begin
      meter.called(7, nil, nil, false)
    end
    both.each do |metrics|
      assert_includes metrics.to_text, "pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 7\n"
    end
  end

  def test_a_forked_child_counts_from_zero
    metrics
    consumed
    publish("error.occurred", error: RuntimeError.new, source: "kafka")
    reader, writer = IO.pipe
    child = fork do
      reader.close
      before = lines("pelton_consumer_messages_total") + lines("pelton_errors")
      consumed(messages: 3)
      writer.write([before, lines("pelton_consumer_messages_total")].inspect)
      writer.close
      exit!(0)
    end
    writer.close
    assert_equal [[], ["pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 3"]].inspect, reader.read
    Process.wait(child)
    assert_equal ["pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 20"],
                 lines("pelton_consumer_messages_total")
    assert_equal ["pelton_errors_total{source=\"kafka\"} 1"], lines("pelton_errors")
  end

  def test_a_value_on_a_bound_belongs_to_its_bucket
    family = Pelton::Metrics::Histogram.new("x", "x", [], [1, 2])
    [1, 2, 3].each { |value| family.observe([], value) }
    found = []
    family.each_sample { |suffix, labels, value| found << [suffix, labels, value] }
    assert_equal [["_bucket", "{le=\"1\"}", 1], ["_bucket", "{le=\"2\"}", 2], ["_bucket", "{le=\"+Inf\"}", 3],
                  ["_sum", "", 6], ["_count", "", 3]], found
  end

  def test_the_outbox_is_measured_only_where_it_is_relayed
    metrics
    publish("outbox.published", count: 500, seconds: 0.2)
    publish("outbox.measured", rows: 3, seconds: 61.5, refused: 1)
    assert_equal ["pelton_outbox_sent_messages_total 500", "pelton_outbox_rows 3", "pelton_outbox_refused_rows 1",
                  "pelton_outbox_age_seconds 61.5"], lines("pelton_outbox")
    publish("outbox.released", process: 7)
    assert_equal ["pelton_outbox_sent_messages_total 500"], lines("pelton_outbox")
  end

  def test_fallbacks_of_engines_count_payloads
    metrics
    2.times { publish("parallel.fell_back", topic: "orders", count: 3, error: RuntimeError.new) }
    assert_equal ["pelton_decode_fallbacks_total{topic=\"orders\",decoder=\"parallel\"} 6"],
                 lines("pelton_decode_fallbacks")
  end

  # A batch of 100 jobs of two minutes: the counter stood still for three hours.
  def test_messages_of_a_batch_that_still_runs_are_counted_once
    metrics
    counter = app.notifications.counters.first
    facts = { group: "g", topic: "orders", partition: 0 }
    count = -> { Integer(lines("pelton_consumer_messages_total").first[/\d+\z/]) }
    counter.given(facts, 2)
    assert_equal 2, count.()
    consumed(messages: 5, partition: 1)
    assert_equal 7, count.()
    counter.given(facts, 1)
    counter.counted(facts, 3)
    assert_equal 8, count.(), "its call ends now"
    consumed(messages: 6)
    assert_equal 11, count.()
    consumed(messages: 6)
    assert_equal 17, count.()
    assert_equal ["pelton_consume_batch_messages_sum{group=\"g\",topic=\"orders\"} 17"],
                 lines("pelton_consume_batch_messages_sum")
  end

  def test_both_formats
    metrics
    publish("message.dropped", group: "g", topic: "orders", partition: 0, offset: 0, count: 3, reason: :expired)
    assert_includes text, "# TYPE pelton_consumer_dropped_messages_total counter\n"
    assert_includes text(open: true), "# TYPE pelton_consumer_dropped_messages counter\n"
    assert text(open: true).end_with?("\n# EOF\n")
    [true, false].each do |open|
      assert_includes text(open: open), "pelton_consumer_dropped_messages_total" \
                                        "{group=\"g\",topic=\"orders\",reason=\"expired\"} 3\n"
    end
  end

  def test_text_that_would_break_a_line
    metrics
    publish("error.occurred", error: RuntimeError.new, source: "a\"b\\c\nd\xFF")
    assert_equal ["pelton_errors_total{source=\"a\\\"b\\\\c\\nd\u{FFFD}\"} 1"], lines("pelton_errors_total")
    publish("error.occurred", error: RuntimeError.new, source: "subscriber of app.quiet")
    assert_includes text, "pelton_errors_total{source=\"subscriber\"} 1\n"
  end

  def test_too_many_series_are_counted_together
    metrics(series: 2)
    own(%w[a b c d].to_h { |topic| [topic, [0]] })
    %w[a b c d c].each { |topic| consumed(topic: topic) }
    assert_equal ["pelton_consumer_messages_total{group=\"g\",topic=\"a\"} 20",
                  "pelton_consumer_messages_total{group=\"g\",topic=\"b\"} 20",
                  "pelton_consumer_messages_total{group=\"other\",topic=\"other\"} 60"],
                 lines("pelton_consumer_messages_total")
    assert_equal 2, lines("pelton_partition_lag_seconds").size
  end

  def test_few_partitions_of_many_have_series
    metrics(partitions: 3)
    none = { threads: {}, native_threads: nil, descriptors: nil, memory: {}, stopped: { "g" => { "a" => { 0 => 9 } } },
             consumers: { "g" => { "a" => { 0 => 1, 1 => 1 } } }, jobs: { running: 1, waiting: 0, aside: 0 },
             calls: { "g" => { "a" => { 0 => 0, 1 => 9.5 }, "b" => { 0 => 0 } } },
             long_calls: { "g" => { "a" => { 1 => 9.5 } } } }
    lags = { "g" => { "a" => { 1 => 5, 0 => 0 }, "b" => { 0 => 1, 1 => 2, 2 => 3 } } }
    app.define_singleton_method(:stats) { { **none, lags: lags } }
    consumed(topic: "a")
    assert_equal ["pelton_consumer_lag_messages{group=\"g\",topic=\"a\"} 5",
                  "pelton_consumer_lag_messages{group=\"g\",topic=\"b\"} 6"], lines("pelton_consumer_lag_messages")
    assert_equal [0, 5, 1], (lines("pelton_partition_lag_messages").map { |line| Integer(line[/\d+\z/]) })
    assert_equal ["pelton_partition_lag_seconds{group=\"g\",topic=\"a\",partition=\"0\"} 0"],
                 lines("pelton_partition_lag_seconds")
    assert_equal ["pelton_partitions_stopped{group=\"g\",topic=\"a\"} 1"], lines("pelton_partitions_stopped")
    assert_empty lines("pelton_open_descriptors")
    assert_equal ["pelton_longest_call_seconds{group=\"g\",topic=\"a\"} 9.5",
                  "pelton_longest_call_seconds{group=\"g\",topic=\"b\"} 0"], lines("pelton_longest_call_seconds")
    assert_equal ["pelton_long_calls{group=\"g\",topic=\"a\"} 1", "pelton_long_calls{group=\"g\",topic=\"b\"} 0"],
                 lines("pelton_long_calls")
  end

  def test_counters_of_an_assigned_topic_begin_at_zero
    metrics
    own("orders" => [0])
    names = text.scan(/^pelton_(\w+)_total{group="g",topic="orders"} 0$/).flatten
    assert_equal %w[consumer_messages consumer_failures consumer_retries consumer_postponed_messages
                    consumer_dead_letters consumer_skipped_messages consumer_repeated_messages], names
    publish("message.dead_lettered", group: "g", topic: "orders")
    assert_equal ["pelton_consumer_dead_letters_total{group=\"g\",topic=\"orders\"} 1"],
                 lines("pelton_consumer_dead_letters_total")
  end

  def test_each_part_of_the_native_memory_has_a_series
    parts = { fetched: 5, batches: 4, retained: 3, decoded: 2, producers: 1 }
    assert_equal parts.keys, app.stats[:memory].keys - %i[budget resident]
    metrics
    stats = { **app.stats, memory: { budget: 9, resident: 8, **parts } }
    app.define_singleton_method(:stats) { stats }
    assert_equal parts.map { |part, bytes| "pelton_native_memory_bytes{part=\"#{part}\"} #{bytes}" }.sort,
                 lines("pelton_native_memory_bytes").sort
    assert_equal ["pelton_memory_budget_bytes 9"], lines("pelton_memory_budget_bytes")
    assert_equal ["pelton_resident_memory_bytes 8"], lines("pelton_resident_memory_bytes")
    stats[:memory] = { decoded: 2 }
    assert_equal ["pelton_native_memory_bytes{part=\"decoded\"} 2"], lines("pelton_native_memory_bytes")
  end

  def test_partitions_beyond_the_limit_have_no_age_either
    metrics(partitions: 2)
    own("orders" => [*0..4])
    5.times { |number| consumed(partition: number) }
    assert_equal ["pelton_partition_lag_seconds{group=\"g\",topic=\"orders\",partition=\"0\"} 2.0",
                  "pelton_partition_lag_seconds{group=\"g\",topic=\"orders\",partition=\"1\"} 2.0"],
                 lines("pelton_partition_lag_seconds")
    publish("partition.revoked", group: "g", topic: "orders", partition: 0, lost: false)
    consumed(partition: 4)
    assert_equal %w[1 4], (lines("pelton_partition_lag_seconds").map { |line| line[/partition="(\d)"/, 1] })
  end

  # A call that ran on when its partition was revoked: the age was shown until the process ended, and PeltonLate fired.
  def test_a_call_that_ends_after_its_partition_was_revoked_leaves_no_age
    metrics
    own("orders" => [0, 1])
    [0, 1].each { |number| consumed(partition: number) }
    assert_equal 2, lines("pelton_partition_lag_seconds").size
    publish("partition.revoked", group: "g", topic: "orders", partition: 0, lost: false)
    consumed(partition: 0, consumption_lag: 400.0)
    own("orders" => [1])
    assert_equal ["pelton_partition_lag_seconds{group=\"g\",topic=\"orders\",partition=\"1\"} 2.0"],
                 lines("pelton_partition_lag_seconds")
    assert_equal ["pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 60"],
                 lines("pelton_consumer_messages_total")
  end

  def statistics(client, **values)
    publish("statistics.emitted", client: client, statistics: values.transform_keys(&:to_s), rates: {})
  end

  def broker(id, name, **more)
    { "nodeid" => id, "nodename" => name, "state" => "UP", "rtt" => { "p50" => 1500, "p99" => 20_000 }, **more }
  end

  def test_counts_of_librdkafka_grow_also_when_a_client_was_replaced
    metrics
    brokers = { "b" => broker(1, "kafka:9092", "int_latency" => { "p99" => 7 }),
                "boot" => { "nodeid" => -1, "nodename" => "kafka:9092", "state" => "DOWN" } }
    statistics("p", type: "producer", txmsgs: 10, msg_cnt: 4, brokers: brokers)
    statistics("p", type: "producer", txmsgs: 15, msg_cnt: 3, brokers: brokers)
    statistics("p", type: "producer", txmsgs: 2, msg_cnt: 2, brokers: brokers)
    assert_equal ["pelton_sent_messages_total{client=\"p\"} 17"], lines("pelton_sent_messages")
    assert_equal ["pelton_broker_up{client=\"p\",broker=\"kafka:9092\"} 1"], lines("pelton_broker_up")
    assert_includes lines("pelton_broker_round_trip_seconds"),
                    "pelton_broker_round_trip_seconds{client=\"p\",broker=\"kafka:9092\",percentile=\"50\"} 0.0015"
    assert_equal ["pelton_producer_queue_messages{client=\"p\"} 2"], lines("pelton_producer_queue_messages")
    publish("client.closed", client: "p")
    assert_empty lines("pelton_broker_up") + lines("pelton_producer_queue_messages")
    assert_equal 1, lines("pelton_sent_messages").size
  end

  # Those of a decommissioned broker, and of each subscription that was closed, stayed until the process ended.
  def test_a_broker_or_client_that_is_gone_has_no_gauges
    metrics
    both = { "a" => broker(1, "a:9092"), "b" => broker(2, "b:9092") }
    %w[s#1 s#2].each { |client| statistics(client, type: "consumer", brokers: both) }
    assert_equal [4, 8], [lines("pelton_broker_up").size, lines("pelton_broker_round_trip_seconds").size]
    statistics("s#1", type: "consumer", brokers: both.slice("a"))
    publish("client.closed", client: "s#2")
    assert_equal ["pelton_broker_up{client=\"s#1\",broker=\"a:9092\"} 1"], lines("pelton_broker_up")
    assert_equal 2, lines("pelton_broker_round_trip_seconds").size
  end

  def test_statistics_stay_off_if_they_are_not_wanted
    Pelton::Metrics.new(app, statistics: false)
    refute app.notifications.wanted?("statistics.emitted")
    assert app.notifications.wanted?("rebalance.finished")
    assert app.notifications.calls
  end

  def test_failures_transactions_and_rebalances
    metrics
    route = { group: "g", topic: "orders", partition: 0 }
    nowhere = route.transform_values { nil }
    publish("consumer.retrying", **route)
    publish("message.postponed", **route)
    publish("message.dead_lettered", **route)
    publish("message.skipped", **route)
    publish("message.repeated", **route, count: 4)
    publish("partition.revoked", **route, lost: true)
    publish("partition.revoked", **route, lost: false)
    publish("rebalance.finished", group: "g", seconds: 0.2)
    publish("transaction.committed", client: "p", **nowhere, seconds: 1)
    publish("transaction.aborted", client: "p", **nowhere, seconds: 1)
    publish("message.delivery_failed", topic: "orders")
    publish("producer.queue_full", client: "p", waits: 3)
    counts(**route).waited(0.2)
    counted = text.scan(/^pelton_(\w+?)(?:_total|_count)(?:\{.*\})? (\d+)$/).to_h.transform_values { Integer(_1) }
    expected = { "consumer_retries" => 1, "consumer_postponed_messages" => 1, "consumer_dead_letters" => 1,
                 "consumer_skipped_messages" => 1, "consumer_repeated_messages" => 4, "partitions_lost" => 1,
                 "rebalances" => 1, "rebalance_seconds" => 1, "delivery_failures" => 1, "queue_full_waits" => 3,
                 "transactions" => 1, "transaction_seconds" => 2, "job_wait_seconds" => 1 }
    assert_equal expected, counted
  end

  # A partition's own producer has another name after each rebalance.
  def test_transactions_count_by_topic_or_by_client
    metrics
    place = { group: "g", topic: "orders" }
    3.times { publish("transaction.committed", client: "p##{_1}", **place, partition: _1, seconds: 1) }
    publish("transaction.committed", client: "p#9", group: nil, topic: nil, partition: nil, seconds: 1)
    series = text.scan(/^pelton_transaction(?:s_total|_seconds_count).*/)
    assert_equal ["pelton_transactions_total{group=\"g\",topic=\"orders\",outcome=\"committed\"} 3",
                  "pelton_transactions_total{client=\"p#9\",outcome=\"committed\"} 1",
                  "pelton_transaction_seconds_count{group=\"g\",topic=\"orders\"} 3",
                  "pelton_transaction_seconds_count{client=\"p#9\"} 1"], series
  end

  def test_a_rack_app
    plain = metrics.call("REQUEST_METHOD" => "GET", "HTTP_ACCEPT" => "*/*")
    assert_equal [200, "text/plain; version=0.0.4; charset=utf-8"], [plain[0], plain[1]["content-type"]]
    refute_includes plain[2].join, "# EOF"
    accept = "application/openmetrics-text;version=1.0.0,*/*;q=0.1"
    open = metrics.call("REQUEST_METHOD" => "GET", "HTTP_ACCEPT" => accept)
    assert_match(%r{\Aapplication/openmetrics-text; version=1.0.0}, open[1]["content-type"])
    assert_includes open[2].join, "# EOF\n"
    assert_equal [200, []], metrics.call("REQUEST_METHOD" => "HEAD").values_at(0, 2)
    assert_equal 405, metrics.call("REQUEST_METHOD" => "POST")[0]
  end

  def test_options_are_checked
    [{ partitions: -1 }, { partitions: "3" }, { series: nil }].each do |options|
      error = assert_raises(Pelton::ConfigError) { Pelton::Metrics.new(app, **options) }
      assert_includes error.message, options.keys.first.to_s
    end
  end

  def test_a_client_that_is_open_already
    app.notifications.decide("statistics.emitted", "a client opened without statistics")
    assert_raises(Pelton::ConfigError) { metrics }
  end

  def test_close_ends_counting
    metrics
    consumed
    metrics.close
    refute app.notifications.calls
    consumed
    assert_includes text, "pelton_consumer_messages_total{group=\"g\",topic=\"orders\"} 20\n"
  end

  # The page has the same metrics as the code.
  def test_the_guide_lists_every_metric
    page = File.read(File.expand_path("../../docs/guides/metrics.md", __dir__))
    listed = page.scan(/^\| `pelton_(\w+)` \| (\w+) \|/)
    known = Pelton::Metrics::Families::TABLE.map do |name, (type)|
      [type == :counter ? "#{name}_total" : name.to_s, type.to_s]
    end
    known << %w[process_up gauge] # of the parent: see ProcessSeries
    assert_equal known.sort, listed.sort
  end
end
