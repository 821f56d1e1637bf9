# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Servers and a process that schedules messages are killed (-9) at random moments: while they join, load, send and
# commit. Each partition of the schedule goes on after each kill. At the end each message was sent once, and no canceled
# one. By hand: PELTON_KILLS=100, and PELTON_SEED for the same choices.

KILLS = Integer(ENV.fetch("PELTON_KILLS", 6))
SERVER = File.expand_path("../support/schedule_program.rb", __dir__)
WRITER = File.expand_path("../support/schedule_writer.rb", __dir__)
PARTITIONS = 3

# due: payloads of calls that returned. arrived: payloads of the topic. Returns what is wrong, one String each.
def wrong(due, canceled, arrived)
  twice = arrived.tally.select { |_, count| count > 1 }.keys
  [["lost", due - arrived], ["sent twice", twice], ["sent although canceled", canceled & arrived]]
    .reject { |_, list| list.empty? }.map { |what, list| "#{list.size} #{what}: #{list.first(5)}" }
end

Scenario.run do
  seed = Integer(ENV["PELTON_SEED"] || rand(1_000_000))
  random = Random.new(seed)
  puts "seed #{seed}"
  output = topic(partitions: 2)
  ticks = topic
  often = { "segment.bytes" => (1 << 20).to_s, "min.cleanable.dirty.ratio" => "0.01" }
  schedule = topic(partitions: PARTITIONS, settings: { "cleanup.policy" => "compact", **often })
  group = unique("group")
  writers = 0
  start = { server: -> { ruby(SERVER, schedule, group, output, "0", ticks) },
            writer: -> { ruby(WRITER, schedule, output, "w#{writers += 1}") } }
  running = %i[server server writer].map { |kind| [kind, start[kind].()] }
  called = Hash.new { |all, word| all[word] = [] }
  # Its last line may be cut off.
  collect = lambda do |writer|
    writer.output.scan(/^(\S+) (\S+)\n/) { |word, payload| called[word] << payload }
  end

  servers = -> { running.filter_map { |kind, child| child if kind == :server } }
  sends = lambda do
    servers.().flat_map { |child| child.output.scan(/^promoted (\d+) /).flatten }.tally.tap { |all| all.default = 0 }
  end
  # What the servers printed: which partitions they loaded and from which they sent, and errors.
  said = -> { servers.().map { |child| "server #{child.pid}\n#{child.output.lines.last(30).join}" }.join }
  goes_on = lambda do |what|
    before = sends.()
    eventually(60, -> { "#{what}: each partition goes on\nbefore: #{before}, now: #{sends.()}\n#{said.()}" }) do
      (0...PARTITIONS).all? { |number| sends.()[number.to_s] > before[number.to_s] }
    end
  end

  killed = Hash.new(0)
  KILLS.times do |number|
    goes_on.("kill #{number}") unless random.rand(3).zero?
    work(random.rand * 2)
    # One of them, or both servers.
    victims = random.rand(5).zero? ? [0, 1] : [random.rand(running.size)]
    running.values_at(*victims).each { |_, child| child.kill(:KILL) }
    victims.each do |index|
      kind, child = running[index]
      exit_code(child)
      collect.(child) if kind == :writer
      forget(child)
      killed[kind] += 1
      running[index] = [kind, start[kind].()]
    end
  end
  goes_on.("the last kill")
  writer = running.last.last
  lines = ->(word) { called[word].size + writer.output.scan(/^#{word} \S+\n/).size }
  eventually(60, -> { "enough calls\n#{writer.output}" }) { lines.("due") > KILLS * 20 && lines.("canceled").positive? }

  writer.kill(:KILL)
  exit_code(writer)
  collect.(writer)
  client = app(schedule_topic: schedule)
  left = -> { client.schedule.reject { |entry| entry.recurring || entry.at > Time.now + 60 } }
  eventually(60, -> { "an empty schedule, not #{left.().first(5)}\n#{said.()}" }) { left.().empty? }
  read = ->(name) { client.each(name, kafka: { "isolation.level" => "read_committed" }) }
  eventually(60, "more than #{KILLS} ticks") { read.(ticks).count > KILLS }
  # The other one may have done all of that.
  eventually(60, -> { "both servers run\n#{said.()}" }) { servers.().all? { |child| child.output.include?("ready\n") } }
  servers.().each { |child| child.kill(:TERM) }
  equal([0, 0], servers.().map { |child| exit_code(child, 60) }, "exit codes\n#{said.()}")

  due, canceled = called.values_at("due", "canceled")
  arrived = nil
  # The last transaction may end in the schedule before it ends in this topic.
  eventually(60, -> { "all messages, not #{wrong(due, canceled, arrived)}" }) do
    arrived = read.(output).map(&:raw_payload)
    (due - arrived).empty?
  end
  puts "kills: #{killed.map { |kind, count| "#{count} #{kind}" }.join(", ")}; #{due.size} scheduled, " \
       "#{canceled.size} canceled, #{arrived.size} arrived"
  equal(%w[canceled due], called.keys.sort, "what the calls returned")
  equal([], wrong(due, canceled, arrived), "what is wrong")
  times = read.(ticks).map { |message| message.raw_headers["pelton-scheduled-at"].to_i }
  equal(times.sort, times.uniq, "each tick once, in order")

  # The same check sees a loss, a copy and a canceled message.
  first = due.first
  [[canceled, arrived - [first]], [canceled, [*arrived, first]], [[first], arrived]].each do |rest|
    equal(1, wrong(due, *rest).size, "what the check sees")
  end
end
