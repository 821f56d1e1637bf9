# frozen_string_literal: true

# once: the wait is Kafka's, whatever the Ruby

require "support/scenario"

# A server starts after kill -9 of the only other member. Kafka gives it no partition until the session timeout of the
# dead one is over. The log was silent meanwhile.

KILLED = <<~RUBY
  require "pelton"

  class KilledConsumer < Pelton::Consumer
    def consume = nil
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "session.timeout.ms" => 30_000 }
    config.group_id = ENV["PELTON_GROUP"]
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: KilledConsumer }
  $stdout.sync = true
  Pelton.subscribe("rebalance.finished") { |event| puts "joined, has \#{event[:partitions]}" }
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-killed")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(file = File.join(folder, "app.rb"), KILLED)
  environment = { "PELTON_IN" => topic, "PELTON_GROUP" => group = unique("killed") }
  waiting = /#{group} has no partitions after 10 s: Kafka waits for a member that was killed/
  assigned = /assigned #{group} /
  serve = -> { pelton("server", "-r", file, env: environment) }
  said = ->(server, text) { eventually(60, -> { "#{text}\n#{server.output}" }) { server.output.match?(text) } }

  first = serve.call
  said.call(first, assigned)
  first.kill(:KILL)
  equal(137, exit_code(first), "the end of the killed server")

  second = serve.call
  said.call(second, waiting)
  check(!second.output.match?(assigned), "it got its partitions without a wait\n#{second.output}")
  said.call(second, assigned)

  # Two members, one partition: the other one gets an answer, which ends its wait.
  servers = [second, serve.call]
  idle = /joined, has 0$/
  eventually(60, -> { servers.map(&:output).join("\n") }) { servers.any? { |server| server.output.match?(idle) } }
  servers.each do |server|
    server.kill(:TERM)
    equal(0, exit_code(server), "the end\n#{server.output}")
  end
end
