# frozen_string_literal: true

# once: commands for developers, on the first Ruby
# time limit: 1800

require "json"
require "open3"
require "support/scenario"

# bin/demo, bin/broker and bin/bench as somebody types them, wrongly too: an exit code and a line that says why.

def command(*words, env: {})
  output, status = Open3.capture2e({ "RUBY" => RbConfig.ruby, **env }, *words, chdir: Scenario::ROOT)
  [status.exitstatus, output]
end

def refused(pattern, *words, code: 1, env: {})
  status, output = command(*words, env: env)
  said = [output.match?(pattern), output.include?("\tfrom ")]
  equal([code, true, false], [status, *said], "#{words.join(" ")}: #{output}")
end

Scenario.run do
  port = bootstrap[/\d+\z/]

  refused(/demo: invalid option: --nope/, "bin/demo", "--nope")
  refused(/demo: .*--count 3: at least 500/, "bin/demo", "--count", "3")
  refused(/demo: No such file/, "bin/demo", "--input", "/nope")
  code, output = command("bin/demo", "--count", "2000", "--bootstrap", bootstrap)
  equal([0, true], [code, output.match?(/every message seen +yes/)], "the demo on a broker: #{output}")
  # As the README has it: 200,000 messages through the embedded cluster, which is in the same process.
  # How much garbage waits depends on what else runs: one of three must do with this.
  seen = []
  enough = 3.times.any? do
    code, output = command("bin/demo")
    equal([0, true], [code, output.match?(/every message seen +yes/)], "the demo of the README: #{output}")
    (seen << output[/^memory +(\d+) MB/, 1].to_i).last.between?(1, 219)
  end
  equal(true, enough, "the demo of the README takes #{seen} MB")
  # Deleted is what the controller says; the broker's metadata follows.
  eventually(20, "the end of the demo's topic") { app.admin.topics.keys.grep(/demo/).empty? }

  refused(%r{bin/broker start}, "bin/broker", "dance", code: 2)
  refused(/a name is missing/, "bin/broker", "topic")
  refused(/invalid argument: --port x/, "bin/broker", "start", "--port", "x")
  refused(/a command is missing/, "bin/broker", "run")
  refused(/does not serve/, "bin/broker", "status", "--port", "1", code: 3)
  code, output = command("bin/broker", "status", "--port", port)
  equal([0, true], [code, output.include?(bootstrap)], "status of the broker that there is: #{output}")
  name = unique("made")
  equal([0, ""], command("bin/broker", "topic", "--port", port, name, "3"), "topic")
  eventually(20, "its partitions") { app.admin.topics[name]&.partitions&.size == 3 }

  # Another one: its address in the environment, its end with the command's, and nothing stays behind.
  script = 'puts ENV.fetch("PELTON_BOOTSTRAP"); exit 7'
  code, output = command("bin/broker", "run", "--", RbConfig.ruby, "-e", script)
  equal([7, true], [code, output.match?(/\A127\.0\.0\.1:\d+\n\z/)], "run: #{output}")
  refused(/does not serve/, "bin/broker", "status", "--port", output[/\d+$/], code: 3)

  # One that stays until it is stopped, or this process has ended.
  own = TestBroker.free_port.to_s
  code, output = command("bin/broker", "start", "--port", own, "--with-pid", Process.pid.to_s)
  equal([0, "127.0.0.1:#{own}\n"], [code, output], "start")
  # As Kafka by default, so that a session.timeout.ms that works on it works elsewhere, too.
  works = consumer { messages }
  equal(0, command("bin/broker", "topic", "--port", own, "orders").first, "topic of one that was started")
  short = app(group: unique("group"), kafka: { "bootstrap.servers" => "127.0.0.1:#{own}", "session.timeout.ms" => 5999,
                                               "heartbeat.interval.ms" => 1000 }) { topic("orders", to: works) }
  short.start
  eventually(30, "the refusal of a session.timeout.ms of 5.999 s") do
    events(short, "error.occurred").any? { |event| event[:error].message.include?("INVALID_SESSION_TIMEOUT") }
  end
  short.stop
  refused(/port #{own} is in use by a broker of ours/, "bin/broker", "start", "--port", own)
  equal(0, command("bin/broker", "status", "--port", own).first, "status of one that was started")
  equal([0, ""], command("bin/broker", "stop", "--port", own), "stop")
  refused(/does not serve/, "bin/broker", "status", "--port", own, code: 3)
  equal([0, ""], command("bin/broker", "stop", "--port", own), "stop of what does not run")
  check(!File.exist?(TestBroker.folder(own)), "its data is gone")

  # Without --port; in a folder where no other brokers are.
  Dir.mktmpdir("pelton-tools") do |folder|
    alone = { "TMPDIR" => folder }
    equal([3, "does not serve\n"], command("bin/broker", "status", env: alone), "status without a broker")
    equal([1, "bin/broker: no broker is running: bin/broker start\n"], command("bin/broker", "topic", "a", env: alone),
          "topic without a broker")
    first, second = Array.new(2) do |number|
      port = TestBroker.free_port.to_s
      started = command("bin/broker", "start", "--port", port, "--with-pid", Process.pid.to_s, env: alone)
      equal(0, started.first, "start")
      code, output = command("bin/broker", "status", env: alone)
      equal([0, number + 1, true], [code, output.lines.size, output.include?(":#{port} ")], "status: #{output}")
      made = command("bin/broker", "topic", "made", "3", env: alone)
      equal(number, made.first, "topic with #{number + 1} brokers: #{made.last}")
      port
    end
    eventually(20, "the topic on #{first}") do
      Pelton::Native.metadata({ "bootstrap.servers" => "127.0.0.1:#{first}" }, "made", 15).dig(:topics, "made") == 3
    end
    ports = [first, second].sort_by(&:to_i).join(", ")
    refused(/running on the ports #{ports}: choose one with --port/, "bin/broker", "topic", "a", env: alone)
    equal([0, ""], command("bin/broker", "stop", "--all", env: alone), "stop --all")
  end

  code, output = command("bin/demo", "--kafka", "--count", "500")
  equal([0, true], [code, output.match?(/every message seen +yes/)], "the demo with a broker of its own: #{output}")
  refused(/invalid argument: nope \(there are: /, "bin/bench", "nope")
  refused(/--runs 0: at least 1/, "bin/bench", "--runs", "0")
  # One that needs no peer to be built.
  bench = %w[bin/bench overhead --json --embedded --runs 1 --no-build]
  output, status = Open3.capture2({ "RUBY" => RbConfig.ruby }, *bench, chdir: Scenario::ROOT)
  check(status.success?, "bin/bench: #{status}")
  lines = output.lines.map { |line| JSON.parse(line) }
  check(lines.size > 3, "measurements: #{output}")
  lines.each do |line|
    equal(%w[bench broker case ruby unit value], line.keys.sort, "its keys")
    equal(["overhead", "embedded", RUBY_VERSION], line.values_at("bench", "broker", "ruby"), "its values")
    check(line["value"].positive?, line.inspect)
  end
end
