# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/exactly_once"

# Partitions are lost in the middle of their transactions, before and after these marked, and the member that they are
# lost to does the same messages: the transactions are aborted with AssignmentLost, and read_committed sees each message
# once. So it is with a process that was frozen (SIGSTOP) in its transactions for longer than its session. The members'
# transactional ids differ, so no fencing helps. In the last part they are the same, as in production: there, the next
# owner fences the partition's producer, which is no failure.

PARTITIONS = 4
MESSAGES = 80
EACH = MESSAGES / PARTITIONS

Scenario.run do
  quick = { "heartbeat.interval.ms" => 300, "transaction.timeout.ms" => 120_000,
            "partition.assignment.strategy" => "cooperative-sticky" }

  # --- taken by a rebalance that does not wait ------------------------------------------------------------------------
  input = topic(partitions: PARTITIONS, name: unique("input"))
  output = topic(partitions: PARTITIONS, name: unique("output"))
  group = unique("group")
  ExactlyOnce.fill(app.producer, input, PARTITIONS, MESSAGES)
  entered = Thread::Queue.new
  gate = Thread::Queue.new
  ends = Thread::Queue.new
  copying = lambda do |held|
    consumer do
      transaction do |tx|
        messages.each { |message| tx.produce_async(topic: output, partition: partition, payload: message.raw_payload) }
        mark_as_consumed(messages.last) if partition.even?
        if held && !gate.closed?
          entered << partition
          gate.pop
        end
        mark_as_consumed(messages.last)
      end
    rescue Pelton::Error => e
      ends << [partition, e.class]
      raise
    end
  end
  serve = lambda do |held|
    reader = copying.(held)
    id = unique("id")
    app(group: group, max_messages: MESSAGES, kafka: quick, revocation_timeout: 0.5) do
      topic(input, to: reader) { transactional id }
    end.tap(&:start)
  end
  # All are held, so whichever go to the other one are lost in their transactions.
  first = serve.(true)
  equal([*0...PARTITIONS], take(entered, PARTITIONS).sort, "partitions in a transaction")
  second = serve.(false)
  lost = nil
  eventually(40, "partitions of the second one") { (lost = second.assignments[input]) && lost.size == PARTITIONS / 2 }
  check(lost.map(&:even?).uniq.size == 2, "lost ones before and after their marks: #{lost}")
  eventually(40, "its work") { committed(group, input, PARTITIONS).values_at(*lost) == [EACH] * lost.size }
  gate.close
  equal(lost.map { |place| [place, Pelton::AssignmentLost] }, take(ends, lost.size).sort_by(&:first), "how they ended")
  eventually(40, "the rest") { committed(group, input, PARTITIONS) == [EACH] * PARTITIONS }
  [first, second].each { |app| equal(true, app.stop, "stop") }
  equal([], ends.size.times.map { ends.pop }, "other ends")
  no_transaction(output, PARTITIONS)
  wanted = ExactlyOnce.wanted(PARTITIONS, MESSAGES)
  equal(wanted, ExactlyOnce.read(bootstrap, output, PARTITIONS), "what read_committed sees")
  all = ExactlyOnce.read(bootstrap, output, PARTITIONS, "read_uncommitted")
  equal(MESSAGES + (EACH * lost.size), all.each_value.sum(&:size), "what was written, once more for the lost ones")

  # --- frozen ---------------------------------------------------------------------------------------------------------
  output = topic(partitions: PARTITIONS, name: unique("output"))
  group = unique("group")
  settings = { program: "exactly_once_server", bootstrap: bootstrap, group: group, input: input, output: output,
               dead: output, poison: "none" }
  # Frozen in its work, however late: its 10 s pass meanwhile.
  short = { **quick, "session.timeout.ms" => 3000 }
  frozen = ExactlyOnce::Job.new(**settings, id: unique("id"), kafka: short, work: 10)
  other = ExactlyOnce::Job.new(**settings, id: unique("id"), kafka: quick)
  @children.push(frozen, other) # destroyed with the others
  frozen.start
  PARTITIONS.times { frozen.advance_to("assigned", 60) } # each consumer that is built is revoked later
  frozen.advance_to("produced", 60)
  Freezing.freeze_process(frozen.pid)
  other.start
  eventually(60, "the other one to do all of it\n#{other.output}") do
    other.drain
    committed(group, input, PARTITIONS) == [EACH] * PARTITIONS
  end
  Process.kill(:CONT, frozen.pid)
  # A stop in which one of its partitions is lost would be unfinished.
  PARTITIONS.times { frozen.advance_to("revoked", 60) }
  check(frozen.output.match?(/was revoked.* its next owner/), "it says why:\n#{frozen.output}")
  [frozen, other].each(&:stop)
  no_transaction(output, PARTITIONS)
  equal(wanted, ExactlyOnce.read(bootstrap, output, PARTITIONS), "what read_committed sees beside a frozen one")
  all = ExactlyOnce.read(bootstrap, output, PARTITIONS, "read_uncommitted")
  check(all.each_value.sum(&:size) > MESSAGES, "the frozen one had written something")
  equal([EACH] * PARTITIONS, committed(group, input, PARTITIONS), "committed")

  # --- with the same transactional ids: nothing for an operator -------------------------------------------------------
  { before: "before its transaction", inside: "in its transaction" }.each do |place, words|
    group = unique("group")
    id = unique("id")
    entered = Thread::Queue.new
    gate = Thread::Queue.new
    ends = Thread::Queue.new
    hold = lambda do |here, held, number|
      next if !held || here != place || gate.closed?

      entered << number
      gate.pop
    end
    first, second = [true, false].map do |held|
      reader = consumer do
        hold.(:before, held, partition)
        transaction do |tx|
          tx.produce_async(topic: output, partition: partition, payload: "x")
          hold.(:inside, held, partition)
          mark_as_consumed(messages.last)
        end
      rescue Pelton::Error => e
        ends << [partition, e]
        raise
      end
      app(group: group, max_messages: MESSAGES, kafka: quick, revocation_timeout: 0.5) do
        topic(input, to: reader) { transactional id }
      end
    end
    first.start
    take(entered, PARTITIONS)
    second.start
    lost = nil
    eventually(40, "partitions of the second one") { (lost = second.assignments[input]) && lost.size == PARTITIONS / 2 }
    eventually(40, "its work") { committed(group, input, PARTITIONS).values_at(*lost) == [EACH] * lost.size }
    gate.close
    failed = take(ends, lost.size)
    equal(lost, failed.map(&:first).sort, "fenced #{words}")
    check(failed.all? { |_, e| e.is_a?(Pelton::AssignmentLost) || e.fenced? }, "why: #{failed}")
    eventually(40, "the rest") { committed(group, input, PARTITIONS) == [EACH] * PARTITIONS }
    [first, second].each { |app| equal(true, app.stop, "stop") }
    equal(lost.size, events(first, "transaction.aborted").size, "aborted")
    failures = %w[producer.fatal error.occurred message.delivery_failed].flat_map { |name| events(first, name) }
    equal([], failures.map(&:payload), "failures")
    logs = events(first, "kafka.log").map(&:payload)
    check(logs.any? { |log| log[:message].include?("fenced by a newer instance") }, "librdkafka's log of #{words}")
    equal([], logs.select { |log| log[:level] < 5 }, "warnings and errors of librdkafka")
  end
end
