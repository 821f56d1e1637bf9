# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "json"
require "pelton/cli/cli"
require "stringio"
require "support/scenario"
require "time"

# `pelton groups …` with live and stopped members, in both group protocols.

# Runs a command in this process. Returns what it printed, or the error for another exit code than 0.
def groups(*arguments, code: 0)
  out = StringIO.new
  err = StringIO.new
  app = Pelton::App.new
  app.config.logger = nil
  cli = Pelton::CLI.new(["groups", *arguments, "--bootstrap", bootstrap], app: app, out: out, err: err, env: {})
  equal(code, cli.run, "#{arguments.join(" ")}: #{out.string}#{err.string}")
  code.zero? ? out.string : err.string
end

def json(*arguments) = JSON.parse(groups(*arguments, "--json"), symbolize_names: true)

def lags(group) = json("lag", group)[:groups].first[:partitions].map { |row| row[:lag] }

# {partition => [before, after, skipped, repeated]}
def changes(*arguments)
  json(*arguments)[:changes].to_h { |row| [row[:partition], row.values_at(:before, :after, :skipped, :repeated)] }
end

# former: another topic, for which the group has an offset.
def with_live_members(group, name, type, former)
  listed = json("list", "#{group}*", "--lag")
  equal([{ group: group, state: "stable", type: type.to_s, members: 1, lag: 0, without_commit: 1 }], listed, "list")
  equal(listed, json("list", "#{group}*", "--state", "stable", "--type", type.to_s, "--lag"), "list with filters")
  found = json("show", group)
  equal([group, "stable", type.to_s], found.values_at(:group, :state, :type), "show")
  check(found[:coordinator].match?(/\A1 \(.+:\d+\)\z/), "coordinator: #{found[:coordinator]}")
  equal([{ name.to_sym => [0, 1, 2] }, "127.0.0.1", "pelton"],
        found[:members].first.values_at(:partitions, :host, :client), "its member")
  groups("delete", group, "--topic", former, "--yes")
  found = json("show", group)
  equal([[0, 15, 15, 0, "note 14", "pelton"], [1, 15, 15, 0, "note 14", "pelton"], [2, nil, 0, nil, nil, "pelton"]],
        found[:partitions].map { |row| row.values_at(:partition, :committed, :end, :lag, :metadata, :client) },
        "its partitions")

  lag = app(kafka: {}).admin.lag(group)
  equal({ [name, 0] => 0, [name, 1] => 0, [name, 2] => nil }, lag, "the same by the administrator")
  live = /nothing was changed: group #{group} has live members \(1\); stop them first/
  plan = groups("reset", group, "--to", "beginning", "--all-topics")
  check(plan.include?("dry run") && plan.match?(/^pelton +127\.0\.0\.1 +- +#{name} 0-2 /), "a dry run: #{plan}")
  check(groups("reset", group, "--to", "beginning", "--all-topics", "--apply", code: 1).match?(live), "reset")
  groups("copy", group, "#{group}-copy", "--apply")
  check(groups("copy", "#{group}-copy", group, "--overwrite", "--apply", code: 1).match?(live), "copy")
  check(groups("delete", group, "--yes", code: 1).match?(/nothing was deleted: group #{group} has live/), "delete")
  check(groups("delete", group, "--topic", name, "--yes", code: 1).match?(/\(1: pelton on 127\.0\.0\.1\)/), "offsets")
  equal([0, 0, nil], lags(group), "unchanged; one partition that the member has is without a commit")
end

# start: the time of the first message. The others follow a minute apart.
def without_members(group, name, start)
  eventually(20, "the end of the member") { json("show", group)[:members].empty? }
  equal({ 0 => [15, 0, 0, 15], 1 => [15, 0, 0, 15], 2 => [nil, 0, nil, nil] },
        changes("reset", group, "--to", "beginning", "--all-topics", "--apply"), "to the beginning")
  equal([15, 15, 0], lags(group), "the lag then")
  back = "#{(Time.now - start - 270).round}s"
  equal({ 0 => [0, 5, 5, 0] }, changes("reset", group, "--back", back, "--topic", "#{name}:0", "--apply"), "back")
  time = (start + 570).utc.iso8601
  equal({ 1 => [0, 10, 10, 0] }, changes("reset", group, "--to", time, "--topic", "#{name}:1", "--apply"), "to a time")
  equal({ 0 => [5, 3, 0, 2], 1 => [10, 8, 0, 2], 2 => [0, 0, 0, 0] },
        changes("reset", group, "--shift", "-2", "--all-topics", "--apply"), "by a shift")
  equal({ 0 => [3, 15, 12, 0] }, changes("reset", group, "--to", "99", "--topic", "#{name}:0"), "bounded, a dry run")
  equal([12, 7, 0], lags(group), "the lag at the end")
  check(groups("lag", group, "--max", "18", code: 1).include?("is 19, above 18"), "above the limit")
  groups("lag", group, "--max", "19")

  other = "#{group}-copy"
  check(groups("copy", group, other, code: 1).include?("--overwrite"), "copy needs --overwrite")
  groups("copy", group, other, "--overwrite", "--apply")
  equal([12, 7, 0], lags(other), "the copy")
  groups("delete", other, "--topic", "#{name}:0,2", "--yes")
  equal([7], lags(other), "the offset that is left")
  groups("delete", other, "--yes")
  check(groups("lag", "#{group}-cop", code: 1).include?("unknown group"), "a misspelled group")
  groups("reset", other, "--to", "end", "--topic", name, "--create", "--apply")
  equal([0, 0, 0], lags(other), "a new group")
  writer = app(kafka: { "transactional.id" => unique("writer") }).producer
  writer.transaction { |tx| tx.produce_async(topic: name, partition: 2, payload: "x") }
  eventually(20, "the message and the end of its transaction") { lags(other) == [0, 0, 2] }
  groups("reset", other, "--shift", "1", "--topic", "#{name}:2", "--apply")
  # A slow cluster may not show in time that nothing follows.
  eventually(20, "the end of a transaction is no lag") { lags(other) == [0, 0, 0] }
  eventually(20, "commit and end stay as they are") { groups("lag", other).match?(/^#{other} +#{name} +2 +1 +2 +0$/) }
  writer.transaction do |tx|
    tx.produce_async(topic: name, partition: 2, payload: "y").wait
    eventually(20, "an open transaction behind it is none, either") { lags(other) == [0, 0, 0] }
    raise Pelton::AbortTransaction
  end
end

# A member waits for a call before it gives up a partition, and another waits for the partition.
def while_a_call_delays_a_rebalance
  name = topic(partitions: 2)
  group = unique("waiting")
  gate = Thread::Queue.new
  begun = Thread::Queue.new
  held = consumer { (begun << partition) && gate.pop }
  members = Array.new(2) { app(group: group, kafka: { "group.protocol" => "consumer" }) { topic(name, to: held) } }
  2.times { |partition| members[0].producer.produce_sync(topic: name, partition: partition, payload: "x") }
  members[0].start
  take(begun, 2)
  eventually(20, "a stable group") { members[0].admin.group(group).state == :stable }
  members[1].start
  eventually(30, "a group that rebalances") { members[0].admin.group(group).state == :rebalancing }
  check(groups("list", group, "--state", "rebalancing").match?(/^#{group} +rebalancing +consumer/), "listed")
  equal(:rebalancing, members[0].admin.groups[group], "the list")
  gate.close
  eventually(30, "stable again") { members[0].admin.group(group).state == :stable }
  members.each { |member| equal(true, member.stop, "stop") }
end

# In processes of their own: the broker from the environment and from a file, and Ctrl-C.
def as_programs(group)
  equal(0, exit_code(pelton("groups", "list")), "PELTON_BOOTSTRAP")
  Dir.mktmpdir do |folder|
    file = File.join(folder, "pelton.yml")
    File.write(file, "bootstrap.servers: #{bootstrap}\n")
    child = pelton("groups", "lag", group, "--watch", "3600", "--json", "--config", file,
                   env: { "PELTON_BOOTSTRAP" => nil })
    line = eventually(20, -> { "a line: #{child.output}" }) { child.output[/\A.+\n/] }
    equal([group], JSON.parse(line)["groups"].map { |row| row["group"] }, "its line")
    child.kill(:INT)
    equal(130, exit_code(child), "after Ctrl-C: #{child.output}")
    equal(1, child.output.lines.size, "its output")
  end
end

Scenario.run do
  while_a_call_delays_a_rebalance
  { classic: {}, consumer: { "group.protocol" => "consumer" } }.each do |type, kafka|
    former = topic
    name = topic(partitions: 3)
    group = unique(type.to_s)
    groups("reset", group, "--to", "end", "--topic", former, "--create", "--apply")
    reading = consumer { mark_as_consumed!(messages.last, metadata: "note #{messages.last.offset}") }
    server = app(group: group, kafka: kafka) { topic(name, to: reading) { manual_offsets } }
    start = Time.now - 3600
    server.producer.produce_many_sync(Array.new(30) do |number|
      { topic: name, payload: "x", partition: number % 2, timestamp: start + (number / 2 * 60) }
    end)
    server.start
    done = { [former, 0] => 0, [name, 0] => 15, [name, 1] => 15 }
    eventually(30, "the commits") { server.admin.group_offsets(group) == done }
    eventually(20, "a stable group") { server.admin.group(group).state == :stable }
    with_live_members(group, name, type, former)
    server.stop
    without_members(group, name, start)
    as_programs(group) if type == :classic
    groups("delete", group, "--yes")
    equal([], json("list", "#{group[0..-2]}?"), "a deleted group")
  end
end
