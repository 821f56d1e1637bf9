# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "tmpdir"

# `pelton server` is told to stop at the worst moments: in the middle of its boot, of a rebalance, of a group that can
# not go on, and beside a broker that is away. It ends in time, with an exit code and a word on what was left undone.

# PELTON_STOP says at what it gets a SIGTERM (or several); PELTON_MODE "forever": its consumer does not come to an end.
APP = <<~RUBY
  require "json"
  require "pelton"
  require "support/ledger"

  LEDGER = Ledger.new(ENV["PELTON_LEDGER"])
  AT = ENV["PELTON_STOP"].to_s.split(",")
  def stop_at(moment)
    count = AT.count(moment)
    AT.delete(moment) # there are several partitions
    count.times { Process.kill(:TERM, Process.pid) }
  end

  class StoppedConsumer < Pelton::Consumer
    def assigned = stop_at("hook")

    def consume
      puts "job \#{messages.first_offset}"
      Thread::Queue.new.pop if ENV["PELTON_MODE"] == "forever"
      messages.each do |message|
        LEDGER.processed(object_id.to_s, partition.to_s, message.offset)
        puts "did \#{partition}/\#{message.offset}"
      end
    end

    def shutdown = puts("shutdown of \#{partition}")
  end

  $stdout.sync = true
  stop_at("load")
  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "partition.assignment.strategy" => "range",
                     "heartbeat.interval.ms" => 300, "reconnect.backoff.max.ms" => 250,
                     "auto.commit.interval.ms" => 600_000 } # a stop always has something to commit
    config.group_id = ENV["PELTON_GROUP"]
    config.max_messages = 5
    config.shutdown_timeout = Integer(ENV["PELTON_DEADLINE"])
    config.flush_timeout = 1
  end
  %w[app.starting app.running partition.assigned partition.revoked].each do |name|
    Pelton.subscribe(name) { stop_at(name) }
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: StoppedConsumer }
  stop_at("loaded")
RUBY

# A server on @in, and what it must end with.
module Stopped
  # deadline: in seconds; short for one that is to come to it.
  def serve(stop: nil, mode: nil, deadline: 20)
    environment = { "PELTON_STOP" => stop, "PELTON_MODE" => mode, "PELTON_GROUP" => @group, "PELTON_IN" => @in,
                    "PELTON_LEDGER" => book, "PELTON_DEADLINE" => deadline.to_s }
    pelton("server", "-r", @file, env: environment)
  end

  # One for each group.
  def book = File.join(@folder, @group)

  def said(server, text) = eventually(20, "#{text}\n#{server.output}") { server.output.match?(text) }

  # In its deadline, with something for what may come after that.
  def ended(server, code, what)
    equal(code, exit_code(server, 15), "exit code: #{what}\n#{server.output}")
    check(code.zero? == !server.output.include?("left undone:"), "#{what}: #{server.output}")
  end

  # What a server did is what it committed.
  def committed_what_was_done(server, what)
    did = server.output.scan(%r{^did (\d)/(\d+)}).map { |row| row.map(&:to_i) }.group_by(&:first)
    ends = Array.new(2) { |partition| did[partition] && (did[partition].map(&:last).max + 1) }
    equal(ends, committed(@group, @in, 2), "#{what}: committed\n#{server.output}")
    in_order(Ledger.new(book), ends.each_with_index.to_h { |done, partition| [partition, done.to_i] }, what: what)
  end
end

Scenario.run do
  extend Stopped

  @folder = Dir.mktmpdir("pelton-stop")
  at_exit { FileUtils.rm_rf(@folder) }
  File.write(@file = File.join(@folder, "app.rb"), APP)
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  @in = topic(partitions: 2)
  rows = Array.new(2000) { |number| { topic: @in, partition: number % 2, payload: "x" } }
  writer = app
  writer.producer.produce_many_sync(rows)
  writer.close

  # --- during boot ---------------------------------------------------------------------------------------------------
  %w[load loaded app.starting app.running partition.assigned hook].map do |moment|
    @group = unique("group")
    [moment, @group, serve(stop: moment)]
  end.each do |moment, group, server|
    @group = group
    ended(server, 0, "a stop at #{moment}")
    check(server.output.include?("stopping (SIGTERM)"), "#{moment}: #{server.output}")
    committed_what_was_done(server, moment)
  end
  server = serve(stop: "load,load")
  equal(2, exit_code(server), "exit code of a second signal before it runs\n#{server.output}")

  # --- during a rebalance --------------------------------------------------------------------------------------------
  @group = unique("group")
  server = serve(stop: "partition.revoked")
  said(server, /^job/)
  other = serve
  ended(server, 0, "a stop while partitions are taken")
  said(other, /assigned.*\n(.*\n)*.*assigned/)
  other.kill(:TERM)
  ended(other, 0, "the one that took them")
  done = committed(@group, @in, 2).each_with_index.to_h { |offset, partition| [partition, offset.to_i] }
  in_order(Ledger.new(book), done, what: "a stop while partitions are taken")

  # The first one does not give its partitions back, so the second one's join is not answered.
  @group = unique("group")
  server = serve(mode: "forever", deadline: 4)
  said(server, /^job/)
  other = serve
  said(other, /running/)
  said(server, /revoked/)
  other.kill(:TERM)
  ended(other, 0, "a stop while the group is being joined")
  server.kill(:TERM)
  ended(server, 2, "a stop in a rebalance that waits for a job")
  check(server.output.match?(%r{left undone: #{@in}/\d: consume runs for [\d.]+ s, 5 of 5 messages not finished}),
        server.output)

  # --- with the broker away ------------------------------------------------------------------------------------------
  { STOP: "that does not answer", KILL: "that is dead" }.each do |signal, which|
    @group = unique("group")
    server = serve(deadline: 4)
    said(server, /^did/)
    broker.kill(signal)
    server.kill(:TERM)
    ended(server, 2, "a stop beside a broker #{which}")
    check(server.output.match?(/left undone: group #{@group}: Kafka did not confirm the last commit, .*\(no answer\)/),
          server.output)
    equal(2, server.output.scan(/^shutdown of/).size, "shutdown of each consumer")
    server = serve
    said(server, /running/)
    server.kill(:TERM)
    ended(server, 0, "a stop of a server that found a broker #{which}")
    broker.kill(:CONT) if signal == :STOP
  end
ensure
  broker&.stop
end
