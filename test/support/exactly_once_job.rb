# frozen_string_literal: true

# Consume, transform, produce: the process that test/integration/exactly_once_kill.rb kills. PELTON_JOB is JSON; each
# step is a letter in the pipe of descriptor 3.

require "json"
require "pelton"

JOB = JSON.parse(ENV.fetch("PELTON_JOB"), symbolize_names: true)
STEPS = IO.new(3, "w").tap { |pipe| pipe.sync = true }

config = Pelton::Config.new
config.kafka = { "bootstrap.servers" => JOB[:bootstrap] }
config.max_messages = 20
config.freeze
producer = Pelton::Producer.new(config, kafka: { "transactional.id" => JOB[:id] })
# A static member: its successor takes over without waiting for the session of the killed process.
kafka = { "group.instance.id" => "job", "session.timeout.ms" => 20_000, "enable.auto.commit" => true }
subscription = Pelton::Subscription.new(config, group_id: JOB[:group], max_messages: 20, kafka: kafka)

stop = false
trap(:TERM) do
  stop = true
  subscription.wake
end

# First abort the open transaction of the killed process, so that its offsets are not pending.
producer.init_transactions
subscription.subscribe([JOB[:input]])
until stop
  kind, what = subscription.poll
  case kind
  when :assigned then STEPS.write("a")
  when :revoked then subscription.revoked(what)
  when :error then raise what
  when :batch
    producer.transaction do |tx|
      STEPS.write("b")
      what.each_with_index do |message, index|
        delivery = tx.produce_async(topic: JOB[:output], partition: message.partition, payload: message.raw_payload)
        next unless index == 10

        delivery.wait(timeout: 60)
        STEPS.write("h") # the step is done
      end
      STEPS.write("p")
      tx.mark_as_consumed(what, subscription)
      STEPS.write("m")
    end
    STEPS.write("c")
    what.release
  end
end
subscription.close(10)
producer.close(timeout: 10)
