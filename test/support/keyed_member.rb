# frozen_string_literal: true

# A member of a group that keeps order per key: exe/pelton server -r test/support/keyed_member.rb. PELTON_MEMBER is
# JSON: {"bootstrap": …, "group": …, "topic": …, "trail": a file, "kafka": {…}}. To the trail it appends a line (one
# write) for each message that it finished and for each partition that it gave back.

require "json"
require "pelton"

MEMBER = JSON.parse(ENV.fetch("PELTON_MEMBER"))
TRAIL = File.open(MEMBER.fetch("trail"), "a")

# Fails sometimes.
class KeyedMember < Pelton::Consumer
  def revoked = note("revoked")

  def process(message)
    IO.select(nil, nil, nil, 0.004) # the work
    raise IOError, "on purpose" if rand(40).zero?

    note("done", message.key, message.payload["n"], message.offset)
  end

  private

  def note(*what) = TRAIL.syswrite("#{JSON.generate([Process.pid, partition, *what])}\n")
end

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => MEMBER.fetch("bootstrap"), **MEMBER.fetch("kafka") }
  config.group_id = MEMBER.fetch("group")
  config.max_messages = 50
  config.concurrency = 8
end
Pelton.routes do
  topic MEMBER.fetch("topic"), to: KeyedMember do
    decode :json
    concurrency 8
    backoff 0.01..0.1
  end
end
