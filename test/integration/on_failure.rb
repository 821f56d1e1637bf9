# frozen_string_literal: true

require "support/scenario"

# A callable decides about each message that failed, a partition each: again, to the dead letters, to another topic, not
# at all, no further; and one whose answer fails. What is committed says where each partition is.
#
# once: who decides does not depend on the Ruby

ANSWERS = %i[retry dead_letter elsewhere skip stop raises].freeze
EACH = 6

Scenario.run do
  name = topic(partitions: ANSWERS.size)
  dead = topic
  other = topic
  group = unique("group")
  rows = Array.new(ANSWERS.size * EACH) do |number|
    partition, offset = number.divmod(EACH)
    { topic: name, partition: partition, key: offset == 3 ? "poison" : "fine", payload: "#{partition}-#{offset}" }
  end
  app.producer.produce_many_sync(rows)

  asked = Thread::Queue.new
  decide = lambda do |failure|
    asked << [failure.partition, failure.offset, failure.attempt, failure.error.class]
    case word = ANSWERS[failure.partition]
    when :elsewhere then [:dead_letter, other]
    when :raises then raise "cannot decide"
    else word
    end
  end
  done = Thread::Queue.new
  work = consumer do
    messages.each do |message|
      raise KeyError, "cannot digest it" if message.key == "poison"

      done << [partition, message.offset]
      mark_as_consumed(message)
    end
  end
  server = app(group: group) do
    topic(name, to: work) do
      on_failure decide
      dead_letters dead, retries: 2
      backoff 0..0.01
    end
  end
  server.start
  # :retry leaves it to the other words, by which dead letters follow two retries; so does a callable that raises.
  ends = ANSWERS.map { |word| word == :stop ? 3 : EACH }
  eventually(30, -> { "committed: #{committed(group, name, ANSWERS.size)}" }) do
    committed(group, name, ANSWERS.size) == ends
  end
  eventually(20, "the stop of a partition") { events(server, "partition.stopped").any? }
  equal(true, server.stop, "stop")

  by = take(asked, asked.size).group_by(&:first)
  asked_for = ANSWERS.each_index.to_h { |place| [place, [3] * (%i[retry raises].include?(ANSWERS[place]) ? 2 : 1)] }
  equal(asked_for, by.transform_values { |list| list.map { |_, offset| offset } }.sort.to_h, "what was asked about")
  # In its batch it failed first: which message it was is known when it failed alone.
  equal([[2, 3], [KeyError]], [by[0].map { |row| row[2] }, by.values.flatten(1).map(&:last).uniq], "of which attempts")
  handled = take(done, done.size).group_by(&:first).transform_values { |list| list.map(&:last).uniq }
  equal(ANSWERS.each_with_index.to_h { |word, place| [place, word == :stop ? [0, 1, 2] : [0, 1, 2, 4, 5]] },
        handled.sort.to_h, "what was done")

  letters = read(dead, 1, 3).map { |_, message| [message.raw_payload, message.origin.error, message.origin.attempts] }
  equal([["0-3", "KeyError", 3], ["1-3", "KeyError", 2], ["5-3", "KeyError", 3]], letters.sort, "dead letters")
  equal([["2-3", "KeyError"]], read(other, 1, 1).map { |_, message| [message.raw_payload, message.origin.error] },
        "elsewhere")
  equal([4], events(server, "partition.stopped").map { |event| event[:partition] }, "stopped")
  equal([[3, 3]], events(server, "message.skipped").map { |event| [event[:partition], event[:offset]] }, "skipped")
  told = events(server, "error.occurred").select { |event| event[:source] == "on_failure" }
  equal([[5, "cannot decide"]] * 2, told.map { |event| [event[:partition], event[:error].message] }, "it raised")

  # Who comes next goes on with what was stopped at.
  rest = Thread::Queue.new
  reader = consumer { messages.each { |message| rest << [partition, message.offset] } }
  successor = app(group: group) { topic(name, to: reader) }
  successor.start
  equal([[4, 3], [4, 4], [4, 5]], take(rest, 3), "the rest")
  equal(true, successor.stop, "stop")

  # A message that Kafka refuses inside of a transaction: at the commit, or before another message follows.
  source = topic
  tight = topic(settings: { "max.message.bytes" => "1000" })
  refused = Thread::Queue.new
  waits = ->(delivery) { eventually(30, "its report") { delivery.done? } }
  producing = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      transaction do |tx|
        delivery = tx.produce_async(topic: tight, payload: "x" * (message.offset < 2 ? 5_000 : 5))
        if message.offset == 1
          waits.call(delivery)
          tx.produce_async(topic: tight, payload: "behind it")
        end
        mark_as_consumed(message)
      end
    end
  end
  app.producer.produce_many_sync(Array.new(3) { |number| { topic: source, payload: number.to_s } })
  letters = topic
  server = app(group: unique("group")) do
    topic(source, to: producing) do
      transactional "shop"
      dead_letters letters, retries: :unlimited
      on_failure(lambda do |failure|
        refused << [failure.offset, failure.error.name]
        failure.error.is_a?(Pelton::KafkaError) && failure.error.message_refused? ? :dead_letter : :retry
      end)
    end
  end
  server.start
  equal(%w[0 1], read(letters, 1, 2).map { |_, message| message.raw_payload }, "letters of refused results")
  equal(["x" * 5], read(tight, 1, 1).map { |_, message| message.raw_payload }, "the result of the message behind them")
  equal(true, server.stop, "stop")
  equal([[0, :MSG_SIZE_TOO_LARGE], [1, :MSG_SIZE_TOO_LARGE]], take(refused, refused.size), "refusals")
end
