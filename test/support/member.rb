# frozen_string_literal: true

# A member of a group for the rebalance scenarios: exe/pelton server -r test/support/member.rb. PELTON_MEMBER is JSON:
# {"bootstrap": …, "group": …, "topic": …, "folder": for its trail and the ledger, "kafka": {…}, and, optionally,
# "work": seconds per batch, "confirm": commits each batch and records the result, "gate": a file that `revoked` waits
# for}.

require "json"
require "pelton"
require_relative "ledger"
require_relative "trail"

MEMBER = JSON.parse(ENV.fetch("PELTON_MEMBER"))
TRAIL = Trail.new(File.join(MEMBER.fetch("folder"), "trail"))
GATE = MEMBER["gate"]
GATE_TIME = 240 # seconds, more than the scenario waits
LEDGER = Ledger.new(File.join(MEMBER.fetch("folder"), "ledger"))

# Records the calls of its methods.
class MemberConsumer < Pelton::Consumer
  def assigned = note("assigned")
  def shutdown = note("shutdown")

  def revoked
    note("revoked")
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + GATE_TIME
    until GATE.nil? || File.exist?(GATE)
      raise "no #{GATE}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      IO.select(nil, nil, nil, 0.01)
    end
  end

  def consume
    offsets = messages.map(&:offset).minmax
    note("begin", *offsets)
    IO.select(nil, nil, nil, MEMBER.fetch("work", 0.005))
    me = "#{Process.pid}/#{object_id}"
    messages.each { |message| LEDGER.processed(me, message.key, Integer(message.raw_payload)) }
    note("done", *offsets)
    note(mark_as_consumed!(messages.last) ? "marked" : "refused", *offsets) if MEMBER["confirm"]
  end

  private

  def note(what, *offsets) = TRAIL.note(what, object_id, partition, *offsets)
end

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => MEMBER.fetch("bootstrap"), **MEMBER.fetch("kafka") }
  config.group_id = MEMBER.fetch("group")
  config.max_messages = 50
  config.revocation_timeout = GATE_TIME if GATE
end
Pelton.routes { topic MEMBER.fetch("topic"), to: MemberConsumer }
