# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_admin"
require "pelton/app"
require "pelton/cli/cli"
require "json"
require "stringio"

# pelton topics list, show, plan, apply and delete, on a cluster that is a fake.
class TopicsCommandsTest < Minitest::Test
  class TerminalIO < StringIO
    def tty? = true
    def winsize = [24, 80]
  end

  def setup
    @cluster = Fakes::AdminCluster.new({ "orders" => { partitions: 2, replication: 3 }, "old" => {},
                                         "__consumer_offsets" => { internal: true } })
    @declaration = -> { topic "orders", partitions: 2 }
    @routes = nil
  end

  class Routed < Pelton::Consumer
    def consume = nil
  end

  def run_command(*arguments, input: StringIO.new)
    @app = Pelton::App.new(native: @cluster.native)
    @app.configure do |config|
      config.kafka = { "bootstrap.servers" => "main:9092" }
      config.group_id = "shop"
    end
    @app.topics(&@declaration) if @declaration
    @app.routes(&@routes) if @routes
    @out = StringIO.new
    @err = StringIO.new
    Pelton::CLI.new(["topics", *arguments], app: @app, out: @out, err: @err, env: {}, input: input).run
  end

  def declare(&block) = @declaration = block
  def json = JSON.parse(@out.string)

  def test_list_of_a_misspelled_topic_is_an_error
    assert_equal 1, run_command("list", "ordres")
    assert_match(/ordres: unknown topic, did you mean orders\?/, @err.string)
    assert_equal 0, run_command("list", "x*")
    assert_equal "no topics\n", @out.string
  end

  def test_list_shows_topics_whose_names_begin_with_a_dot
    @cluster.topics[".hidden"] = @cluster.topics.fetch("old").dup
    assert_equal 0, run_command("list", "*", "--json")
    assert_equal [".hidden", "old", "orders"], json.map { |row| row["topic"] }
  end

  def test_list_shows_an_internal_topic_that_is_named
    assert_equal 0, run_command("list", "__consumer_offsets", "--json")
    assert_equal ["__consumer_offsets"], json.map { |row| row["topic"] }
  end

  def test_plan_without_a_difference_ends_with_0
    assert_equal 0, run_command("plan")
    assert_equal "no difference: the topics are as declared\n", @out.string
  end

  def test_plan_prints_differences_and_ends_with_2
    declare do
      topic "orders", partitions: 6, config: { "retention.ms" => 5 }
      topic "new", partitions: 1
      deleted "old"
    end
    assert_equal 2, run_command("plan"), @err.string
    assert_equal <<~TEXT, @out.string.gsub(/declared at .*/, "declared at HERE")
      cluster main:9092
        ~ change   orders  partitions 2 -> 6
                           messages with a key may go to another partition than before, so a key's order is lost once
        ~ change   orders  retention.ms 604800000 (default) -> 5
                           Kafka deletes messages that are beyond the new limit
        + create   new     1 partition
        ! refused  old     with all its messages
                           is allowed only with --allow-delete (allow_delete: true)
                           declared at HERE
      differences: 1 to create, 2 to change, 1 refused
    TEXT
    assert_empty @cluster.changes
  end

  def test_plan_as_json
    declare { topic "orders", partitions: 1, replication: 3 }
    assert_equal 2, run_command("plan", "--json", "--undeclared")
    change = json.fetch("changes").fetch(0)
    assert_equal ["remove_partitions", "partitions", 2, 1, true],
                 change.values_at("action", "setting", "from", "to", "refused")
    assert_match(/cannot remove partitions/, change["refusal"])
    assert_equal({ "create" => 0, "change" => 0, "delete" => 0, "refused" => 1 }, json["summary"])
    assert_equal({ "main:9092" => ["old"] }, json["undeclared"])
  end

  def test_plan_lists_undeclared_topics_on_request
    assert_equal 0, run_command("plan", "--undeclared")
    assert_includes @out.string, "not declared on main:9092: old\n"
  end

  def test_a_missing_topic_of_a_route_without_creates_is_named
    @routes = lambda do
      topic "orders", to: Routed
      topic(/^logs/, to: Routed)
      topic("jobs.default", to: Routed) { dead_letters "jobs.default.dead" }
    end
    @cluster.topics["jobs.default.dead"] = @cluster.topics.fetch("old").dup
    assert_equal 0, run_command("plan"), @err.string
    assert_equal <<~TEXT, @out.string
      no difference: the topics are as declared
      not created on main:9092: jobs.default
        Routes need them, but nothing declares them: add `creates partitions: 3` to the routes.
    TEXT
    assert_equal 0, run_command("plan", "--json")
    assert_equal({ "main:9092" => ["jobs.default"] }, json["missing"])
    assert_equal 0, run_command("plan", "orders", "--json")
    assert_empty json["missing"]
  end

  def test_plan_of_a_cluster_that_does_not_answer_ends_with_1
    @cluster.refuse(:names, nil, -185)
    assert_equal 1, run_command("plan")
    assert_match(/\Apelton: cluster main:9092: .*_TIMED_OUT/, @err.string)
  end

  def test_plan_without_declarations_ends_with_1
    @declaration = nil
    assert_equal 1, run_command("plan")
    assert_match(/are not declared: use Pelton.topics/, @err.string)
  end

  def test_plan_of_an_unknown_topic_suggests
    assert_equal 1, run_command("plan", "ordres")
    assert_match(/did you mean orders\?/, @err.string)
  end

  def test_apply_changes_the_cluster_and_then_there_is_no_difference
    declare do
      topic "orders", partitions: 6
      topic "new", config: { "retention.ms" => 5 }
    end
    assert_equal 0, run_command("apply"), @err.string
    assert_match(/^done     orders  partitions 2 -> 6$/, @out.string)
    assert_equal 0, run_command("plan"), @out.string
    assert_equal 0, run_command("apply", "--json")
    assert_equal [], json["results"]
    assert_equal 2, @cluster.changes.size
  end

  def test_apply_of_one_topic_leaves_the_others
    declare do
      topic "orders", partitions: 6
      topic "new"
    end
    assert_equal 0, run_command("apply", "new")
    assert_equal [:create_topic], @cluster.changes.map(&:first)
  end

  def test_apply_asks_on_a_terminal_and_takes_no_for_an_answer
    declare { topic "new" }
    assert_equal 1, run_command("apply", input: TerminalIO.new("n\n"))
    assert_match(%r{apply these changes \(1\)\? \[y/N\] pelton: nothing was changed}, @err.string)
    assert_empty @cluster.changes
    assert_equal 0, run_command("apply", input: TerminalIO.new("y\n"))
    assert_equal 1, @cluster.changes.size
    declare { topic "newer" }
    assert_equal 0, run_command("apply", "--yes", input: TerminalIO.new)
    assert_equal 2, @cluster.changes.size
  end

  def test_apply_ends_with_1_after_a_refusal_and_does_the_rest
    declare do
      topic "orders", partitions: 1
      deleted "old"
      topic "new"
    end
    assert_equal 1, run_command("apply")
    assert_match(/differences that were refused: 2/, @err.string)
    assert_equal [:create_topic], @cluster.changes.map(&:first)
    assert_equal 1, run_command("apply", "--allow-delete")
    refute @cluster.topics.key?("old")
    assert_equal 2, @cluster.topics["orders"][:partitions]
  end

  def test_apply_goes_on_after_a_failure_and_ends_with_1
    @cluster.refuse(:create_topic, "a", 29)
    declare do
      topic "a"
      topic "b"
    end
    assert_equal 1, run_command("apply", "--json")
    assert_equal [["a", false], ["b", true]], json["results"].map { |result| result.values_at("topic", "done") }
    assert_match(/TOPIC_AUTHORIZATION_FAILED/, json["results"][0]["error"])
    assert_match(/\Apelton: a: .*TOPIC_AUTHORIZATION_FAILED/, @err.string)
  end

  def test_apply_stops_between_two_changes_after_ctrl_c
    declare do
      topic "a"
      topic "b"
    end
    cluster = @cluster
    cluster.define_singleton_method(:answer) do |kind, argument|
      super(kind, argument).tap { Process.kill(:INT, Process.pid) if kind == :create_topic }
    end
    assert_equal 130, run_command("apply")
    assert_match(/interrupted; changes that were not applied: 1/, @err.string)
    assert_equal ["a"], @cluster.changes.map { |_, (name, *)| name }
  end

  def test_list
    assert_equal 0, run_command("list")
    assert_match(/^orders +2 +3 +0$/, @out.string)
    refute_includes @out.string, "__consumer_offsets"
    assert_equal 0, run_command("list", "--internal", "--json")
    assert_equal %w[__consumer_offsets old orders], json.map { |row| row["topic"] }
    assert_equal 0, run_command("list", "ord*", "--json")
    assert_equal([{ "topic" => "orders", "partitions" => 2, "replication" => 3, "under_replicated" => 0 }], json)
    assert_equal 0, run_command("list", "--under-replicated")
    assert_equal "no topics\n", @out.string
  end

  def test_show
    @cluster.topics["orders"][:config]["retention.ms"] = "5"
    assert_equal 0, run_command("show", "orders"), @err.string
    assert_match(/^ +1 +1 +1; 2; 3 +1; 2; 3 +3 +10 +7$/, @out.string)
    assert_match(/retention.ms +5$/, @out.string)
    refute_includes @out.string, "cleanup.policy"
    assert_equal 0, run_command("show", "orders", "--all", "--json")
    assert_equal({ "value" => "delete", "default" => true }, json["config"]["cleanup.policy"])
    assert_equal [0, 1], json["partitions"].map { |row| row["partition"] }
    assert_equal 1, run_command("show", "ordes")
    assert_match(/ordes: unknown topic, did you mean orders\?/, @err.string)
  end

  def test_show_prints_the_partitions_also_without_their_offsets
    @cluster.refuse(:offsets, nil, -185)
    assert_equal 0, run_command("show", "orders", "--json")
    assert_equal [0, [1, 2, 3], nil, nil], json["partitions"][0].values_at("partition", "replicas", "end", "messages")
    assert_match(/\Apelton: the offsets are not known: .*_TIMED_OUT/, @err.string)
  end

  def test_delete_asks_and_deletes
    assert_equal 1, run_command("delete", "old", input: TerminalIO.new("\n"))
    assert_match(%r{delete old with all messages on main:9092\? \[y/N\] pelton: nothing was deleted}, @err.string)
    assert_equal 0, run_command("delete", "old", input: TerminalIO.new("yes\n"))
    assert_equal "deleted old\n", @out.string
    refute @cluster.topics.key?("old")
  end

  def test_delete_waits_until_the_cluster_lists_the_topic_no_more
    late = 2 # answers that still list the topic
    @cluster.define_singleton_method(:names) { topics.key?("old") || (late -= 1) < 0 ? super() : [*super(), "old"] }
    assert_equal 0, run_command("delete", "old", "--yes")
    assert_equal(-1, late)
  end

  def test_delete_without_a_terminal_needs_yes
    assert_equal 1, run_command("delete", "old")
    assert_match(/--yes: is needed/, @err.string)
    assert @cluster.topics.key?("old")
    assert_equal 0, run_command("delete", "old", "--yes", "--json")
    assert_equal([{ "topic" => "old", "deleted" => true, "error" => nil }], json)
  end

  def test_delete_of_a_topic_of_kafka_itself_deletes_none
    assert_equal 1, run_command("delete", "old", "__consumer_offsets", "--yes")
    assert_match(/__consumer_offsets: belongs to Kafka itself/, @err.string)
    assert_empty @cluster.changes
    [-> { topic "__consumer_offsets", partitions: 60 }, -> { deleted "__transaction_state" }].each do |declaration|
      @declaration = declaration
      assert_equal 1, run_command("apply", "--allow-delete", "--yes")
      assert_match(/topic __.*: belongs to Kafka, but .*topics_commands_test.rb:\d+ declares it/, @err.string)
    end
    assert_empty @cluster.changes
  end

  def test_delete_of_a_missing_topic_deletes_none
    assert_equal 1, run_command("delete", "old", "ordders", "--yes")
    assert_match(/ordders: unknown topic, did you mean orders\?/, @err.string)
    assert_empty @cluster.changes
  end

  def test_delete_goes_on_after_a_failure
    @cluster.refuse(:delete_topic, "old", 29)
    assert_equal 1, run_command("delete", "old", "orders", "--yes")
    assert_equal "deleted orders\n", @out.string
    assert_match(/old: .*TOPIC_AUTHORIZATION_FAILED/, @err.string)
  end
end
