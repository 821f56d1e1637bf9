# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "pelton/app"
require "pelton/cli/cli"
require "pelton/cli/doctor"

# What `pelton doctor` says of the topics of a cluster: drift, replication, missing topics.
class DoctorTopicsTest < Minitest::Test
  class Consumer < Pelton::Consumer
    def consume = nil
  end

  # {about => [level, text]}
  def findings(topics, brokers: 3, some: false, refused: nil)
    cluster = Fakes::AdminCluster.new(topics, brokers: brokers)
    cluster.refuse(*refused) if refused
    app = Pelton::App.new(native: cluster.native)
    app.configure do |config|
      config.group_id = "billing"
      config.kafka = { "bootstrap.servers" => "main:9092" }
    end
    yield app
    groups = app.routes.empty? ? [] : app.routes.groups(app.config)
    report = Pelton::CLI::Doctor::Report.new
    answered = groups.empty? ? { nil => {} } : groups.to_h { |group| [group.name, {}] }
    Pelton::CLI::Doctor::ClusterTopics.new(app, groups, answered, 1, some: some).examine(report)
    report.findings.map { |finding| finding.values_at(:level, :about, :text) }
  end

  def route(app, name, &block) = app.routes { topic(name, to: Consumer, &block) }

  def assert_found(level, about, text, found)
    assert found.any? { |finding| finding[0] == level && finding[1] == about && finding[2].match?(text) }, found.inspect
  end

  def test_an_app_as_declared_has_no_findings
    cluster = { "orders" => { partitions: 3, replication: 3, config: { "min.insync.replicas" => "2" } } }
    found = findings(cluster) do |app|
      route(app, "orders") { creates partitions: 3, replication: 3 }
    end
    assert_empty found
  end

  def test_drift_is_a_warning_that_names_the_declaration
    found = findings({ "orders" => { partitions: 2, replication: 2 }, "old" => { replication: 2 } }) do |app|
      route(app, "orders") { creates partitions: 3, config: { "retention.ms" => 5 } }
      app.topics do
        topic "free"
        deleted "old"
      end
    end
    assert_found :warning, "topic orders", /not as declared at .*:\d+ \(partitions 2 -> 3\): see pelton topics plan/,
                 found
    assert_found :warning, "topic orders", /retention.ms 604800000 \(default\) -> 5/, found
    assert_found :warning, "topic free", /declared at .*, but does not exist: run pelton topics apply/, found
    assert_found :warning, "topic old", /declared as deleted at .*, but exists/, found
  end

  def test_a_missing_routed_topic_is_left_to_the_check_of_routes
    assert_empty(findings({}) { |app| route(app, "orders") { creates partitions: 3 } })
  end

  def test_a_missing_topic_of_the_schedule_or_of_reports_is_a_warning
    found = findings({}) do |app|
      route(app, "orders")
      app.configure do |config|
        config.schedule_topic = "shop.schedule"
        config.report_topic = "shop.reports"
      end
    end
    text = "is declared at %s, but does not exist: run pelton topics apply"
    assert_equal [[:warning, "topic shop.schedule", format(text, "config.schedule_topic")],
                  [:warning, "topic shop.reports", format(text, "config.report_topic")]], found
  end

  def test_replicas_against_min_insync_replicas
    topics = { "few" => { replication: 1, config: { "min.insync.replicas" => "2" } },
               "tight" => { replication: 2, config: { "min.insync.replicas" => "2" } },
               "one" => { replication: 1 }, "fine" => { replication: 3 } }
    found = findings(topics) { |app| topics.each_key { |name| route(app, name) } }
    assert_found :error, "topic few", /has replication 1, but min.insync.replicas is 2: Kafka refuses messages/, found
    assert_found :warning, "topic tight", /when one broker is down, Kafka refuses messages with acks=all/, found
    assert_found :warning, "topic one", /has replication 1: while its broker is down/, found
    assert_equal 3, found.size
  end

  def test_one_replica_is_all_that_one_broker_can_have
    assert_empty(findings({ "one" => {} }, brokers: 1) { |app| route(app, "one") })
  end

  def test_a_choice_of_groups_leaves_out_what_is_only_declared
    found = findings({ "orders" => { replication: 3 } }, some: true) do |app|
      route(app, "orders")
      app.topics { topic "free" }
    end
    assert_empty found
  end

  def test_contradicting_declarations_are_an_error
    found = findings({}) do |app|
      app.topics do
        topic "a", partitions: 1
        topic "a", partitions: 2
      end
    end
    assert_found :error, "topics", /topic a: partitions: 1 at .*, but 2 at/, found
  end

  def test_a_cluster_that_refuses_is_a_note_and_an_embedded_one_nothing
    refused = findings({ "orders" => {} }, refused: [:config, nil, 29]) { |app| route(app, "orders") }
    assert_found :note, "cluster main:9092", /could not be examined: .*TOPIC_AUTHORIZATION_FAILED/, refused
    assert_empty(findings({ "orders" => {} }, refused: [:groups, nil, -165]) { |app| route(app, "orders") })
  end
end
