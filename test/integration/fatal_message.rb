# frozen_string_literal: true

# once: the end is the kernel's, whatever the Ruby

require "support/scenario"

# A message kills each process that gets it, as one does that needs more memory than its container has. The kill -9
# leaves no failure, so retries do not end it: each process begins at attempt 1. The last line on stderr names the
# message. A consumer that sends it to the dead letters before the work gets past it.

FATAL = <<~RUBY
  require "pelton"

  class FatalConsumer < Pelton::Consumer
    def process(message)
      warn "begins \#{message.topic}/\#{message.partition} offset \#{message.offset}, \#{message.size} bytes, attempt \#{attempt}"
      return dispatch_to_dead_letters(message, reason: "too large") if message.size > ENV["PELTON_LARGEST"].to_i

      Process.kill(:KILL, Process.pid) if message.raw_payload.start_with?("fatal")
    end
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "session.timeout.ms" => 6000,
                     "heartbeat.interval.ms" => 300 }
    config.group_id = ENV["PELTON_GROUP"]
  end
  Pelton.routes { topic(ENV["PELTON_IN"], to: FatalConsumer) { dead_letters ENV["PELTON_DEAD"], retries: 1 } }
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-fatal")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(file = File.join(folder, "app.rb"), FATAL)
  name = topic
  dead = topic
  group = unique("fatal")
  texts = ["fine", "fatal#{"x" * 5000}", "fine", "fine"]
  app.producer.produce_many_sync(texts.map { |text| { topic: name, payload: text, partition: 0 } })
  serve = lambda do |largest|
    pelton("server", "-r", file, env: { "PELTON_IN" => name, "PELTON_DEAD" => dead, "PELTON_GROUP" => group,
                                        "PELTON_LARGEST" => largest.to_s })
  end

  # --- each process ends at the message, at attempt 1; there are more of them than attempts ---
  3.times do |number|
    server = serve.call(1_000_000)
    equal(137, exit_code(server, 60), "server #{number}\n#{server.output}")
    equal("begins #{name}/0 offset 1, 5005 bytes, attempt 1", server.output.scan(/^begins .*/).last, "its last line")
  end
  check(committed(group, name, 1).first.to_i <= 1, "the message or what follows it is committed")

  # --- as a dead letter, it lets the others pass ---
  server = serve.call(1000)
  eventually(60, -> { "all are committed\n#{server.output}" }) { committed(group, name, 1) == [4] }
  letter = read(dead, 1, 1).first[1]
  equal([1, "too large"], [letter.origin.offset, letter.origin.error_message], "the letter")
  server.kill(:TERM)
  equal(0, exit_code(server, 60), "the end\n#{server.output}")
end
