# frozen_string_literal: true

require "pelton"

# Schedules messages until it is killed: schedule_writer.rb SCHEDULE_TOPIC TOPIC NAME. Prints a line for each call that
# returned: "due PAYLOAD" for a message that must arrive once, "canceled PAYLOAD" for one that must not.

schedule, topic, name = ARGV
$stdout.sync = true
THREADS = 2

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => ENV.fetch("PELTON_BOOTSTRAP") }
  config.schedule_topic = schedule
end

later = ->(payload, seconds) { Pelton.producer.produce_later(topic: topic, payload: payload, in: seconds) }
changed = { 7 => ->(id) { Pelton.schedule.reschedule(id, in: 0) && "due" },
            13 => ->(id) { Pelton.schedule.cancel(id) && "canceled" } }

threads = Array.new(THREADS) do |index|
  Thread.new do
    (0..).each do |number|
      payload = "#{name}-#{index}-#{number}"
      change = changed[number % 50]
      id = later.(payload, change ? 3600 : rand(0.0..2.0))
      puts "#{change ? change.(id) : "due"} #{payload}\n"
      IO.select(nil, nil, nil, 0.02) # its other work
    end
  end
end
threads.each(&:join)
