# frozen_string_literal: true

require "support/scenario"

# Messages that always fail, at the first, a middle and the last offset of each partition: their copies are in the dead
# letters, whole and in order, with what a hook added (which fails once), and what is committed is the end. Without the
# topic nothing is marked, until it is there.

PARTITIONS = 3
EACH = 30
POISON = [0, 13, EACH - 1].freeze
HEADERS = { "trace" => "7", "tags" => ["a", "", "b"], "nothing" => nil, "bytes" => "\xFF\x00" }.freeze
TIME = (Time.now.to_i - 3600) * 1000 # not older: a broker deletes what is past its retention, whenever it looks

Scenario.run do
  input = topic(partitions: PARTITIONS)
  dead = topic(partitions: 2)
  group = unique("group")
  rows = Array.new(PARTITIONS * EACH) do |number|
    partition, offset = number.divmod(EACH)
    poison = POISON.include?(offset)
    payload = poison && offset == 13 ? nil : "#{partition}-#{offset}"
    { topic: input, partition: partition, key: poison ? "poison" : "fine", payload: payload, headers: HEADERS,
      timestamp: TIME + number }
  end
  app.producer.produce_many_sync(rows)

  done = Thread::Queue.new
  work = consumer do
    messages.each do |message|
      raise KeyError, "cannot digest #{message.offset}" if message.key == "poison"

      done << [partition, message.offset]
    end
  end
  refusals = Thread::Queue.new << "not yet"
  change = lambda do |letter, failure|
    word = pop(refusals)
    raise IOError, word if word

    letter[:headers]["changed"] = "#{failure.partition}-#{failure.offset}"
  end
  server = app(group: group, concurrency: 2) do
    topic(input, to: work) do
      dead_letters dead, retries: 1
      on_dead_letter change
      backoff 0..0.01
    end
  end
  server.start
  eventually(30, "all to be committed") { committed(group, input, PARTITIONS) == [EACH] * PARTITIONS }
  equal(true, server.stop, "stop")
  healthy = (0...EACH).to_a - POISON
  handled = Array.new(done.size) { done.pop }.group_by(&:first)
  PARTITIONS.times do |partition|
    equal(healthy, handled[partition].map(&:last).uniq, "handled in partition #{partition}")
  end

  letters = read(dead, 2, PARTITIONS * POISON.size)
  ids = events(server, "error.occurred").group_by { |event| event[:failure_id] }
  letters.each do |partition, copy|
    origin = copy.origin
    equal([input, origin.partition, origin.offset],
          ids[origin.failure_id].last.payload.values_at(:topic, :partition, :offset), "the error of the copy")
    equal("#{origin.partition}-#{origin.offset}", copy.headers["changed"], "what was changed")
    equal(origin.partition % 2, partition, "partition of the copy")
    equal(["poison", origin.offset == 13 ? nil : "#{origin.partition}-#{origin.offset}",
           TIME + (origin.partition * EACH) + origin.offset], [copy.key, copy.raw_payload, copy.timestamp_ms], "copy")
    own = copy.headers.except("changed", *Pelton::Origin::HEADERS.values)
    equal(HEADERS.transform_values { |value| value.is_a?(String) ? value.b : value },
          own.transform_values { |value| value.is_a?(String) ? value.b : value }, "headers")
    equal([input, group, "KeyError", "cannot digest #{origin.offset}", nil],
          [origin.topic, origin.group, origin.error, origin.error_message, origin.due_at], "origin")
    check((origin.failed_at - Time.now).abs < 300, "failed_at #{origin.failed_at}")
  end
  equal({ 2 => 8, 3 => 1 }, letters.map { |_, copy| copy.origin.attempts }.tally, "attempts, one refused by the hook")
  places = letters.map { |_, copy| [copy.origin.partition, copy.origin.offset] }.group_by(&:first)
  equal([POISON] * PARTITIONS, Array.new(PARTITIONS) { |number| places[number].map(&:last) }, "order of a partition's")

  # The dead letters' topic never takes the whole copy: a letter without the payload says where it is. One of nearly the
  # largest size that a producer sends by default, whose headers make it larger, is whole.
  tight = topic(settings: { "max.message.bytes" => "1000" })
  compacted = topic(settings: { "cleanup.policy" => "compact" })
  wide = topic
  { tight => :MSG_SIZE_TOO_LARGE, compacted => :INVALID_RECORD, wide => nil }.each do |to, refusal|
    source = topic(partitions: 2)
    group = unique("group")
    payload = "x" * (refusal ? 5_000 : 999_800)
    app.producer.produce_many_sync([{ topic: source, partition: 0, headers: { "poison" => "1" }, payload: payload },
                                    { topic: source, partition: 0, payload: "behind" },
                                    { topic: source, partition: 1, payload: "beside" }])
    one_by_one = Class.new(Pelton::Consumer) do
      define_method(:process) do |message|
        raise KeyError, "poison" if message.headers.key?("poison")

        done << [partition, message.offset]
      end
    end
    server = app(group: group) do
      topic(source, to: one_by_one) do
        dead_letters to, retries: 0
        backoff 0.01..0.1
      end
    end
    server.start
    equal([[0, 1], [1, 0]], take(done, 2).sort, "what is behind and beside the message, #{refusal}")
    equal(true, server.stop, "stop")
    equal([2, 1], committed(group, source, 2), "what is committed")
    _, letter = read(to, 1, 1).first
    origin = letter.origin
    place = [origin.topic, origin.partition, origin.offset]
    equal([refusal&.to_s, [source, 0, 0], refusal ? 0 : payload.bytesize],
          [origin.payload_omitted, place, letter.raw_payload.bytesize], "letter")
    equal([refusal], events(server, "message.dead_lettered").map { |event| event[:payload_omitted] }, "the event")
    refused = events(server, "error.occurred").select { |event| event[:source] == "forward" }
    equal([*refusal], refused.map { |event| event[:error].name }, "why the copy was refused")
  end

  # By hand, in a transaction, which the refusal ends: the failed message gets a letter after its last retry.
  source = topic
  group = unique("group")
  app.producer.produce_many_sync([{ topic: source, payload: "x" * 5_000 }, { topic: source, payload: "behind" }])
  raised = Thread::Queue.new
  by_hand = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      transaction do
        dispatch_to_dead_letters(message, reason: "by hand") if message.offset.zero?
        mark_as_consumed(message)
      rescue Pelton::KafkaError => e
        raised << e.name
        raise
      end
    end
  end
  server = app(group: group) do
    topic(source, to: by_hand) do
      transactional "shop"
      dead_letters tight, retries: 1
      backoff 0.01..0.1
    end
  end
  server.start
  # The ends of the transactions have offsets, too.
  eventually(30, "all to be committed") { committed(group, source, 1).first.to_i >= 2 }
  equal(true, server.stop, "stop")
  equal(%i[MSG_SIZE_TOO_LARGE] * 2, take(raised, 2), "what the calls raised")
  _, letter = read(tight, 1, 2).last
  origin = letter.origin
  equal([source, 0, "MSG_SIZE_TOO_LARGE", "Pelton::DeliveryError", ""],
        [origin.topic, origin.offset, origin.payload_omitted, origin.error, letter.raw_payload],
        "letter of a refused letter")
  equal([[:MSG_SIZE_TOO_LARGE, 2]], events(server, "message.dead_lettered").map do |event|
    [event[:payload_omitted], event[:attempts]]
  end, "its event")
end
