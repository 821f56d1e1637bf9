# frozen_string_literal: true

require "tmpdir"
require "support/scenario"

# Order per key with 8 jobs of a partition at once: 5,000 messages of 50 keys, failures now and then, a member that
# joins in the middle and one that is killed (-9). Nothing is lost, each key's messages come in their order, none comes
# again once it was committed, and what is committed at the end is all of it.

PARTITIONS = 3
KEYS = 50
EACH = 100

Scenario.run do
  name = topic(partitions: PARTITIONS)
  group = unique("keyed")
  folder = Dir.mktmpdir("pelton-keyed")
  at_exit { FileUtils.rm_rf(folder) }
  trail = File.join(folder, "trail")
  File.write(trail, "")

  producer = app.producer
  EACH.times do |number|
    rows = Array.new(KEYS) do |key|
      { topic: name, key: "k#{key}", partition: key % PARTITIONS, payload: JSON.generate({ n: number }) }
    end
    producer.produce_many_sync(rows, timeout: 20)
  end

  kafka = { "partition.assignment.strategy" => "cooperative-sticky", "session.timeout.ms" => 2000,
            "heartbeat.interval.ms" => 300, "auto.commit.interval.ms" => 200 }
  settings = { bootstrap: bootstrap, group: group, topic: name, trail: trail, kafka: kafka }
  member = lambda do
    file = "#{Scenario::ROOT}/test/support/keyed_member.rb"
    pelton("server", "-r", file, env: { "PELTON_MEMBER" => JSON.generate(settings) })
  end
  # Read at once: what foreach takes for the end of a file may be the middle of a line that is being written.
  lines = -> { File.read(trail).lines.filter_map { |line| JSON.parse(line) if line.end_with?("\n") } }
  done = -> { lines.call.select { |line| line[2] == "done" } }
  # [what is committed, the number of lines by then], before each look at the trail.
  commits = []
  look = lambda do
    commits << [committed(group, name, PARTITIONS).map(&:to_i), lines.call.size]
    done.call
  end
  by = ->(child) { look.call.count { |line| line.first == child.pid } }

  first = member.call
  eventually(30, -> { "the first member to work\n#{first.output}" }) { by[first] > 300 }
  second = member.call
  eventually(30, -> { "the second member to work\n#{second.output}" }) { by[second] > 100 }
  first.kill(:KILL)
  equal(137, exit_code(first), "the end of the killed member")
  third = member.call
  eventually(45, -> { "all messages to be done, #{done.call.uniq { |line| line.drop(3) }.size} so far" }) do
    look.call.uniq { |line| line.drop(3) }.size == KEYS * EACH
  end
  [second, third].each do |child|
    child.kill(:TERM)
    equal(0, exit_code(child), "exit code of #{child.pid}\n#{child.output}")
  end

  all = lines.call
  wrong = []
  Array.new(KEYS) { |key| "k#{key}" }.each do |key|
    partition = key.delete("k").to_i % PARTITIONS
    reached = -1 # the highest number that was finished
    last = nil # [pid, number] of the member that has the partition
    all.each do |pid, place, what, own, number|
      next if place != partition
      next last = nil if what == "revoked" && last&.first == pid
      next if own != key

      wrong << "#{key}: #{number} before #{reached + 1}" if number > reached + 1
      again = last && last.first == pid && number != last.last + 1
      wrong << "#{key}: #{number} after #{last.last} by the same member" if again
      reached = [reached, number].max
      last = [pid, number]
    end
    wrong << "#{key}: ended at #{reached}" unless reached == EACH - 1
  end
  equal([], wrong.first(20), "what went wrong")
  sent = Array.new(PARTITIONS) { |partition| KEYS.times.count { |key| key % PARTITIONS == partition } * EACH }
  equal(sent, committed(group, name, PARTITIONS), "committed offsets")
  late = commits.flat_map do |offsets, count|
    all.drop(count).select { |_, place, what, _, _, offset| what == "done" && offset < offsets[place] }
  end
  equal([], late.first(20), "what came again after it was committed")
  puts "#{done.call.size - (KEYS * EACH)} messages came again"
end
