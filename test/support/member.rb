# frozen_string_literal: true

# A member of a group for the rebalance scenarios: exe/pelton server -r test/support/member.rb. PELTON_MEMBER is JSON:
# {"bootstrap": …, "group": …, "topic": …, "trail": a file, "kafka": {…}}.

require "json"
require "pelton"
require_relative "trail"

MEMBER = JSON.parse(ENV.fetch("PELTON_MEMBER"))
TRAIL = Trail.new(MEMBER.fetch("trail"))

# Writes down what happens to it.
class MemberConsumer < Pelton::Consumer
  def assigned = note("assigned")
  def revoked = note("revoked")
  def shutdown = note("shutdown")

  def consume
    offsets = messages.map(&:offset).minmax
    note("begin", *offsets)
    IO.select(nil, nil, nil, 0.005) # the work
    note("done", *offsets)
  end

  private

  def note(what, *offsets) = TRAIL.note(what, object_id, partition, *offsets)
end

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => MEMBER.fetch("bootstrap"), **MEMBER.fetch("kafka") }
  config.group_id = MEMBER.fetch("group")
  config.batch = 50
end
Pelton.routes { topic MEMBER.fetch("topic"), to: MemberConsumer }
