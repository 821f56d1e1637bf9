# frozen_string_literal: true

require "socket"
require "support/lines"
require "support/probe"
require "support/scenario"

# `pelton server --processes 2` under probes: static members with a name each; one is killed and comes back, the parent
# is killed and its children end in order; TERM ends all. Nothing is lost.

APP = <<~RUBY
  require "pelton"
  require "support/lines"

  LINES = Lines.new(ENV["PELTON_LINES"])

  class NotingConsumer < Pelton::Consumer
    def consume = messages.each { |message| LINES << ["done", Process.pid, message.raw_payload] }
    def shutdown = LINES << ["shutdown", Process.pid, partition]
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "group.instance.id" => "operations",
                     "heartbeat.interval.ms" => 300 }
    config.group_id = ENV["PELTON_GROUP"]
    config.liveness.port = ENV["PELTON_PORT"].to_i
    config.liveness.bind = "127.0.0.1"
  end
  Pelton.routes { topic ENV["PELTON_TOPIC"], to: NotingConsumer }
  at_exit { LINES << ["exit", Process.pid, $!.status] }
RUBY

# What the processes of a server tell, and how they are asked.
module Operated
  # Two ports in a row that nobody has, below those that the system gives away.
  def free_ports
    (20_000..32_000).step(2).to_a.shuffle.find do |port|
      [port, port + 1].each { |candidate| TCPServer.open("127.0.0.1", candidate).close }
    rescue Errno::EADDRINUSE
      false
    end
  end

  def serve
    @server = pelton("server", "-r", @file, "--processes", "2", env: @environment)
    eventually(20, -> { "both to be ready: #{@server.output}" }) { answers("/ready") == [200, 200] }
    @server
  end

  def answers(path)
    [@port, @port + 1].map do |port|
      Probe.probe(port, path).status
    rescue Errno::ECONNREFUSED
      nil
    end
  end

  # The children, by their numbers.
  def pids = @server.output.scan(/started process (\d) \(pid (\d+)\)$/).to_h { |pair| pair.map(&:to_i) }

  def told(what) = @lines.to_a.select { |kind,| kind == what }.map { |row| row.drop(1) }

  # So many more, and until they are processed.
  def work_on(count)
    rows = Array.new(count) { |number| { topic: @topic, payload: (@sent += 1).to_s, partition: number % 4 } }
    @producing.producer.produce_many_sync(rows)
    eventually(20, "all messages processed") { told("done").map(&:last).uniq.size == @sent }
  end

  def members
    group = @producing.admin.group(@environment["PELTON_GROUP"])
    group.members.map { |member| [member.instance_id, member.partitions.size] }.sort
  end
end

Scenario.run do
  extend Operated

  folder = Dir.mktmpdir("pelton-operations")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(@file = File.join(folder, "app.rb"), APP)
  @topic = topic(partitions: 4)
  @port = free_ports
  @sent = 0
  @producing = app
  @lines = Lines.new(File.join(folder, "lines"))
  @environment = { "PELTON_TOPIC" => @topic, "PELTON_GROUP" => unique("group"), "PELTON_PORT" => @port.to_s,
                   "PELTON_LINES" => File.join(folder, "lines") }

  server = serve
  eventually(20, -> { "two partitions each: #{members}" }) { members == [["operations-0", 2], ["operations-1", 2]] }
  work_on(40)
  equal([200, 200], answers("/live"), "alive")

  first, other = pids.values_at(0, 1)
  Process.kill(:KILL, first)
  eventually(20, -> { "another process 0: #{server.output}" }) { pids[0] != first && answers("/ready") == [200, 200] }
  killed = "process 0 (pid #{first}) ended: killed by SIGKILL, restarts in"
  check(server.output.include?(killed), "it says so: #{server.output}")
  work_on(40)
  equal([["operations-0", 2], ["operations-1", 2]], members, "members")
  late = told("done").select { |_, number| number.to_i > 40 }
  equal([pids[0], other].sort, late.map(&:first).uniq.sort, "who works")

  server.kill(:TSTP)
  eventually(20, "quiet") { answers("/ready") == [500, 500] }
  equal([200, 200], answers("/live"), "alive while quiet")
  server.kill(:CONT)
  eventually(20, "the end of quiet") { answers("/ready") == [200, 200] }

  children = pids.values
  server.kill(:KILL)
  eventually(20, -> { "the ends of processes without a parent: #{told("exit")}" }) { told("exit").size == 2 }
  equal(children.to_h { |pid| [pid, 3] }, told("exit").to_h, "exit codes of processes without a parent")
  equal(children.sort, told("shutdown").map(&:first).uniq.sort, "who had a shutdown")
  equal([20, 20, 20, 20], committed(@environment["PELTON_GROUP"], @topic, 4), "what they committed")
  equal([nil, nil], answers("/live"), "nobody answers")

  server = serve
  work_on(4)
  server.kill(:TERM)
  equal(0, exit_code(server), "exit code\n#{server.output}")
  equal([0, 0, 0], told("exit").last(3).map(&:last), "exit codes of all")
  equal([21, 21, 21, 21], committed(@environment["PELTON_GROUP"], @topic, 4), "what is committed")
end
