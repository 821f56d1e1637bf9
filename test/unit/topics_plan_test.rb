# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "pelton/app"
require "pelton/topics"
require "pelton/topics/plan"

# The difference between declarations and a cluster, and what `apply` does about it.
class TopicsPlanTest < Minitest::Test
  class Orders < Pelton::Consumer
    def consume = nil
  end

  def app(cluster, &block)
    app = Pelton::App.new(native: cluster.native)
    app.configure do |config|
      config.group_id = "billing"
      config.kafka = { "bootstrap.servers" => "main:9092" }
    end
    app.topics(&block) if block
    app
  end

  def cluster(topics = {}) = @cluster = Fakes::AdminCluster.new(topics)
  def plan(**options, &block) = app(@cluster, &block).topics.plan(**options)
  def texts(plan) = plan.changes.map { |change| "#{change.action} #{change.topic}: #{change}" }

  # Applies a plan after another process changed the cluster. Returns the names of the errors.
  def apply_late(&block)
    cluster("orders" => { partitions: 2 }, "old" => {})
    found = plan(allow_delete: true) do
      topic "orders", partitions: 4
      topic "new", partitions: 3
      deleted "old"
    end
    block.call(@cluster.topics)
    found.apply.map { |result| result.error&.name }
  end

  def test_changes_that_another_process_made_after_the_plan_are_done
    errors = apply_late do |topics|
      topics["orders"][:partitions] = 4
      topics["new"] = { partitions: 3, replication: 1, config: {} }
      topics.delete("old")
    end
    assert_equal [nil, nil, nil], errors
  end

  def test_topic_that_another_process_made_in_another_way_is_an_error
    errors = apply_late do |topics|
      topics["orders"][:partitions] = 5
      topics["new"] = { partitions: 1, replication: 1, config: {} }
    end
    assert_equal [:INVALID_PARTITIONS, :TOPIC_ALREADY_EXISTS, nil], errors
  end

  def test_a_cluster_that_is_as_declared_needs_nothing
    cluster("orders" => { partitions: 3, replication: 2, config: { "cleanup.policy" => "compact,delete" } },
            "other" => {})
    found = plan do
      topic "orders", partitions: 3, replication: 2,
                      config: { "cleanup.policy" => %w[delete compact], "retention.ms" => 604_800_000 }
      deleted "gone"
    end
    assert_empty found.changes
    assert_predicate found, :empty?
    assert_equal({ "main:9092" => ["other"] }, found.undeclared)
    assert_empty found.apply
    assert_empty @cluster.changes
  end

  def test_a_missing_topic_is_created_as_declared
    cluster
    found = plan { topic "orders", partitions: 3, config: { "retention.ms" => 5, "segment.bytes" => nil } }
    assert_equal ["create orders: 3 partitions, retention.ms=5"], texts(found)
    assert_equal [nil], found.apply.map(&:error)
    assert_equal [[:create_topic, ["orders", 3, -1, [["retention.ms", "5"]]]]], @cluster.changes
  end

  def test_an_existing_topic_is_compared_only_where_the_declaration_says_something
    cluster("orders" => { partitions: 9, replication: 3, config: { "segment.bytes" => "99" } })
    assert_empty plan { topic "orders", config: { "retention.ms" => 604_800_000 } }.changes
  end

  # The plan named config.report_topic, and the route.
  def test_a_difference_names_the_line_that_declares_its_value
    cluster("pelton.reports" => { partitions: 1, replication: 1 }, "orders" => { partitions: 2, replication: 1 })
    app = app(@cluster) do
      topic "pelton.reports", replication: 3
      topic "orders", config: { "retention.ms" => 5 }
    end
    line = __LINE__ - 3
    app.configure { |config| config.report_topic = "pelton.reports" }
    app.routes { topic("orders", to: Orders) { creates partitions: 3 } }
    places = app.topics.plan.changes.to_h do |change|
      ["#{change.topic} #{change.setting}", change.location[/\d+\z/].to_i]
    end
    assert_equal({ "pelton.reports replication" => line, "orders retention.ms" => line + 1,
                   "orders partitions" => line + 5 }, places)
  end

  # {"orders.dead" => [partitions, replicas]} that the plan creates.
  def creations(app, **options)
    app.topics.plan(**options).changes.select { |change| change.action == :create }
       .to_h { |change| [change.topic, change.to.values_at(:partitions, :replication)] }
  end

  def test_dead_letters_and_retry_topics_get_the_numbers_that_their_main_topic_has_in_the_cluster
    cluster("orders" => { partitions: 4, replication: 2 }, "bills" => { partitions: 6, replication: 1 })
    app = app(@cluster)
    app.routes do
      %w[orders bills new].each do |name|
        topic name, to: Orders do
          creates partitions: 5 unless name == "orders"
          retry_in 5
          dead_letters name == "new" ? "new.dead" : "dead"
        end
      end
    end
    assert_equal({ "orders.retry.5" => [4, 2], "bills.retry.5" => [6, 1], "dead" => [6, 2], "new" => [5, nil],
                   "new.retry.5" => [5, nil], "new.dead" => [5, nil] }, creations(app))
    assert_equal({ "orders.retry.5" => [4, 2] }, creations(app, only: ["orders.retry.5"]))
    app.topics.plan.apply
    assert_equal [4, 6], @cluster.topics.values_at("orders.retry.5", "dead").map { |topic| topic[:partitions] }
  end

  def test_dead_letter_topics_that_on_failure_may_name_are_created_too
    cluster("orders" => { partitions: 4, replication: 2 })
    app = app(@cluster)
    app.routes do
      topic("orders", to: Orders) { on_failure ->(_) { [:dead_letter, "odd"] }, dead_letters: %w[odd large] }
    end
    assert_equal({ "odd" => [4, 2], "large" => [4, 2] }, creations(app))
  end

  def test_a_declared_number_counts_before_that_of_the_main_topic
    { -> { dead_letters partitions: 1 } => [1, 2], -> { topic "dead", replication: 3 } => [4, 3],
      -> { topic("dead") && dead_letters(replication: 3) } => [4, 3],
      -> { retry_topics partitions: 1 } => [4, 2] }.each do |words, numbers|
      cluster("orders" => { partitions: 4, replication: 2 })
      app = app(@cluster) { instance_exec(&words) }
      app.routes { topic("orders", to: Orders) { dead_letters "dead" } }
      assert_equal({ "dead" => numbers }, creations(app))
    end
  end

  def test_partitions_are_added_with_a_warning
    cluster("orders" => { partitions: 3 })
    found = plan { topic "orders", partitions: 6 }
    assert_equal ["add_partitions orders: partitions 3 -> 6"], texts(found)
    assert_match(/messages with a key may go to another partition/, found.changes.first.warning)
    found.apply
    assert_equal 6, @cluster.topics["orders"][:partitions]
  end

  def test_configs_change_in_one_request_from_old_or_default
    cluster("orders" => { config: { "retention.ms" => "9", "segment.bytes" => "77" } })
    found = plan do
      topic "orders", config: { "retention.ms" => 5, "max.message.bytes" => 7, "segment.bytes" => nil,
                                "cleanup.policy" => "compact" }
    end
    assert_equal ["retention.ms 9 -> 5", "max.message.bytes 1048588 (default) -> 7", "segment.bytes 77 -> default",
                  "cleanup.policy delete (default) -> compact"], found.changes.map(&:to_s)
    warnings = found.changes.map(&:warning)
    assert_match(/deletes messages that are beyond/, warnings[0])
    assert_equal [nil, nil], warnings[1, 2]
    assert_match(/only the last message of each key/, warnings[3])
    results = found.apply
    assert_equal [4, [nil]], [results.size, results.map(&:error).uniq]
    assert_equal [[:alter_config, ["orders", [["retention.ms", "5"], ["max.message.bytes", "7"], ["segment.bytes", nil],
                                              ["cleanup.policy", "compact"]]]]], @cluster.changes
    assert_empty plan { topic "orders", config: { "retention.ms" => 5, "segment.bytes" => nil } }.changes
  end

  def test_fewer_partitions_are_refused
    cluster("orders" => { partitions: 6 })
    found = plan { topic "orders", partitions: 3 }
    assert_equal ["remove_partitions orders: partitions 6 -> 3"], texts(found)
    assert_match(/cannot remove partitions/, found.changes.first.refusal)
    refute_predicate found, :empty?
    assert_empty found.apply
    assert_empty @cluster.changes
  end

  def test_another_replication_is_refused_and_the_tool_is_named
    cluster("orders" => { replication: 1 })
    change = plan { topic "orders", replication: 3 }.changes.first
    assert_equal [:change_replication, 1, 3], [change.action, change.from, change.to]
    assert_match(/kafka-reassign-partitions/, change.refusal)
  end

  def test_partitions_with_different_replicas_show_a_range
    topic = Pelton::Admin::TopicDescription.new(
      name: "a", partitions: [[1], [1, 2]].map { |ids| Pelton::Admin::Partition.new(replicas: ids) }
    )
    admin = Object.new
    admin.define_singleton_method(:topic_names) { |**| ["a"] }
    admin.define_singleton_method(:topics) { |*_, **| { "a" => topic } }
    state = Pelton::Topics::ClusterState.read(admin, ["a"], configs: [], timeout: 1)
    assert_equal 1..2, state.topics["a"].replication
  end

  def test_topics_are_deleted_only_when_allowed
    cluster("old" => {})
    refused = plan { deleted "old" }
    assert_match(/--allow-delete/, refused.changes.first.refusal)
    assert_empty refused.apply
    assert_equal ["old"], @cluster.topics.keys
    assert_equal [nil], plan(allow_delete: true) { deleted "old" }.apply.map(&:error)
    assert_empty @cluster.topics
  end

  def test_undeclared_topics_are_never_touched
    cluster("mine" => {}, "theirs" => { partitions: 1 }, "__consumer_offsets" => {})
    plan(allow_delete: true) do
      topic "mine", partitions: 2
      deleted "gone"
    end.apply
    assert_equal [[:create_partitions, ["mine", 2]]], @cluster.changes
    assert_equal %w[mine theirs __consumer_offsets], @cluster.topics.keys
  end

  def test_routed_topics_are_neither_changed_nor_called_undeclared
    cluster("orders" => {})
    app = app(@cluster) { topic "mine" }
    app.routes { topic "orders", to: Orders }
    assert_equal({ "main:9092" => [] }, app.topics.plan.undeclared)
  end

  def test_apply_goes_on_after_a_failure_and_reports_each
    cluster("b" => {})
    @cluster.refuse(:create_topic, "a", 29)
    found = plan do
      topic "a", partitions: 1
      topic "b", partitions: 2
      topic "c", partitions: 3
    end
    seen = []
    results = found.apply { |result| seen << result }
    assert_equal results, seen
    assert_equal [:TOPIC_AUTHORIZATION_FAILED, nil, nil], results.map { |result| result.error&.name }
    assert_equal [2, 3], @cluster.topics.values_at("b", "c").map { |topic| topic[:partitions] }
  end

  def test_apply_counts_what_another_process_did_meanwhile_as_done
    cluster("old" => {})
    found = plan(allow_delete: true) do
      topic "new"
      deleted "old"
    end
    @cluster.topics.store("new", { partitions: 1, replication: 1, config: {} })
    @cluster.topics.delete("old")
    assert_equal [nil, nil], found.apply.map(&:error)
  end

  def test_applying_twice_changes_nothing_more
    cluster
    declared = app(@cluster) { topic "orders", partitions: 3, config: { "retention.ms" => 5 } }
    2.times { declared.topics.plan.apply }
    assert_equal 1, @cluster.changes.size
  end

  def test_apply_waits_until_the_cluster_shows_the_changes
    cluster
    late = 3 # answers that do not know the new topic yet
    @cluster.define_singleton_method(:names) { changes.any? && (late -= 1) >= 0 ? [] : super() }
    declared = app(@cluster) { topic "orders", partitions: 3 }
    declared.topics.plan.apply
    assert_equal(-1, late)
    assert_empty declared.topics.plan.changes
  end

  def test_a_config_that_the_brokers_do_not_know_is_refused_before_anything_is_created
    cluster("some" => {})
    found = plan do
      topic "new", config: { "vendor.special" => 1 }
      topic "some", config: { "vendor.special" => 1 }
    end
    assert_equal [true, true], found.changes.map(&:refused?)
    assert_match(/know no topic config vendor.special/, found.changes.first.refusal)
    cluster
    alone = plan { topic "new", config: { "vendor.special" => 1 } }
    assert_equal [:INVALID_CONFIG], alone.apply.map { |result| result.error.name }, "without topics the broker decides"
  end

  def test_a_cluster_without_an_answer_is_an_error_that_names_it
    cluster
    @cluster.refuse(:names, nil, -185)
    error = assert_raises(Pelton::KafkaError) { plan { topic "orders" } }
    assert_equal [:_TIMED_OUT, true], [error.name, error.message.include?("cluster main:9092: ")]
  end

  def test_nothing_declared_is_an_error
    cluster
    error = assert_raises(Pelton::ConfigError) { plan }
    assert_match(/topics: are not declared: use Pelton.topics/, error.message)
  end

  def test_only_the_named_topics_are_compared
    cluster
    found = plan(only: ["b"]) do
      topic "a"
      topic "b"
    end
    assert_equal ["b"], found.changes.map(&:topic)
    error = assert_raises(Pelton::ConfigError) { plan(only: ["orderz"]) { topic "orders" } }
    assert_match(/orderz: unknown declared topic, did you mean orders\?/, error.message)
  end

  def test_each_cluster_has_a_client_of_its_own_that_is_closed
    cluster
    plan do
      topic "a"
      topic "b", kafka: { "bootstrap.servers" => "there:1" }
    end.apply
    assert_equal %w[main:9092 there:1 main:9092 there:1], @cluster.opened.map { |options| options["bootstrap.servers"] }
  end
end
