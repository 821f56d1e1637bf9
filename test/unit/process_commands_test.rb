# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"
require "pelton/reports/service"

# Commands that a server process takes from config.command_topic. (The embedded cluster's twin:
# test/embedded/reports_test.rb.)
class ProcessCommandsTest < Minitest::Test
  include ServerKit

  REPORTS = "pelton.reports"
  COMMANDS = "pelton.commands"
  Command = Pelton::Reports::Command

  # Notes what it is told.
  class Told < Array
    %i[quiet resume stop].each { |name| define_method(name) { |**facts| self << [name, *facts[:reason]] } }
  end

  def commanded(**settings)
    start(report_topic: REPORTS, report_interval: 0.05, command_topic: COMMANDS, **settings)
  end

  def reports
    sent = @native.producers.flat_map(&:messages).select { |topic, *| topic == REPORTS }
    sent.map { |_, text, *| Pelton::Reports::Report.parse(text) || flunk("no report: #{text}") }
  end

  def report(&condition) = eventually { reports.reverse.find(&condition) }
  def readers = @native.subscriptions.select { |subscription| subscription.config["group.id"].empty? }

  def put(payload)
    @native.kafka.append(COMMANDS, 0, payload)
    readers.each(&:produced)
  end

  def command(process, action, **more) = put(Command.new(process, action, **more).message("x")[:payload])

  # Commands for the process "me", of which the server notes what it is told.
  def listen
    @told = Told.new
    config = app(report_topic: REPORTS, command_topic: COMMANDS).config
    commands = Pelton::Reports::Commands.new(config, "me", @told, bus: app.notifications, native: @native.to_module)
    commands.open
    yield commands
  ensure
    commands&.close
  end

  def test_quiet_resume_and_stop_do_what_the_signals_do
    commanded
    id = report { |report| report.commands == COMMANDS }.id
    command(id, "quiet")
    assert_equal "command", event("app.quieting")[:reason]
    report { |report| report.state == "quiet" }
    command(id, "resume")
    event("app.resumed")
    eventually { reports.last.state == "running" }
    command(id, "stop")
    assert_equal "command", event("app.stopping")[:reason]
    assert app.server.wait(60)
    assert_equal ["stopped", nil], [reports.last.state, reports.last.commands]
  end

  def test_the_next_report_comes_soon_after_a_command
    commanded(report_interval: 600)
    command(report { |report| report.commands == COMMANDS }.id, "quiet")
    eventually { reports.size == 2 }
  end

  def test_a_second_stop_does_not_force_the_end
    block_jobs
    commanded
    id = report { |report| report.commands == COMMANDS }.id
    produce_to_the_consumer
    @begun.pop
    2.times { command(id, "stop") }
    report { |report| report.state == "stopping" }
    eventually(20, "both are read") { readers.first.position(COMMANDS, 0) == 2 }
    @gate.close
    assert app.server.wait(60), "it was forced"
  end

  def produce_to_the_consumer
    @native.kafka.append("orders", 0, "{}")
    (@native.subscriptions - readers).first.assign_now(["orders", 0])
  end

  def test_only_commands_for_this_run_of_the_process_that_are_not_void
    command("me", "quiet") # before it opened
    listen do |commands|
      command("other", "stop")
      command("me", "stop", ends: Pelton::Clock.wall - 1)
      refute commands.take(0)
      command("me", "quiet")
      assert commands.take(0)
    end
    assert_equal [[:quiet, "command"]], @told
  end

  def test_a_command_that_comes_twice_is_carried_out_once
    listen do |commands|
      2.times { command("me", "stop", id: "one") }
      assert commands.take(0)
      command("me", "stop", id: "one")
      refute commands.take(0)
      command("me", "resume", id: "two")
      assert commands.take(0)
    end
    assert_equal [[:stop, "command"], [:resume]], @told
  end

  def test_an_unknown_version_or_action_is_ignored
    valid = { version: 1, id: "x", process: "me", action: "stop", until: Pelton::Clock.wall + 60 }
    wrong = [{ version: 2 }, { action: "restart" }, { action: nil }, { process: 5 }, { until: "soon" }, { id: nil }]
    listen do |commands|
      wrong.each { |change| put(JSON.generate({ **valid, **change })) }
      [nil, "", "[]", "\xff", "{", "stop"].each { |text| put(text) }
      refute commands.take(0)
      put(JSON.generate({ **valid, later: 1 }))
      assert commands.take(0)
    end
    assert_equal [[:stop, "command"]], @told
  end

  def test_reading_commands_joins_no_group_and_marks_nothing
    listen do |commands|
      command("me", "quiet")
      commands.take(0)
      assert_equal [nil, []], [readers.first.topics, readers.first.marks]
    end
  end

  # The native client's watermarks, which fail.
  def failing(error)
    native = @native.to_module
    native::Subscription.block = lambda do |*all|
      Fakes::Subscription.new(*all, @native.kafka).tap do |subscription|
        subscription.define_singleton_method(:watermarks) { |*| raise error }
      end
    end
    native
  end

  def test_a_missing_topic_is_reported_once_and_the_process_says_that_it_takes_no_commands
    unknown = Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "unknown", false, true)
    config = app(report_topic: REPORTS, command_topic: COMMANDS).config
    failures = Thread::Queue.new
    app.subscribe("error.occurred") { |event| failures << event }
    commands = Pelton::Reports::Commands.new(config, "me", nil, bus: app.notifications, native: failing(unknown))
    3.times do
      commands.open
      commands.instance_variable_set(:@open_at, 0)
    end
    assert_nil commands.topic
    assert_equal ["commands", COMMANDS], failures.pop.payload.values_at(:source, :topic)
    assert_empty failures
  end

  def test_lost_connections_are_not_reported_and_a_refusal_is
    failures = []
    listen do |commands|
      app.subscribe("error.occurred") { |event| failures << event[:error].name }
      refused = [29, :TOPIC_AUTHORIZATION_FAILED, false]
      [[-195, :_TRANSPORT, true], refused, refused].each do |code, name, retriable|
        readers.first.push(:error, Pelton::KafkaError.new(code, name, "no", false, retriable), COMMANDS, 0)
        commands.take(0)
      end
    end
    assert_equal [:TOPIC_AUTHORIZATION_FAILED], failures
  end

  def test_without_a_topic_no_commands_are_taken
    start(report_topic: REPORTS, report_interval: 0.02)
    assert_nil report { |report| report.state == "running" }.commands
    assert_empty readers
  end

  def test_the_topic_is_declared_as_that_of_the_reports
    app(report_topic: "r", command_topic: "c").config.kafka = { "bootstrap.servers" => "a:1" }
    report, command = app.topics.clusters.first.topics.fetch_values("r", "c").map(&:creation)
    assert_equal 1, command[:partitions]
    assert_equal report, command
  end

  def test_commands_need_reports
    error = assert_raises(Pelton::ConfigError) { start(command_topic: COMMANDS) }
    assert_equal "command_topic = \"pelton.commands\": needs report_topic: commands name processes that report",
                 error.message
  end
end
