# frozen_string_literal: true

# The client that bin/fuzz starts against a false broker: wire_client.rb PORT SECONDS. Produces, consumes, asks and
# stops. Ends with 0 and a line with the times, whatever the broker answers.

require "json"
require "pelton"

class WireConsumer < Pelton::Consumer
  def consume = messages.each(&:payload)
end

port, seconds = ARGV.map { |text| Float(text) }
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
errors = 0
app = Pelton::App.new
app.subscribe("error.occurred") { errors += 1 }
app.configure do |config|
  config.kafka = { "bootstrap.servers" => "127.0.0.1:#{port.to_i}", "reconnect.backoff.max.ms" => 200,
                   "auto.offset.reset" => "earliest", "heartbeat.interval.ms" => 200 }
  config.group_id = "wire-#{Process.pid}"
  config.flush_timeout = 1
  config.shutdown_timeout = 3
end
app.routes { topic("wire", to: WireConsumer) { decode :json } }
try = lambda do |&block|
  block.call
rescue Pelton::Error => e
  e.class
end
# {what => seconds}
took = {}
timed = lambda do |name, &block|
  began = now.()
  try.(&block)
  took[name] = (now.() - began).round(1)
end
timed.("produce") { app.producer.produce_sync(topic: "wire", key: "k", payload: "{}", timeout: seconds) }
app.start
timed.("admin") { app.admin.topics(timeout: seconds) }
until_then = now.() + seconds
IO.select(nil, nil, nil, 0.05) while now.() < until_then
timed.("stop") { app.stop }
timed.("close") { app.close(timeout: 2) }
megabytes = File.read("/proc/self/status")[/VmHWM:\s+(\d+)/, 1].to_i / 1024
puts JSON.generate({ errors: errors, megabytes: megabytes, **took })
