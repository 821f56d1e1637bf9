# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/cli/cli"
require "stringio"

# The small commands: routes, info, version, console; and the filters of groups and topics.
class CommandsTest < Minitest::Test
  class Orders < Pelton::Consumer
    def consume = nil
  end

  def setup
    @native = Fakes::Native.new
    @app = Pelton::App.new(native: @native.to_module)
    @app.config.logger = nil
    @app.config.group_id = "main"
    @out = StringIO.new
    @err = StringIO.new
  end

  def teardown = @app.close(timeout: 1)

  def run_cli(*arguments, env: {}, input: StringIO.new)
    [@out, @err].each { |io| io.truncate(0) && io.rewind }
    Pelton::CLI.new(arguments, app: @app, out: @out, err: @err, env: env, input: input).run
  end

  def draw
    @app.routes do
      group "billing", kafka: { "session.timeout.ms" => 20_000, "sasl.password" => "s3cret" } do
        topic "orders", to: Orders do
          decode :json
          retries 2, backoff: 1..5
          dead_letters "orders.dead"
          retry_in 10
          where("type").in("paid", "sent")
          where("total").gt(5)
          filter { true }
        end
      end
      topic(/\Alogs\./, to: Orders) { concurrency 4 }
    end
  end

  def test_routes_as_a_table_with_the_settings_that_differ
    draw
    assert_equal 0, run_cli("routes"), @err.string
    assert_equal <<~TEXT, @out.string
      GROUP    TOPIC            CONSUMER              FORMAT  CONCURRENCY  RETRIES   DEAD LETTERS
      billing  orders           CommandsTest::Orders  json              1  2         orders.dead
      billing  orders.retry.10  CommandsTest::Orders  json              1  0         orders.dead
      main     /\\Alogs\\./       CommandsTest::Orders  -                 4  no limit  -

      billing (kafka)
        session.timeout.ms 20000
        sasl.password      [hidden]

      billing orders
        backoff            1..5
        retry_in           10
        where              type in ["paid", "sent"] and total gt 5
        filters            a block
    TEXT
  end

  def test_routes_show_what_a_route_creates
    @app.routes do
      topic("orders", to: Orders) { creates partitions: 12, config: { "retention.ms" => 5 } }
      topic("bills", to: Orders) { creates replication: 3 }
    end
    assert_equal 0, run_cli("routes"), @err.string
    assert_includes @out.string, <<~TEXT
      main orders
        creates
          partitions       12
          config
            retention.ms   5

      main bills
        creates
          replication      3
    TEXT
  end

  def test_routes_show_recurring_messages_of_the_app
    draw
    @app.config.schedule_topic = "shop.schedule"
    @app.routes do
      recurring "cleanup", every: "1h", topic: "jobs", payload: "{}"
      recurring "report", cron: "0 3 * * mon", topic: "reports", payload: "{}"
    end
    assert_equal 0, run_cli("routes"), @err.string
    assert_includes @out.string, <<~TEXT

      RECURRING  TIMES                 TOPIC
      cleanup    every 3600            jobs
      report     cron UTC 0 3 * * mon  reports

      billing (kafka)
    TEXT
    assert_equal 0, run_cli("routes", "-g", "billing"), @err.string
    refute_includes @out.string, "cleanup"
  end

  def test_routes_as_json
    draw
    assert_equal 0, run_cli("routes", "--json", "-g", "billing")
    group, *others = JSON.parse(@out.string)
    assert_empty others
    assert_equal %w[billing [hidden]], [group["group"], group["kafka"]["sasl.password"]]
    orders, stage = group["topics"]
    assert_equal ["orders", "CommandsTest::Orders", "json", 1, 2, "orders.dead"],
                 orders.values_at("topic", "consumer", "format", "concurrency", "retries", "dead_letters")
    assert_equal [10], orders["settings"]["retry_in"]
    assert_equal ["orders.retry.10", {}], stage.values_at("topic", "settings")
  end

  def test_routes_that_are_empty_or_unknown
    assert_equal 1, run_cli("routes")
    assert_includes @err.string, "routes: are empty"
    draw
    assert_equal 1, run_cli("routes", "-t", "ordrs")
    assert_includes @err.string, "ordrs: unknown topic in --include-topics, did you mean orders?"
    assert_equal 1, run_cli("routes", "-g", "billing", "-t", '\Alogs\.')
    assert_includes @err.string, "no topic is active among the chosen groups and topics"
  end

  def test_server_runs_what_the_variables_leave
    draw
    @app.config.kafka = { "bootstrap.servers" => "localhost:1" }
    started = nil
    @app.subscribe("app.running") do |event|
      started = event[:groups]
      Process.kill("TERM", Process.pid)
    end
    assert_equal 0, run_cli("server", env: { "PELTON_EXCLUDE_GROUPS" => "b*" }), @err.string
    assert_equal %w[main], started.map(&:to_s)
  end

  [[], %w[--processes 2]].each do |processes|
    define_method("test_server#{processes.join("_")}_refuses_unknown_names_and_an_empty_rest") do
      draw
      assert_equal 1, run_cli("server", *processes, "--exclude-groups", "billng")
      assert_includes @err.string, "cannot start: billng: unknown group in --exclude-groups, did you mean billing?"
      assert_equal 1, run_cli("server", *processes, env: { "PELTON_EXCLUDE_GROUPS" => "*" })
      assert_includes @err.string, 'cannot start: PELTON_EXCLUDE_GROUPS = "*": leaves no group to run'
      assert_empty @native.subscriptions
    end
  end

  def test_version_as_json
    assert_equal 0, run_cli("version", "--json")
    assert_equal [Pelton::VERSION, RUBY_VERSION], JSON.parse(@out.string).values_at("pelton", "ruby")
  end

  def test_info_without_a_broker
    draw
    assert_equal 0, run_cli("info", "--json"), @err.string
    facts = JSON.parse(@out.string)
    assert_includes facts["versions"]["features"], "ssl"
    assert_equal({ "brokers" => nil, "named_by" => nil, "file" => nil }, facts["connection"])
    assert_nil facts["cluster"]
    assert_equal({ "groups" => 2, "topics" => 2, "retry_topics" => 1 }, facts["routes"])
  end

  def test_info_offline_asks_no_broker
    assert_equal 0, run_cli("info", "--offline", "--bootstrap", "user:1", "-X", "sasl.password=s3cret")
    assert_match(/^  named by +--bootstrap$/, @out.string)
    assert_match(/^cluster +-$/, @out.string)
    refute_includes @out.string, "s3cret"
  end

  def test_help_of_a_command_in_three_ways
    texts = [%w[help routes], %w[routes --help], %w[routes -h]].map do |words|
      assert_equal 0, run_cli(*words)
      @out.string.dup
    end
    assert_equal 1, texts.uniq.size
    assert_includes texts.first, "Usage: pelton routes [options]"
    assert_equal 1, run_cli("help", "ruotes")
    assert_includes @err.string, "did you mean routes?"
  end

  def test_completion_needs_a_known_shell
    assert_equal 1, run_cli("completion")
    assert_includes @err.string, "bash|zsh|fish: is missing"
    assert_equal 1, run_cli("completion", "fsh")
    assert_includes @err.string, "fsh: unknown argument, did you mean fish?"
    assert_equal 0, run_cli("completion", "fish")
    Pelton::CLI::COMMANDS.each_key { |name| assert_includes @out.string, name }
  end
end
