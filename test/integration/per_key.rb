# frozen_string_literal: true

require "tmpdir"
require "support/lines"
require "support/scenario"

# Order per key with 8 jobs of a partition at once: messages of 50 keys, failures now and then, a member that joins in
# the middle, one that is killed (-9) and one that comes for it. Nothing is lost, each key's messages come in their
# order, none comes again once it was committed, and what is committed at the end is all of it.

PARTITIONS = 3
KEYS = 50

Scenario.run do
  name = topic(partitions: PARTITIONS)
  group = unique("keyed")
  folder = Dir.mktmpdir("pelton-keyed")
  at_exit { FileUtils.rm_rf(folder) }
  trail = File.join(folder, "trail")

  # As long as somebody is to join in the middle: nobody knows how fast the others are.
  sent = 0 # messages of each key
  over = false
  producer = app.producer
  producing = Thread.new do
    until over
      rows = Array.new(KEYS) do |key|
        { topic: name, key: "k#{key}", partition: key % PARTITIONS, payload: JSON.generate({ n: sent }) }
      end
      producer.produce_many_sync(rows)
      sent += 1
      work(0.05)
    end
  end

  # session: how soon the others take over from who was killed, in milliseconds.
  member = lambda do |session = 45_000|
    kafka = { "partition.assignment.strategy" => "cooperative-sticky", "session.timeout.ms" => session,
              "heartbeat.interval.ms" => 300, "auto.commit.interval.ms" => 200 }
    settings = { bootstrap: bootstrap, group: group, topic: name, trail: trail, kafka: kafka }
    file = "#{Scenario::ROOT}/test/support/keyed_member.rb"
    pelton("server", "-r", file, env: { "PELTON_MEMBER" => JSON.generate(settings) })
  end
  lines = Lines.new(trail)
  done = -> { lines.to_a.select { |line| line[2] == "done" } }
  # {what is committed => the number of lines by then}, before each look at the trail.
  commits = {}
  look = lambda do
    commits[committed(group, name, PARTITIONS).map(&:to_i)] ||= lines.to_a.size
    done.call
  end
  works = lambda do |child, count|
    eventually(30, -> { "member #{child.pid} to work\n#{child.output}" }) do
      look.call.count { |line| line.first == child.pid } > count
    end
  end

  first = member.call(2_000)
  works.(first, 300)
  second = member.call
  works.(second, 100)
  first.kill(:KILL)
  equal(137, exit_code(first), "the end of the killed member")
  third = member.call
  works.(third, 100)
  over = true
  producing.value
  missing = -> { (KEYS * sent) - done.call.uniq { |line| line.drop(3) }.size }
  eventually(45, -> { "all messages to be done, #{missing.call} are missing" }) { look.call && missing.call.zero? }
  [second, third].each do |child|
    child.kill(:TERM)
    equal(0, exit_code(child), "exit code of #{child.pid}\n#{child.output}")
  end

  all = lines.to_a
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
    wrong << "#{key}: ended at #{reached}" unless reached == sent - 1
  end
  equal([], wrong.first(20), "what went wrong")
  ends = Array.new(PARTITIONS) { |partition| KEYS.times.count { |key| key % PARTITIONS == partition } * sent }
  equal(ends, committed(group, name, PARTITIONS), "committed offsets")
  late = commits.flat_map do |offsets, count|
    all.drop(count).select { |_, place, what, _, _, offset| what == "done" && offset < offsets[place] }
  end
  equal([], late.first(20), "what came again after it was committed")
  puts "#{KEYS * sent} messages, #{done.call.size - (KEYS * sent)} of them again"
end
