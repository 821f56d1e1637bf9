# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"
require "pelton/metrics"

# The metrics of an app's server, which alerts ask for.
class MetricsServerTest < Minitest::Test
  include ServerKit

  SERVER = Struct.new(:status, :healthy?) do
    def route(*) = nil
  end

  def metrics = @metrics ||= Pelton::Metrics.new(app)
  def lines(start) = metrics.to_text.lines(chomp: true).select { |line| line.start_with?(start) }
  def teardown = app.close(timeout: 10)

  # PeltonNoServer fired for each web process that only produces.
  def test_a_process_without_a_server_does_not_count_as_one_that_stopped
    metrics
    assert_empty lines("pelton_server_running")
    server = SERVER.new(:running, true)
    app.define_singleton_method(:server) { server }
    assert_equal ["pelton_server_running 1"], lines("pelton_server_running")
    server[0] = :stopped
    assert_equal ["pelton_server_running 0"], lines("pelton_server_running")
  end

  # PeltonNoServer fired during stops of more than 5 minutes.
  def test_a_server_that_stops_runs_until_its_end
    metrics
    server = SERVER.new(:stopping, true)
    app.define_singleton_method(:server) { server }
    assert_equal ["pelton_server_running 1"], lines("pelton_server_running")
    server[0] = :forced
    assert_equal ["pelton_server_running 0"], lines("pelton_server_running")
  end

  # app.unhealthy had no metric, so nothing could alert on it.
  def test_a_server_whose_live_check_fails_is_not_healthy
    metrics
    assert_empty lines("pelton_server_healthy")
    server = SERVER.new(:running, true)
    app.define_singleton_method(:server) { server }
    assert_equal ["pelton_server_healthy 1"], lines("pelton_server_healthy")
    server[1] = false
    assert_equal ["pelton_server_healthy 0"], lines("pelton_server_healthy")
  end

  # PeltonNoPartitions saw only the sum of a scrape job: a second app in it hid the first.
  def test_a_group_without_partitions_has_none
    metrics
    server = SERVER.new(:running, true)
    app.define_singleton_method(:server) { server }
    stats = { **app.stats, consumers: { "g" => { "a" => { 0 => 1, 1 => 1 }, "b" => { 0 => 1 } }, "h" => {} } }
    app.define_singleton_method(:stats) { stats }
    assert_equal ["pelton_group_partitions{group=\"g\"} 3", "pelton_group_partitions{group=\"h\"} 0"],
                 lines("pelton_group_partitions")
    server[0] = :forced
    assert_empty lines("pelton_group_partitions")
  end

  # What this app's metrics show of its counters with these topics assigned.
  def counters(name, *topics)
    start
    stats = { **app.stats, consumers: { "g" => topics.to_h { |topic| [topic, { 0 => 1 }] } } }
    app.define_singleton_method(:stats) { stats }
    lines("pelton_#{name}_total").map { |line| line.delete_prefix("pelton_#{name}_total") }
  end

  # increase() of the first aborted transaction was 0, because its series began with it.
  def test_transactions_of_an_assigned_topic_and_its_retry_topics_begin_at_zero
    metrics
    app.routes do
      topic("orders", to: Consumer) do
        transactional "shop"
        retry_in 2
      end
      topic("plain", to: Consumer)
    end
    assert_equal ["{group=\"g\",topic=\"orders\",outcome=\"committed\"} 0",
                  "{group=\"g\",topic=\"orders\",outcome=\"aborted\"} 0",
                  "{group=\"g\",topic=\"orders.retry.2\",outcome=\"committed\"} 0",
                  "{group=\"g\",topic=\"orders.retry.2\",outcome=\"aborted\"} 0"],
                 counters("transactions", "orders", "orders.retry.2", "plain")
    app.notifications.publish("transaction.aborted", client: "p#1", group: "g", topic: "orders", partition: 0,
                                                     seconds: 1, error: nil)
    assert_equal ["pelton_transactions_total{group=\"g\",topic=\"orders\",outcome=\"aborted\"} 1"],
                 lines("pelton_transactions_total").grep(/ 1\z/)
  end

  def test_messages_that_a_route_may_drop_begin_at_zero_with_its_reasons
    metrics
    app.routes do
      topic("orders", to: Consumer) do
        decode :json
        where("kind").eq("paid")
        filter { true }
        expire_after 60
        retry_in 2
      end
      topic(/\Asome-/, to: Consumer) { filter { true } }
      topic("plain", to: Consumer)
    end
    reasons = [%w[orders where], %w[orders filtered], %w[orders expired], %w[orders.retry.2 of_another_group],
               %w[some-thing filtered]]
    assert_equal(reasons.map { |topic, reason| "{group=\"g\",topic=\"#{topic}\",reason=\"#{reason}\"} 0" },
                 counters("consumer_dropped_messages", "orders", "orders.retry.2", "some-thing", "plain"))
  end
end
