# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Letters on a real broker: listed, shown, filtered, redriven, deleted. A redrive that is killed inside of a transaction
# or anywhere else, and two that run at once: each message is processed once more, in order, none twice.

PARTITIONS = 3
COUNT = 600
PROGRAM = File.expand_path("../support/redrive_program.rb", __dir__)

Scenario.run do
  input = topic(partitions: PARTITIONS)
  dead = topic(partitions: 2)
  status = "#{dead}.status"
  healed = false
  seen = Thread::Queue.new
  work = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      raise (message.key == "0" ? KeyError : IOError), "not yet #{message.raw_payload}" unless healed

      seen << [message.partition, message.key, message.raw_payload, attempt, message.raw_headers["trace"],
               message.origin&.error]
    end
  end
  group = unique("group")
  server = app(group: group, concurrency: 3) do
    topic(input, to: work) { dead_letters dead, retries: 0 }
  end
  rows = Array.new(COUNT) do |number|
    { topic: input, key: (number % 7).to_s, payload: number.to_s, headers: { "trace" => "t#{number}" } }
  end
  server.producer.produce_many_sync(rows)
  server.start
  eventually(60, "all letters") { events(server, "message.dead_lettered").size == COUNT }
  server.stop
  letters = app.dead_letters(dead)

  # --- list, find, count ------------------------------------------------------------------------------------------
  zeros = (COUNT / 7.0).ceil
  equal({ "IOError" => COUNT - zeros, "KeyError" => zeros }, letters.count_by(:error), "letters by error")
  equal({ input => COUNT }, letters.count_by(:topic, group: group), "letters by topic")
  newest = letters.list(limit: 20)
  equal(newest.map(&:failed_at).sort.reverse, newest.map(&:failed_at), "newest first")
  letter = newest.first
  equal([letter.place] * 2, [letters.find(letter.id), letters.find(letter.place)].map(&:place),
        "found by id and by place")
  equal(["not yet #{letter.raw_payload}", group, 1, Integer(letter.raw_payload)],
        [letter.origin.error_message, letter.group, letter.origin.attempts, letter.payload], "what a letter tells")
  check(letter.origin.backtrace.first.include?("dead_letters_redrive.rb"), "backtrace #{letter.origin.backtrace}")
  middle = letters.list(limit: nil).map(&:failed_at).sort[COUNT / 2]
  equal(COUNT, letters.each(since: middle).count + letters.each(until: middle).count, "since and until")
  equal({}, letters.count_by(:status, group: "another"), "of another group")

  # --- killed, and killed again -----------------------------------------------------------------------------------
  equal(COUNT, letters.redrive(dry_run: true).handled, "a dry run")
  done = 0
  [1, 3, 2].each do |transaction|
    child = ruby(PROGRAM, dead, "0", transaction.to_s)
    equal(137, exit_code(child, 60), "killed in transaction #{transaction}")
    done += (transaction - 1) * 100
    equal((transaction - 1) * 100, child.output.lines.size, "reported before the kill")
    equal(COUNT - done, letters.each.count, "open letters after the kill in transaction #{transaction}")
  end
  child = ruby(PROGRAM, dead, "50", "0")
  eventually(60, "the first letters") { child.output.lines.size > 20 }
  child.kill(:KILL)
  exit_code(child)

  # --- two at once ------------------------------------------------------------------------------------------------
  first = ruby(PROGRAM, dead, "10", "0")
  eventually(60, "the first letters of the first") { first.output.lines.size > 6 }
  second = ruby(PROGRAM, dead, "0", "0")
  equal([3, 0], [exit_code(first, 60), exit_code(second, 60)], "exit codes\n#{first.output}\n#{second.output}")
  check(first.output.include?("nothing is sent twice"), first.output)
  places = (first.output + second.output).lines.grep(%r{\A\d+/\d+$})
  equal(places.uniq.size, places.size, "letters that two redrives report")
  equal([0, {}, nil], letters.redrive.to_a, "a further run")
  equal({ redriven: COUNT }, letters.count_by(:status, status: :all), "status")

  # --- each once more, in order, as it was ------------------------------------------------------------------------
  healed = true
  again = app(group: group, concurrency: 3) { topic(input, to: work) { dead_letters dead, retries: 0 } }
  again.start
  found = take(seen, COUNT, 60)
  equal(rows.map { |row| row[:payload] }.sort, found.map { |row| row[2] }.sort, "each message once")
  found.group_by { |row| row[1] }.each do |key, list|
    numbers = list.map { |row| row[2].to_i }
    equal(numbers.sort, numbers, "order of key #{key}")
    equal(1, list.map(&:first).uniq.size, "partitions of key #{key}")
  end
  equal([[1, nil]], found.map { |row| row.values_at(3, 5) }.uniq, "attempts, error")
  check(found.all? { |row| row[4] == "t#{row[2]}" }, "own headers")
  again.stop
  equal(0, seen.size, "messages that came twice")

  # --- further deaths: the first origin; delete; only some ---------------------------------------------------------
  healed = false
  place = letters.find("0/0").origin
  where = ->(origin) { [origin.topic, origin.partition, origin.offset, origin.timestamp_ms] }
  # Only the first of these redrives names its letters. Those that the second one finds open have failed after it.
  [[2, { status: :redriven, id: %w[0/0 0/1 0/2] }], [3, {}]].each do |redrives, which|
    equal(3, letters.redrive(**which).handled, "again, because the caller says so")
    third = app(group: group) { topic(input, to: work) { dead_letters dead, retries: 0 } }
    third.start
    eventually(60, "three letters") { events(third, "message.dead_lettered").size == 3 }
    third.stop
    letter = letters.each.find { |other| where.call(other.origin).first(3) == where.call(place).first(3) }
    equal([*where.call(place), redrives - 1], [*where.call(letter.origin), letter.origin.redrives], "its first origin")
    # Kafka deletes by age: a letter is as old as the message that failed.
    check(letter.message.timestamp_ms > place.timestamp_ms, "timestamp of the letter")
  end
  gone = letters.each.max_by(&:offset) # so none that is done lies between the other two, where a run stops
  equal(1, letters.delete(id: gone.id).handled, "deleted")
  equal([:deleted, 0], [letters.find(gone.id).status, letters.redrive(id: gone.id).handled], "a deleted letter")
  stop = Pelton::Background::Stop.new
  result = letters.redrive(limit: 2, rate: 1, stop: stop) { stop.ask }
  equal([1, letters.each.first.place], result.to_a.values_at(0, 2), "where a stop was")

  # --- letters of other systems, and without a payload -------------------------------------------------------------
  app.producer.produce_many_sync([{ topic: dead, key: "k", payload: "foreign", headers: { "a" => "1" }, partition: 1 },
                                  { topic: dead, key: "big", payload: "x" * 5_000, partition: 1 }])
  foreign = letters.each(key: %w[k big]).to_a
  equal([nil, nil, { "a" => "1" }], [foreign.first.error, foreign.first.group, foreign.first.headers], "what it has")
  equal({ "it has no origin: name the topic with `to`" => 2 }, letters.redrive(key: %w[k big]).skipped,
        "without origin")
  target = topic(settings: { "max.message.bytes" => "2000" })
  result = letters.redrive(key: %w[k big], to: target)
  equal([1, 1], [result.handled, result.skipped.values.sum], "one is refused")
  check(result.skipped.keys.first.include?("MSG_SIZE_TOO_LARGE"), result.skipped)
  _, copy = read(target, 1, 1).first
  equal(["k", "foreign", { "a" => "1" }], [copy.key, copy.raw_payload, copy.raw_headers], "the copy")
  equal([:open], letters.each(key: "big").map(&:status), "a refused letter stays open")
  missing = letters.redrive(to: unique("missing"), key: "big")
  check(missing.skipped.keys.first.end_with?("does not exist"), missing.skipped)

  # --- the status topic: compacted; records of letters that Kafka deleted are removed -------------------------------
  equal("compact", app.admin.config(topic: status).fetch("cleanup.policy").value, "cleanup.policy")
  app.admin.delete_records({ [dead, 0] => 100 })
  letters.redrive(key: "none")
  keys = {}
  app.each(status) { |message| keys[message.key] = message.tombstone? }
  equal([true, false], [keys.fetch("0/99"), keys.fetch("0/100")], "tombstones of the records")
end
