# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "set"
require "support/scenario"

# Transactions beside those of the call that runs: a background thread's, aborted and committed all the time, fail no
# call and take no offset back; and a loop whose transaction for some messages is aborted, or whose second transaction
# would pass them, or which seeks in its transaction, loses nothing. Every message of them has the header of the app's
# middleware, and those of a pool, too.

MESSAGES = 60

Scenario.run do
  input = topic
  out = topic(name: unique("out"))
  beside = topic(name: unique("beside"))
  group = unique("beside")
  # The first message, once its output is committed. The background thread marks it, and a mark counts: if it marked the
  # message before the aborted transaction was repeated, the output would be missing.
  first = nil
  turns = 0
  tries = Hash.new(0)
  sought = Set.new
  taker = consumer do
    messages.each do |message|
      done = transaction do |tx|
        tx.produce_async(topic: out, payload: message.raw_payload)
        raise Pelton::AbortTransaction if (message.offset % 7).zero? && (tries[message.offset] += 1) == 1

        mark_as_consumed(message)
        seek(message.offset + 1) if message.offset % 11 == 10 && sought.add?(message.offset)
      end
      first ||= message if done
    end
  end
  taker.define_method(:assigned) do
    background("beside") do |stop|
      until stop.wait(0.01)
        transaction do |tx|
          tx.produce_async(topic: beside, payload: "x")
          turns += 1
          raise Pelton::AbortTransaction if turns.odd?

          mark_as_consumed(first) if first
        end
      end
    end
  end
  writer = app
  server = app(group: group, max_messages: 20) do
    topic(input, to: taker) do
      transactional "beside-#{group}"
      retries 3, backoff: 0.1..0.1, then: :skip # long enough for transactions of the background thread
    end
  end
  # Only the app's own producer had it.
  [writer, server].each do |each_app|
    each_app.middleware.append(->(message) { { **message, headers: { "tenant" => message[:topic] } } })
  end
  server.start
  MESSAGES.times.each_slice(20) do |numbers|
    writer.producer.produce_many_sync(numbers.map { |number| { topic: input, payload: number.to_s } })
  end
  eventually(60, "all outputs") { committed(group, input, 1) == [MESSAGES] && turns > 20 }
  equal(true, server.stop, "stop")
  equal([MESSAGES], committed(group, input, 1), "what is committed after the stop")
  pool = writer.producer_pool(size: 1, kafka: { "transactional.id" => unique("pool") })
  pool.transaction { |tx| tx.produce_async(topic: out, payload: "of a pool") }
  wanted = [*0...MESSAGES, "of a pool"].map { |payload| [payload.to_s, { "tenant" => out }] }
  found = read(out, 1, MESSAGES + 1, "isolation.level" => "read_committed")
          .map { |_, message| [message.raw_payload, message.headers] }
  equal(wanted, found, "outputs")
  equal([], events(server, "message.skipped"), "messages that were skipped")
  reasons = events(server, "error.occurred").map { |event| event[:error].reason }
  equal(5, reasons.count(:seek), "refused seeks")
  check((reasons - %i[seek undone]).empty?, "errors: #{reasons}")
end
