# frozen_string_literal: true

require_relative "../test_helper"
require "stringio"
require "pelton/cli/cli"
require "support/web_kit"

# `pelton processes quiet`, `resume` and `stop` over reports that a test makes. (On a real topic:
# test/integration/commands.rb.)
class ProcessesCommandsTest < Minitest::Test
  # Notes messages, as they would be sent.
  class Producer < Array
    def produce_sync(**message) = self << message
  end

  def setup
    producer = @sent = Producer.new
    @app = Pelton::App.new
    @app.configure { |config| config.kafka = { "bootstrap.servers" => "nowhere:1" } }
    @app.define_singleton_method(:producer) { producer }
    # What Reports.each yields: at first, and while the command waits. Options of the calls.
    @before = []
    @after = []
    @calls = []
  end

  def teardown = @app.close

  def report(pid, at: Pelton::Clock.wall, **change)
    facts = { **WebKit::REPORT, id: "web:#{pid}:1", pid: pid, commands: "pelton.commands", at: at, started_at: at,
                                **change }
    Pelton::Reports::Report.parse(JSON.generate(facts)) or flunk "no report: #{facts}"
  end

  # The exit code and what is printed.
  def processes(*arguments)
    out = StringIO.new
    each = lambda do |_app, topic, **options, &block|
      @calls << [topic, options]
      (@calls.size == 1 ? @before : @after).each(&block)
    end
    code = Pelton::Reports.stub(:each, each) do
      Pelton::CLI.new(["processes", *arguments], app: @app, out: out, err: out, env: {}).run
    end
    [code, out.string]
  end

  def test_a_command_is_sent_and_its_outcome_printed
    now = Pelton::Clock.wall
    @before = [report(1, state: "quiet", at: now - 5), report(2), report(1, at: now)]
    @after = [*@before, report(1, at: now + 1), report(2, state: "quiet", at: now + 1),
              report(1, state: "quieting", at: now + 2), report(1, state: "running", at: now + 3)]
    assert_equal [0, "PROCESS  STATE\nweb:1    quieting\n"], processes("quiet", "web:1").then { |code, text|
      [code, text.gsub(/\e\[\d*m| +$/, "")]
    }
    message = @sent.first
    assert_equal ["pelton.commands", 0, "web:1:1", 1], [*message.values_at(:topic, :partition, :key), @sent.size]
    assert_equal "quiet", Pelton::Reports::Command.parse(message[:payload]).action
    assert_equal %w[pelton.reports pelton.reports], @calls.map(&:first)
    assert_in_delta 60, @calls.last.last[:up_to] - Time.now, 30
  end

  def test_a_process_that_does_not_answer_makes_the_exit_code_1
    @before = [report(1), report(2)]
    @after = [*@before, report(2, state: "stopped", at: Pelton::Clock.wall + 1)]
    code, text = processes("stop", "web:1", "web:2:1", "--json", "--topic", "ours")
    rows = JSON.parse(text, symbolize_names: true)
    assert_equal [1, [{ process: "web:1", state: nil }, { process: "web:2", state: "stopped" }]], [code, rows]
    assert_equal %w[ours ours], @calls.map(&:first)
  end

  def test_nothing_is_sent_if_one_process_is_unknown_or_takes_no_commands
    @before = [report(1), report(2, commands: nil), report(3, commands: "theirs"), report(4, state: "stopped"),
               report(5, at: Pelton::Clock.wall - 600)]
    { "web:2" => "web:2: takes no commands: see config.command_topic",
      "web:3" => "web:3: takes commands from theirs, not from pelton.commands: see config.command_topic",
      "web:4" => "web:4: unknown process", "web:5" => "web:5: unknown process" }.each do |name, problem|
      @calls.clear
      code, text = processes("resume", "web:1", name)
      assert_equal 1, code
      assert_includes text, problem
    end
    assert_empty @sent
  end
end
