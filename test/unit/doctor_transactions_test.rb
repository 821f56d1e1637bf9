# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "pelton/app"
require "pelton/cli/cli"
require "pelton/cli/doctor"

# What `pelton doctor` says of the time that a transaction may take.
class DoctorTransactionsTest < Minitest::Test
  TEXT = "%s s is longer than transaction.max.timeout.ms of the brokers (900 s), so Kafka refuses all transactions " \
         "(INVALID_TRANSACTION_TIMEOUT): lower the one, or raise the other"

  class Consumer < Pelton::Consumer
    def consume = nil
  end

  def setup
    @kafka = Fakes::AdminCluster.new({}, brokers: 3)
    @kafka.broker_config = { "transaction.max.timeout.ms" => "900000" }
  end

  # [[level, text], …] of an app with these options, whose routes the block declares.
  def findings(kafka = {}, clusters: nil, &routes)
    app = Pelton::App.new(native: @kafka.native)
    app.configure do |config|
      config.group_id = "billing"
      config.kafka = { "bootstrap.servers" => "main:9092", **kafka }
    end
    app.routes(&routes) if routes
    groups = routes ? app.routes.groups(app.config) : []
    clusters ||= groups.empty? ? { nil => {} } : groups.to_h { |group| [group.name, {}] }
    report = Pelton::CLI::Doctor::Report.new
    Pelton::CLI::Doctor::Transactions.new(app, groups, clusters, 1).examine(report)
    assert_equal(["transaction.timeout.ms"] * report.findings.size, report.findings.map { |finding| finding[:about] })
    report.findings.map { |finding| finding.values_at(:level, :text) }
  end

  def timeout(milliseconds) = { "transaction.timeout.ms" => milliseconds }

  # The server started, and each partition logged an error.
  def test_a_longer_time_than_the_brokers_allow_is_an_error_of_a_transactional_route
    routes = -> { topic("orders", to: Consumer) { transactional "shop" } }
    assert_empty findings(timeout(900_000), &routes)
    assert_equal [[:error, format(TEXT, "900.001")]], findings(timeout(900_001), &routes)
    assert_equal [[:error, format(TEXT, "1200")]], findings(timeout(1_200_000), &routes)
  end

  def test_the_default_may_be_too_long_for_the_brokers_too
    routes = -> { topic("orders", to: Consumer) { transactional "shop" } }
    assert_empty findings(&routes)
    @kafka.broker_config = { "transaction.max.timeout.ms" => "59999" }
    assert_match(/\A60 s is longer than .* \(59.999 s\)/, findings(&routes).first.last)
    assert_empty findings { topic("orders", to: Consumer) }
    assert_equal 2, @kafka.opened.size, "only an app with transactions asks"
  end

  # A pool of producers may take its options from config.kafka.
  def test_a_longer_time_is_a_warning_where_only_a_pool_may_have_transactions
    assert_equal [[:warning, format(TEXT, "1200")]], findings(timeout(1_200_000))
    assert_equal [[:warning, format(TEXT, "1200")]], findings(timeout(1_200_000)) { topic("orders", to: Consumer) }
    assert_equal [[:error, format(TEXT, "1200")]], findings({ **timeout(1_200_000), "transactional.id" => "a" })
  end

  def test_each_cluster_with_transactions_is_asked_once
    findings(timeout(1_200_000)) do
      group("a") { topic("orders", to: Consumer) { transactional "shop" } }
      group("b") { topic("orders", to: Consumer) { transactional "shop" } }
      group("c", kafka: { "bootstrap.servers" => "other:9092" }) { topic("x", to: Consumer) { transactional "shop" } }
      group("d", kafka: { "bootstrap.servers" => "third:9092" }) { topic("x", to: Consumer) }
    end
    assert_equal(%w[main:9092 other:9092], @kafka.opened.map { |options| options["bootstrap.servers"] }.sort)
  end

  def test_a_cluster_that_did_not_answer_is_not_asked_again
    findings(timeout(1_200_000), clusters: {}) { topic("orders", to: Consumer) { transactional "shop" } }
    assert_empty @kafka.opened
  end

  def test_a_broker_that_does_not_say_it_gets_no_finding_and_one_that_refuses_a_note
    routes = -> { topic("orders", to: Consumer) { transactional "shop" } }
    @kafka.broker_config = {}
    assert_empty findings(timeout(1_200_000), &routes)
    @kafka.refuse(:config, 1, 31)
    level, text = findings(timeout(1_200_000), &routes).first
    assert_equal :note, level
    assert_match(/\Acould not be compared with transaction.max.timeout.ms of the brokers: .*CLUSTER_AUTH/, text)
    @kafka.refuse(:groups, nil, -165)
    assert_empty findings(timeout(1_200_000), &routes), "an embedded cluster"
  end
end
