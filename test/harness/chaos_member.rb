# frozen_string_literal: true

# A member of the group that bin/chaos hurts: exe/pelton server -r test/harness/chaos_member.rb. PELTON_CHAOS is JSON:
# {"bootstrap", "group", "topic", "output", "work": "keys", "graceful" or "exactly-once", "folder", "kafka": {…}}.

require "json"
require "pelton"
require "support/lines"

CHAOS = JSON.parse(ENV.fetch("PELTON_CHAOS"))
DONE = Lines.new(File.join(CHAOS.fetch("folder"), "done"))

# Order per key, eight jobs of a partition at a time. Fails sometimes; some messages take long, and others overtake
# them.
class ChaosKeys < Pelton::Consumer
  def process(message)
    IO.select(nil, nil, nil, message.key.end_with?("-0") && rand(10).zero? ? rand / 2 : 0.002)
    raise IOError, "on purpose" if rand(200).zero?

    DONE << [Process.pid, object_id, partition, message.offset, message.key, Integer(message.raw_payload)]
  end
end

# Copies to another topic, in transactions.
class ChaosCopies < Pelton::Consumer
  def consume
    transaction do |tx|
      messages.each do |message|
        raise IOError, "on purpose" if rand(500).zero?

        tx.produce_async(topic: CHAOS["output"], partition: partition, key: message.key, payload: message.raw_payload)
      end
      mark_as_consumed(messages.last)
    end
    DONE << [Process.pid, object_id, partition, messages.last.offset]
  end
end

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => CHAOS.fetch("bootstrap"), **CHAOS.fetch("kafka") }
  config.group_id = CHAOS.fetch("group")
  config.max_messages = 20
  config.concurrency = 8
  config.shutdown_timeout = 60
end
Pelton.routes do
  topic CHAOS.fetch("topic"), to: CHAOS["work"] == "exactly-once" ? ChaosCopies : ChaosKeys do
    decode :bytes
    backoff 0.01..0.1
    CHAOS["work"] == "exactly-once" ? transactional("chaos") : concurrency(8)
  end
end
