# frozen_string_literal: true

# once: commands are the same on every Ruby

require "support/scenario"
require "stringio"
require "uri"
require "pelton/reports/command"

# The dashboard and `pelton processes` quiet, resume and stop server processes. A command that comes too late does
# nothing, nor does one for an earlier process. With --processes it reaches one child, which the parent restarts.

COMMANDED = <<~RUBY
  require "pelton"

  class QuickConsumer < Pelton::Consumer
    def consume = nil
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"] }
    config.group_id = config.client_id = ENV["PELTON_GROUP"]
    config.create_topics = true
    config.report_topic = ENV["PELTON_REPORTS"]
    config.report_interval = 0.3
    config.command_topic = ENV["PELTON_COMMANDS"]
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: QuickConsumer }
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-commands")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(file = File.join(folder, "app.rb"), COMMANDED)
  reports, commands = %w[reports commands].map { |name| unique(name) }
  input = topic(partitions: 4)
  environment = lambda do |group|
    { "PELTON_GROUP" => group, "PELTON_IN" => input, "PELTON_REPORTS" => reports, "PELTON_COMMANDS" => commands }
  end
  server = ->(group, *more) { pelton("server", "-r", file, *more, env: environment.call(group)) }
  all = app(report_topic: reports, command_topic: commands)
  web = Pelton::Web.new(all, actions: true)
  token = "ab" * 16
  act = lambda do |action, id|
    status, = web.call("REQUEST_METHOD" => "POST", "PATH_INFO" => "/actions/#{action}", "SCRIPT_NAME" => "",
                       "QUERY_STRING" => "", "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost",
                       "rack.input" => StringIO.new(URI.encode_www_form(id: id, token: token)),
                       "HTTP_COOKIE" => "pelton_token=#{token}")
    equal(303, status, "#{action} #{id}")
    eventually(70, "the outcome") { !web.actions.running? }
    done = web.actions.list.first
    check(!done.failed, "#{done.text}: #{done.result}")
    done.result
  end
  known = ->(&which) { web.reports.latest.find { |report| report.commands == commands && which.call(report) } }
  await = lambda do |what, process, &which|
    eventually(60, -> { "#{what}: #{web.reports.latest.map(&:to_h)}\n#{process.output}" }) { known.call(&which) }
  end
  send_one = -> { all.producer.produce_sync(topic: input, partition: 1, payload: "x") }
  lag = ->(id) { web.reports.latest.find { |report| report.id == id }.lag }

  group = unique("one")
  lone = server.call(group)
  alone = await.call("a process", lone) do |report|
    report.name == group && report.state == "running" && report.partitions.any?
  end
  id = alone.id
  config = all.admin.config(topic: commands)
  equal("604800000", config.fetch("retention.ms").value, "retention of a week")
  equal(1, all.admin.topics(commands).fetch(commands).partitions.size, "partitions")

  result = act.call("quiet", id)
  check(["it is quieting", "it is quiet"].include?(result), result)
  await.call("quiet", lone) { |report| report.id == id && report.state == "quiet" }
  send_one.call
  eventually(60, "a message that waits") { lag.call(id) == 1 }
  equal("it is running", act.call("resume", id), "resume")
  eventually(60, "the message is consumed") { lag.call(id).zero? }

  # It reads this one after its time.
  late = Pelton::Reports::Command.new(id, "stop", ends: Pelton::Clock.wall - 0.1)
  all.producer.produce_sync(**late.message(commands))
  act.call("quiet", id)
  await.call("quiet, and no stop", lone) { |report| report.id == id && report.state == "quiet" }
  check(["it is stopping", "it is stopped"].include?(act.call("stop", id)), "stop")
  equal(0, exit_code(lone, 60), "the exit of the process\n#{lone.output}")
  check(lone.output.include?("command"), "its log says why: #{lone.output}")

  # Its successor reads none of that.
  again = server.call(group)
  successor = await.call("a successor", again) do |report|
    report.name == group && report.id != id && report.state == "running"
  end
  second = successor.id
  line = lambda do |action, code|
    call = pelton("processes", action, second[/\A.*(?=:)/], "-r", file, env: environment.call(group))
    equal(code, exit_code(call, 90), "pelton processes #{action}\n#{call.output}\n#{again.output}")
    call.output
  end
  check(line.call("quiet", 0).match?(/ quiet(ing)?$/), "quiet")
  check(line.call("resume", 0).include?("running"), "resume")
  check(line.call("stop", 0).match?(/ stop(ping|ped)$/), "stop")
  equal(0, exit_code(again, 60), "the exit of the successor\n#{again.output}")
  check(line.call("stop", 1).include?("unknown process"), "no such process")

  # One child of two.
  pair = unique("pair")
  parent = server.call(pair, "--processes", "2")
  first, other = [0, 1].map do |number|
    await.call("child #{number}", parent) do |report|
      report.name == pair && report.process == number && report.state == "running"
    end
  end
  act.call("stop", first.id)
  await.call("a new child", parent) do |report|
    report.name == pair && report.process.zero? && report.pid != first.pid && report.state == "running"
  end
  equal("running", web.reports.latest.find { |report| report.id == other.id }.state, "the other child")
  parent.kill(:TERM)
  equal(0, exit_code(parent, 60), "the parent\n#{parent.output}")
  groups = all.admin.groups.keys
  check(groups.none? { |name| name.end_with?(".commands") }, "a group for commands: #{groups}")
  web.close
end
