# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "pelton/cli/cli"
require "stringio"

# Arguments of `pelton dead-letters …` that are refused before anything is asked. What the commands do:
# test/embedded/dead_letters_command_test.rb.
class DeadLettersCommandTest < Minitest::Test
  class Orders < Pelton::Consumer
    def process(_message) = nil
  end

  def refused(*arguments, env: {}, &routes)
    app = Pelton::App.new(native: Fakes::Native.new.to_module)
    app.config.group_id = "billing"
    app.routes(&routes) if routes
    err = StringIO.new
    cli = Pelton::CLI.new(["dead-letters", *arguments], app: app, out: StringIO.new, err: err, env: env)
    assert_equal 1, cli.run
    err.string
  end

  BROKER = { "PELTON_BOOTSTRAP" => "127.0.0.1:1" }.freeze

  def test_wrong_values_are_named
    { %w[redrive dead --rate 0/s] => '--rate = "0/s": expected a rate, such as 100/s, 6000/min or 10/h',
      %w[redrive dead --rate 5/week] => '--rate = "5/week"', %w[delete dead --rate -1] => '--rate = "-1"',
      %w[list dead --limit 0] => "--limit = 0: expected an Integer >= 1",
      %w[delete dead --limit -3] => "--limit = -3: expected an Integer >= 1",
      %w[redrive dead --limit many] => '--limit = "many": expected an Integer',
      %w[redrive dead --retry-topic soon] => '--retry-topic = "soon": expected a number',
      %w[list dead --since yesterday] => '--since = "yesterday": expected a time',
      %w[list dead --until 99] => '--until = "99"', %w[list dead --status lost] => '--status = "lost": expected open,',
      %w[list dead --by key] => '--by = "key": expected error, group, topic, status',
      %w[list dead --topik a] => "--topik: unknown option, did you mean --topic?",
      %w[show dead] => "ID: is missing: pelton dead-letters show TOPIC ID", %w[show] => "TOPIC: is missing",
      %w[redriev] => "dead-letters redriev: unknown command, did you mean dead-letters redrive?" }.each do |call, text|
      assert_includes refused(*call, env: BROKER), text
    end
    repair = ["redrive", "dead", "--payload", "/nowhere/x"]
    { [] => "needs one --id and one TOPIC", %w[--id 0/1 --id 0/2] => "needs one --id and one TOPIC",
      %w[more --id 0/1] => "needs one --id and one TOPIC",
      %w[--id 0/1] => "cannot be read: No such file or directory" }.each do |more, text|
      assert_includes refused(*repair, *more, env: BROKER), "--payload = \"/nowhere/x\": #{text}"
    end
    both = refused("redrive", "dead", "--to", "a", "--retry-topic", "5", env: BROKER)
    assert_includes both, 'to = "a": excludes retry_topic'
  end

  def test_without_a_topic_or_a_broker_it_says_what_to_do
    assert_includes refused("list", env: BROKER), "TOPIC: is missing: name a dead-letter topic, or load an app"
    without = refused("redrive", env: BROKER) { topic "orders", to: Orders }
    assert_includes without, "TOPIC: is missing"
    assert_includes refused("list", "dead"), "the cluster: is not known: use --bootstrap"
  end
end
