# frozen_string_literal: true

# A producer that bin/chaos hurts. PELTON_CHAOS is JSON: {"bootstrap", "topic", "partitions", "folder", "pause": in
# seconds}. Each process has its own keys, whose messages it numbers from 0. It records the confirmed ones.

require "json"
require "pelton"
require "support/lines"

CHAOS = JSON.parse(ENV.fetch("PELTON_CHAOS"))
KEYS = 5 # of each partition
ACKED = Lines.new(File.join(CHAOS.fetch("folder"), "acked"))

stop = false
trap(:TERM) { stop = true }
$stdout.sync = true
puts "running"

Pelton.configure do |config|
  config.kafka = { "bootstrap.servers" => CHAOS.fetch("bootstrap"), "enable.idempotence" => true }
end
numbers = Hash.new(-1) # {key => its last message's}
CHAOS.fetch("partitions").times.cycle do |partition|
  break if stop

  rows = Array.new(10) do |index|
    key = "#{Process.pid}-#{partition}-#{index % KEYS}"
    { topic: CHAOS.fetch("topic"), partition: partition, key: key, payload: (numbers[key] += 1).to_s }
  end
  Pelton.producer.produce_many_sync(rows, timeout: 240)
  rows.each { |row| ACKED << [row[:key], Integer(row[:payload])] }
  IO.select(nil, nil, nil, CHAOS.fetch("pause"))
end
exit Pelton.close.zero? ? 0 : 1
