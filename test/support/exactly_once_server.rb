# frozen_string_literal: true

# Consume, transform, produce with the framework: the process that test/integration/exactly_once_consumer.rb kills.
# PELTON_JOB is JSON; each step is a letter in the pipe of descriptor 3.

require "json"
require "pelton"

JOB = JSON.parse(ENV.fetch("PELTON_JOB"), symbolize_names: true)
STEPS = IO.new(3, "w").tap { |pipe| pipe.sync = true }

class CopyingConsumer < Pelton::Consumer
  def assigned = STEPS.write("a")
  def revoked = STEPS.write("r")

  def consume
    transaction { |tx| copy(tx) }
    STEPS.write("c")
  end

  private

  def copy(transaction)
    STEPS.write("b")
    messages.each_with_index do |message, index|
      raise KeyError, "poison" if message.raw_payload.end_with?(JOB[:poison])

      delivery = transaction.produce_async(topic: JOB[:output], partition: partition, payload: message.raw_payload)
      next unless index == 10

      delivery.wait(timeout: 60)
      STEPS.write("h") # the step is done
    end
    STEPS.write("p")
    IO.select(nil, nil, nil, JOB[:work]) if JOB[:work] # seconds
    mark_as_consumed(messages.last)
    STEPS.write("m")
  end
end

# Usually a static member: its successor takes over without waiting for the session of the killed process.
KAFKA = JOB.fetch(:kafka, { "group.instance.id" => "job", "session.timeout.ms" => 20_000 })
Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => JOB[:bootstrap] }
  config.group_id = JOB[:group]
  config.max_messages = 20
  config.shutdown_timeout = 60 # longer than any job's work
end
Pelton.routes do
  group JOB[:group], kafka: KAFKA do
    topic JOB[:input], to: CopyingConsumer do
      transactional JOB[:id]
      dead_letters JOB[:dead], retries: 0
      backoff 0..0.01
    end
  end
end
Pelton.subscribe(Pelton::Reporters::Log.new($stderr)) if ENV["PELTON_LOG"]

server = Pelton.start
trap(:TERM) { server.signal("TERM") }
exit(server.wait && Pelton.close.zero? ? 0 : 1)
