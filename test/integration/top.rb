# frozen_string_literal: true

# once: the terminal is the same on every Ruby

require "shellwords"
require "support/scenario"
require "support/ssh_server"
require "pelton/reports/reports"

# `pelton top` in a real terminal (tmux): two server processes, a running job, an error, a resized window, q, and
# Ctrl-Z. The same over SSH. And one frame as text and JSON.

TOP = <<~RUBY
  require "pelton"

  class SlowConsumer < Pelton::Consumer
    def process(message)
      raise ArgumentError, "no such order" if message.raw_payload == "bad"

      Thread::Queue.new.pop
    end
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"] }
    config.group_id = ENV["PELTON_GROUP"]
    config.create_topics = true
    config.report_topic = ENV["PELTON_REPORTS"]
    config.report_interval = 0.5
    config.shutdown_timeout = 1
    config.flush_timeout = 0.5
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: SlowConsumer }
RUBY

Scenario.run do
  missing = [*("tmux" unless system("command -v tmux >/dev/null")), *SshServer.missing]
  Scenario.needs(*missing.map { |name| "there is no #{name}" })

  folder = Dir.mktmpdir("pelton-top")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(file = File.join(folder, "app.rb"), TOP)
  reports = unique("reports")
  group = unique("group")
  input = topic(partitions: 2, name: "in-#{Process.pid}")
  rows = Array.new(6) { |number| { topic: input, partition: 0, payload: number.to_s } }
  app.producer.produce_many_sync([*rows, { topic: input, partition: 1, payload: "bad" }])
  environment = { "PELTON_GROUP" => group, "PELTON_IN" => input, "PELTON_REPORTS" => reports }
  servers = Array.new(2) { pelton("server", "-r", file, env: environment) }

  options = ["--bootstrap", bootstrap, "--topic", reports]
  eventually(40, "the topic") { app.admin.topic_names.include?(reports) }

  tmux = ["tmux", "-S", File.join(folder, "socket"), "-f", "/dev/null"]
  command = [*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton", "top", *options]
  # In the foreground, so that it ends with the scenario. -N below: new-session would start a server of its own.
  child({}, [*tmux, "-D"])
  eventually(20, "a terminal") do
    system(*tmux, "-N", "new-session", "-d", "-x", "150", "-y", "40",
           "#{command.join(" ")}; echo ended with $?; exec cat", err: File::NULL)
  end
  screen = -> { IO.popen([*tmux, "capture-pane", "-p"], &:read) }
  shows = ->(what, pattern) { eventually(40, -> { "#{what}\n#{screen.call}" }) { screen.call.match?(pattern) } }
  shows.call("both processes", /2 of 2 processes live/)
  servers.each { |server| shows.call("process #{server.pid}", /:#{server.pid} +pelton +running/) }
  shows.call("the group with the cluster's lag", /^#{group} +2 +\S+ +/)
  running_job = %r{^\d.* SlowConsumer +#{input}/0 +0 +consume +6 }
  shows.call("the running job", running_job)
  shows.call("the error", %r{ArgumentError +#{input}/1 0 +no such order})
  check(screen.call.include?("q quits"), "the last line\n#{screen.call}")

  system(*tmux, "resize-window", "-x", "60", "-y", "12")
  shows.call("a small window", /\A.*\n(.*\n)*q quits\s*\z/)
  eventually(20, -> { "60 columns\n#{screen.call}" }) do
    screen.call.lines.map { |line| line.chomp.size }.max <= 60 && screen.call.include?("pelton top")
  end

  # A process that stops is shown as such.
  servers.last.kill(:TERM)
  exit_code(servers.last, 30)
  system(*tmux, "resize-window", "-x", "150", "-y", "40")
  shows.call("the end of a process", /:#{servers.last.pid} +pelton +stopped/)
  shows.call("the job, which the other process runs now if it did not before", running_job)

  system(*tmux, "send-keys", "q")
  shows.call("the end", /ended with 0/)

  # --- Ctrl-Z ---

  system(*tmux, "respawn-pane", "-k", "bash --norc -i")
  terminal = -> { IO.popen([*tmux, "display", "-p", "\#{cursor_flag}\#{alternate_on}\#{wrap_flag}"], &:read).strip }
  system(*tmux, "send-keys", command.join(" "), "Enter")
  shows.call("the job again", running_job)
  system(*tmux, "send-keys", "C-z")
  shows.call("the shell", /Stopped/)
  equal("101", terminal.call, "cursor, no alternate screen, wrapped lines")
  system(*tmux, "send-keys", "fg", "Enter")
  shows.call("the job after fg", running_job)
  equal("010", terminal.call, "the screen of top")
  system(*tmux, "send-keys", "q")
  shows.call("the shell's prompt after fg", /[#$]\s*\z/)
  system(*tmux, "send-keys", "echo ended with $?", "Enter")
  shows.call("the exit code", /^ended with 0/)
  equal("101", terminal.call, "the terminal at the end")

  # --- over SSH ---

  ssh = SshServer.new(folder)
  server = child({}, ssh.command)
  eventually(20, -> { server.output }) { server.output.include?("Server listening") }
  remote = [*ssh.login, command.join(" ")].shelljoin
  system(*tmux, "respawn-pane", "-k", "#{remote}; echo over SSH ended with $?; exec cat")
  shows.call("the job over SSH", running_job)
  system(*tmux, "resize-window", "-x", "60", "-y", "12")
  shows.call("a small window over SSH", /\A.*\n(.*\n)*q quits\s*\z/)
  system(*tmux, "send-keys", "q")
  shows.call("the end over SSH", /over SSH ended with 0/)

  once = pelton("top", *options, "--once", "--group", group)
  equal(0, exit_code(once), "exit code\n#{once.output}")
  check(once.output.match?(%r{SlowConsumer +#{input}/0 +0 +consume}), "one frame as text\n#{once.output}")
  check(!once.output.include?("\e"), "no escape codes\n#{once.output}")
  json = pelton("top", *options, "--json", "--pid", servers.first.pid.to_s)
  equal(0, exit_code(json), "exit code\n#{json.output}")
  equal([servers.first.pid.to_s], JSON.parse(json.output).fetch("processes").map do |process|
                                    process["process"][/\d+\z/]
                                  end, "one")
  refused = pelton("top", *options)
  equal(1, exit_code(refused), "without a terminal\n#{refused.output}")
  check(refused.output.include?("--once: is needed"), "why\n#{refused.output}")
  servers.first.kill(:TERM)
  equal(2, exit_code(servers.first), "forced\n#{servers.first.output}")
end
