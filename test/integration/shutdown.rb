# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Stops at hard times: what is marked is committed at the end; a hook that lasts longer than max.poll.interval costs no
# rebalance; a rebalance that hangs holds nobody up; by force every consumer still gets its shutdown.

SLEEPER = <<~RUBY
  require "pelton"

  class Sleeper < Pelton::Consumer
    def consume = nil
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "heartbeat.interval.ms" => 100,
                     "session.timeout.ms" => 300_000 } # the rebalance hangs for as long
    config.group_id = ENV["PELTON_GROUP"]
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: Sleeper }
  Pelton.subscribe("partition.assigned") { puts "assigned" }
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-shutdown")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(sleeper = File.join(folder, "sleeper.rb"), SLEEPER)
  name = topic(partitions: 2)
  sender = app.producer
  send = lambda do |count|
    rows = Array.new(count) { |number| { topic: name, partition: number % 2, payload: number.to_s } }
    sender.produce_many_sync(rows)
  end
  send.(20)

  # --- the commit at the end, of a group that commits at no other time ---

  seen = Thread::Queue.new
  gate = Thread::Queue.new
  hooks = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    define_method(:consume) { messages.each { |message| seen << message.offset } }
    define_method(:shutdown) do
      hooks << partition
      gate.pop # longer than max.poll.interval
    end
  end
  group = unique("once")
  kafka = { "auto.commit.interval.ms" => 600_000, "debug" => "cgrp", "max.poll.interval.ms" => 6000,
            "session.timeout.ms" => 6000 }
  first = app(group: group, kafka: kafka) { topic name, to: reader }
  first.start
  take(seen, 20)
  log = -> { events(first, "kafka.log").map { |event| event[:message] } }
  before = log.call.size
  stopping = Thread.new { first.stop }
  take(hooks, 2)
  work(8)
  equal(:stopping, first.server.status, "the hooks are waited for")
  equal([], events(first, "partition.revoked").map(&:payload), "it stays in its group")
  gate.close
  check(stopping.value, "the stop: #{first.server.unfinished_work}")
  equal([10, 10], committed(group, name, 2), "committed")
  said = []
  eventually(20, "the log of the leave") do # it comes by a thread of its own
    (said = log.call.drop(before)).grep(/: leave \(in state/).any?
  end
  # Pelton's own, before the leave. librdkafka has nothing left to commit when it gives the assignment back.
  sent = said.grep(/Committing offsets for/)
  equal(1, sent.size, "commits of a stop\n#{sent.join("\n")}")
  phases = events(first, "app.stopped").last[:phases]
  jobs, leave = phases[:groups][group].values_at(:jobs, :leave)
  check(jobs > 7 && leave < 6 * Guard::PATIENCE, "the phases: #{phases}")

  # --- a rebalance that hangs: a member was halted, the others wait for it ---

  group = unique("hanging")
  halted = pelton("server", "-r", sleeper, env: { "PELTON_GROUP" => group, "PELTON_IN" => name })
  eventually(30, -> { "its partitions\n#{halted.output}" }) { halted.output.scan("assigned").size >= 2 }
  ignorant = consumer { nil }
  others = Array.new(2) { app(group: group, kafka: { "heartbeat.interval.ms" => 100 }) { topic name, to: ignorant } }
  others.first.start
  eventually(30, "a partition of its own") { others.first.assignments.any? }
  halted.kill(:STOP)
  others.last.start
  eventually(30, "the rebalance") { events(others.first, "partition.revoked").any? }
  work(1)
  equal({}, others.last.assignments, "the rebalance hangs")
  others.each do |app|
    took = seconds { check(app.stop, "a stop in the middle of a rebalance: #{app.server.unfinished_work}") }
    check(took < 30 * Guard::PATIENCE, "it took #{took} s, #{events(app, "app.stopped").last&.payload}")
  end
  halted.kill(:CONT)
  halted.kill(:TERM)
  equal(0, exit_code(halted, 40), "the halted one\n#{halted.output}")

  # --- by force ---

  ends = Thread::Queue.new
  begun = Thread::Queue.new
  stuck = Class.new(Pelton::Consumer) do
    define_method(:consume) do
      begun << partition
      Thread::Queue.new.pop
    end
    define_method(:shutdown) { ends << partition }
  end
  group = unique("force")
  last = app(group: group, shutdown_timeout: 2) { topic name, to: stuck }
  last.start
  take(begun, 2)
  last.producer.produce_async(topic: name, payload: "the last")
  equal(false, last.stop, "a stop with two jobs that never end")
  equal([0, 1], Array.new(ends.size) { ends.pop }.sort, "each consumer gets its shutdown, once")
  unfinished_work = last.server.unfinished_work
  equal(2, unfinished_work.grep(/consume runs for .*10 of 10 messages not finished/).size,
        "what was lost: #{unfinished_work}")
  equal(2, unfinished_work.grep(/is at #{__FILE__}:\d+/).size, "where the workers were: #{unfinished_work}")
  equal(4, unfinished_work.size, "nothing else, the producer was flushed: #{unfinished_work}")
  equal([nil, nil], committed(group, name, 2), "nothing is committed")
end
