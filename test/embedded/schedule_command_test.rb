# frozen_string_literal: true

require "test_helper"
require "json"
require "stringio"
require "support/embedded_app"
require "pelton/cli/cli"

# `pelton schedule` on the mock cluster.
class ScheduleCommandTest < Minitest::Test
  include EmbeddedApp

  def setup
    super
    @name = topic
    @schedule = topic(2)
  end

  def run_command(*arguments)
    out = StringIO.new
    err = StringIO.new
    app = app(schedule_topic: @schedule)
    code = Pelton::CLI.new(["schedule", *arguments], app: app, out: out, err: err, env: {}).run
    [code, out.string, err.string]
  end

  def test_list_move_and_cancel
    producer = app(schedule_topic: @schedule).producer
    %w[a b c].each { |id| producer.produce_later(topic: @name, payload: "x" * 5, key: "7", in: 3600, id: id) }
    code, out, = run_command("list", "--json", "--limit", "2")
    assert_equal [0, [["a", @name, 5], ["b", @name, 5]]],
                 [code, JSON.parse(out).map { |row| row.values_at("id", "topic", "bytes") }]
    assert_equal [0, 1], [run_command("cancel", "a").first, run_command("cancel", "a", "b").first]
    before = app(schedule_topic: @schedule).schedule.find("c").at
    assert_equal [0, 1], [run_command("move", "c", "--in", "3h").first, run_command("move", "d").first]
    assert_operator app(schedule_topic: @schedule).schedule.find("c").at, :>, before + 3600
    assert_equal ["c"], JSON.parse(run_command("list", "--json", "-t", @name)[1]).map { |row| row["id"] }
    code, _, err = run_command("list", "--limit", "0")
    assert_equal 1, code
    assert_includes err, "--limit"
  end
end
