# frozen_string_literal: true

require "support/scenario"

# `pelton server` is quieted (TSTP) and goes on (CONT): nothing is begun meanwhile, partitions stay, nothing is lost.

APP = <<~RUBY
  require "pelton"

  class QuietConsumer < Pelton::Consumer
    def consume
      puts "begin \#{messages.first_offset}"
      $stdout.flush
      IO.select(nil, nil, nil, 0.05) until File.exist?(ENV["PELTON_GATE"])
      messages.each { |message| puts "done \#{message.offset}" }
    end
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "session.timeout.ms" => 6000,
                     "heartbeat.interval.ms" => 300 }
    config.group_id = ENV["PELTON_GROUP"]
    config.max_messages = 5
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: QuietConsumer }
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-quiet")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(file = File.join(folder, "app.rb"), APP)
  name = topic
  group = unique("group")
  send = lambda do |range|
    app.producer.produce_many_sync(range.map { |number| { topic: name, payload: number.to_s } })
  end
  send.(0...20)

  gate = File.join(folder, "gate") # jobs end once it is there
  server = pelton("server", "-r", file, env: { "PELTON_GROUP" => group, "PELTON_IN" => name, "PELTON_GATE" => gate })
  eventually(30, -> { "a job\n#{server.output}" }) { server.code || server.output.include?("begin ") }
  server.kill(:TSTP)
  eventually(20, -> { "the order\n#{server.output}" }) { server.code || server.output.include?("quieting") }
  File.write(gate, "")
  eventually(20, -> { "quiet\n#{server.output}" }) { server.code || server.output.include?("quiet: no job runs") }
  begun = server.output.scan(/^begin/).size
  finished = server.output.scan(/^done (\d+)/).flatten.map(&:to_i)
  equal(begun * 5, finished.size, "what ran is finished")
  check(finished.size < 20, "quiet came too late to show anything")

  # Longer than the session timeout: it stays in its group, and what comes waits.
  send.(20...30)
  work(7)
  equal(begun, server.output.scan(/^begin/).size, "jobs that began while quiet")
  check(!server.output.match?(/revoked|lost|error|ERROR/), "nothing was taken from it: #{server.output}")
  eventually(20, "the commit of what was done before") { committed(group, name, 1) == [finished.size] }

  server.kill(:CONT)
  all = (0...30).to_a
  done = -> { server.output.scan(/^done (\d+)/).flatten.map(&:to_i) }
  eventually(30, -> { "all messages\n#{server.output}" }) { server.code || done.call.size >= 30 }
  equal(all, done.call, "each message once, in order")

  # Quiet, then the end: the usual way of a deploy.
  server.kill(:TSTP)
  eventually(20, "quiet again") { server.output.scan("quiet: no job runs").size == 2 }
  send.(30...35)
  server.kill(:TERM)
  equal(0, exit_code(server), "exit code\n#{server.output}")
  equal(all, done.call, "nothing was begun after the second quiet")
  equal([30], committed(group, name, 1), "committed at the end")
end
