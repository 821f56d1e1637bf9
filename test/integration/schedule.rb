# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Later messages on a real broker: servers that are killed inside of their transactions, two servers, a restart, cancels
# and reschedules meanwhile. Readers of committed messages see each message once.

PROGRAM = File.expand_path("../support/schedule_program.rb", __dir__)
COUNT = 300

Scenario.run do
  output = topic(partitions: 2)
  ticks = topic
  schedule = topic(partitions: 2, settings: { "cleanup.policy" => "compact" })
  group = unique("group")
  server = ->(kill_at = 0) { ruby(PROGRAM, schedule, group, output, kill_at.to_s, ticks) }
  client = app(schedule_topic: schedule)
  producer = client.producer
  later = ->(payload, to: output, **more) { producer.produce_later(topic: to, payload: payload, **more) }
  all = -> { client.each(output, kafka: { "isolation.level" => "read_committed" }) }
  rows = -> { all.().map { |message| [message.raw_key, message.raw_payload] } }
  sent = ->(count) { eventually(60, "#{count} messages") { all.().count >= count } }

  # --- killed inside of transactions, at once and later --------------------------------------------------------------
  now = Time.now
  ids = Array.new(COUNT) { |number| later.(number.to_s, key: (number % 5).to_s, at: now + 1 + ((number / 60) * 0.5)) }
  canceled, moved = ids.last(2)
  equal([true, true], [client.schedule.cancel(canceled), client.schedule.reschedule(moved, in: 5)], "changes")
  behind = [1, 2].flat_map do |kill_at|
    child = server.(kill_at)
    equal(137, exit_code(child, 60), "killed in transaction #{kill_at}\n#{child.output}")
    Array.new(4) { later.("never", in: 3600) }
  end
  first = server.()
  second = server.()
  equal([true] * 8, behind.map { |id| client.schedule.cancel(id) }, "cancels of entries behind an open transaction")
  sent.(COUNT - 1)
  eventually(30, "an empty schedule") { client.schedule.all?(&:recurring) }
  found = rows.()
  equal((0...(COUNT - 2)).map(&:to_s) + [(COUNT - 1).to_s], found.map(&:last).sort_by(&:to_i), "each message once")
  found.group_by(&:first).each do |key, list|
    numbers = list.map { |row| row.last.to_i } - [COUNT - 1] # which was moved
    equal(numbers.sort, numbers, "order of key #{key}")
  end

  # --- killed by others, while messages are due; a frozen server that comes back --------------------------------------
  more = Array.new(100) { |number| "x#{number}" }
  more.each_with_index { |payload, number| later.(payload, in: 0.5 + (number * 0.05)) }
  first.kill(:STOP)
  third = server.()
  eventually(60, "a new owner") { third.output.include?("loaded") }
  first.kill(:CONT)
  second.kill(:KILL)
  sent.(COUNT - 1 + 100)
  eventually(30, "an empty schedule") { client.schedule.all?(&:recurring) }
  equal(more.sort, rows.().map(&:last).grep(/x/).sort, "each message once, after a kill")

  # --- restart ----------------------------------------------------------------------------------------------------
  [first, third].each { |child| child.kill(:TERM) }
  equal([0, 0], [first, third].map { |child| exit_code(child, 60) }, "exit codes\n#{first.output}\n#{third.output}")
  later.("y", in: 0)
  later.("lost", to: unique("missing"), in: 0, id: "lost")
  last = server.()
  sent.(COUNT + 100)
  eventually(40, "an error") { last.output.include?("\"lost\"") }
  waits = -> { client.schedule.reject(&:recurring).map(&:id) }
  eventually(30, -> { "only \"lost\" waits, not #{waits.()}" }) { waits.() == ["lost"] }
  equal(["y"], rows.().map(&:last).grep(/y/), "after a restart")
  last.kill(:TERM)
  equal(0, exit_code(last, 60), last.output)

  # --- others write all the time: each fetch finds something, so no reader reaches the end of the log -----------------
  busy = app(schedule_topic: topic(settings: { "cleanup.policy" => "compact" }))
  busy.producer.produce_later(topic: output, payload: "z", in: 0)
  cancel = { topic: busy.config.schedule_topic, key: "gone", payload: nil }
  stop = false
  writers = Array.new(8) { Thread.new { busy.producer.produce_many_sync([cancel] * 20) until stop } }
  begin
    child = ruby(PROGRAM, busy.config.schedule_topic, unique("group"), output, "0", ticks,
                 env: { "FETCH_WAIT" => "5000" })
    eventually(30, -> { "a message that is due\n#{child.output}" }) { rows.().any? { |_, payload| payload == "z" } }
  ensure
    stop = true
    writers.each(&:join)
  end
  times = lambda do
    client.each(ticks, kafka: { "isolation.level" => "read_committed" }).map do |message|
      message.raw_headers["pelton-scheduled-at"].to_i
    end
  end
  eventually(60, "ticks of all these servers") { times.().size > 5 }
  child.kill(:TERM)
  equal(0, exit_code(child, 60), child.output)

  # --- the recurring message of all these servers --------------------------------------------------------------------
  times = times.()
  equal(times.uniq, times, "each tick once")
  check(times.all? { |time| (time % 1_000).zero? }, "ticks #{times}")
end
