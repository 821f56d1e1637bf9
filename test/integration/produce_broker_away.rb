# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "open3"
require "support/scenario"

# `pelton produce` while the broker is away: it says so, waits while its queue is full, and loses no line.

PELTON = [*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton"].freeze

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  name = topic
  start = lambda do |*options|
    Open3.popen3({ "PELTON_BOOTSTRAP" => bootstrap }, *PELTON, "produce", name, *options)
  end
  payloads = -> { app.each(name).map(&:raw_payload) }

  # A queue for 20 messages is full soon, and the other lines wait for it.
  stdin, _, stderr, process = start.("-X", "queue.buffering.max.messages=20")
  stdin.puts("0")
  eventually(30, "the first line") { payloads.().size == 1 }
  broker.kill(:KILL)
  stdin.write((1..500).map { |number| "#{number}\n" }.join)
  stdin.close
  said = +""
  said << stderr.readpartial(4096) until said.match?(/pelton: .*(Connection refused|Disconnected|brokers are down)/i)
  check(process.alive?, "it waits for the broker: #{said}")
  broker.restart
  said << stderr.read
  equal(0, process.value.exitstatus, "exit code when the broker is back\n#{said}")
  check(said.include?("501 of 501 lines delivered, 0 failed"), "all lines: #{said}")
  equal((0..500).map(&:to_s), payloads.(), "all lines in order, each once")

  # Ctrl-C while the queue is full: the lines that the queue did not take are not sent, and not counted.
  reader, stdin = IO.pipe
  stderr, writer = IO.pipe
  full = ["-X", "queue.buffering.max.messages=20", "-X", "message.timeout.ms=15000"]
  process = Process.detach(spawn({ "PELTON_BOOTSTRAP" => bootstrap }, *PELTON, "produce", name, *full,
                                 in: reader, err: writer))
  writer.close
  stdin.puts("first")
  eventually(30, "the line before the broker goes away") { payloads.().size == 502 }
  broker.kill(:KILL)
  # It reads the second half when the queue has taken the first.
  2.times do
    stdin.write("more\n" * 20)
    eventually(30, "the lines are read") { reader.wait_readable(0).nil? }
  end
  said = +""
  said << stderr.readpartial(4096) until said.match?(/Connection refused|Disconnected|brokers are down/i)
  Process.kill(:INT, process.pid)
  said << stderr.read
  equal(1, process.value.exitstatus, "lines failed, so the exit code is 1\n#{said}")
  check(said.include?("stopped after line 21"), "it stopped at the full queue: #{said}")
  check(said.include?("1 of 21 lines delivered, 20 failed"), "each line is counted once: #{said}")
  broker.restart

  # The second Ctrl-C does not wait.
  stdin, _, stderr, process = start.()
  stdin.puts("one more")
  eventually(30, "the line that ends the scenario") { payloads.().last == "one more" }
  broker.kill(:KILL)
  stdin.puts("lost")
  said = +""
  said << stderr.readpartial(4096) until said.match?(/Connection refused|Disconnected|brokers are down/i)
  Process.kill(:INT, process.pid)
  said << stderr.readpartial(4096) until said.include?("Ctrl-C again ends it")
  Process.kill(:INT, process.pid)
  equal(130, process.value.exitstatus, "exit code after the second Ctrl-C")
  broker.stop
end
