# frozen_string_literal: true

require "support/scenario"

# `pelton server` and the signals it gets: what it finishes, what it says, how it exits.

# What the server loads. PELTON_MODE says what its consumer does.
APP = <<~RUBY
  require "pelton"

  class SignalConsumer < Pelton::Consumer
    def consume
      puts "job \#{messages.first_offset}..\#{messages.last_offset}"
      $stdout.flush
      return Thread::Queue.new.pop if ENV["PELTON_MODE"] == "forever"

      # Of what is produced here nothing goes out before librdkafka's linger ends, unless somebody flushes.
      messages.each { |message| producer.produce_async(topic: ENV["PELTON_OUT"], payload: message.raw_payload) }
      IO.select(nil, nil, nil, 0.5)
      puts "done \#{messages.last_offset}"
    end

    def shutdown = puts("shutdown of \#{partition}")
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"], "linger.ms" => 60_000,
                     "session.timeout.ms" => 300_000 }
    config.group_id = ENV["PELTON_GROUP"]
    config.concurrency = 2
    config.max_messages = 5
    if ENV["PELTON_MODE"] == "forever"
      config.shutdown_timeout = Integer(ENV["PELTON_DEADLINE"])
      config.flush_timeout = 1
    end
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: SignalConsumer }
RUBY

MESSAGES = 1000

# Starts the server on a topic with messages, and waits until a job runs.
module Served
  # deadline: of a stop, in seconds, where the consumer goes on forever.
  def serve(mode, deadline = 0)
    @group = unique("group")
    @out = topic(name: unique("out"))
    @in ||= topic(name: unique("in")).tap { |name| fill(name) }
    environment = { "PELTON_MODE" => mode, "PELTON_GROUP" => @group, "PELTON_IN" => @in, "PELTON_OUT" => @out,
                    "PELTON_DEADLINE" => deadline.to_s }
    server = pelton("server", "-r", @file, env: environment)
    eventually(20, "a job\n#{server.output}") { server.code || server.output.include?("job ") }
    server
  end

  # Much more than a server does before its signal comes, however busy the machine is.
  def fill(name)
    app.producer.produce_many_sync(Array.new(MESSAGES) { |number| { topic: name, payload: number.to_s } })
  end

  def boot(text, *arguments)
    file = File.join(@folder, "boot#{@boots = @boots.to_i + 1}.rb")
    File.write(file, text)
    server = pelton("server", "-r", file, *arguments)
    [exit_code(server), server.output]
  end
end

Scenario.run do
  extend Served

  @folder = Dir.mktmpdir("pelton-signals")
  at_exit { FileUtils.rm_rf(@folder) }
  File.write(@file = File.join(@folder, "app.rb"), APP)

  %w[TERM INT QUIT].each do |signal|
    server = serve("ordinary")
    server.kill(signal)
    equal(0, exit_code(server), "exit code after #{signal}\n#{server.output}")
    text = server.output
    started = text.scan(/^job \d+\.\.(\d+)/).flatten.map(&:to_i)
    equal(started, text.scan(/^done (\d+)/).flatten.map(&:to_i), "jobs finished after #{signal}")
    check(started.max < MESSAGES - 1, "#{signal}: everything was done before the signal came")
    equal(1, text.scan("shutdown of 0").size, "shutdown after #{signal}")
    check(text.include?("stopping (SIG#{signal})") && text.include?("nothing left undone"),
          "the log tells of #{signal}: #{text}")
    equal([started.max + 1], committed(@group, @in, 1), "what is committed after #{signal}")
    check(text.include?("runs with a larger Ruby heap (turn off: --no-tune)"),
          "the log tells of the larger heap: #{text}")
    out = read(@out, 1, started.max + 1).map { |_, message| message.raw_payload.to_i }
    equal((0..started.max).to_a, out, "what consume produced is there after #{signal}")

    # It left its group: the next member need not wait for the session timeout (300 s).
    name = @in
    next_one = app(group: @group) { topic(name, to: Class.new(Pelton::Consumer) { def consume; end }) }
    next_one.start
    eventually(20, "the partition of the next member") { events(next_one, "partition.assigned").any? }
    next_one.stop
  end

  server = serve("forever", 300)
  server.kill(:TERM)
  eventually(5, "the stop") { server.output.include?("stopping (SIGTERM)") }
  server.kill(:INT)
  equal(2, exit_code(server), "exit code after a second signal\n#{server.output}")
  check(server.output.match?(/^pelton: ended by force/), "it says that it was forced: #{server.output}")
  lost = %r{^pelton: left undone: #{@in}/0: consume runs for [\d.]+ s, 5 of 5 messages not finished}
  check(server.output.match?(lost),
        "it says what was lost: #{server.output}")
  equal([nil], committed(@group, @in, 1), "what is committed after a forced stop")

  server = serve("forever", 2)
  took = seconds do
    server.kill(:TERM)
    equal(2, exit_code(server), "exit code at the deadline\n#{server.output}")
  end
  check(took >= 1, "the deadline of 2 s, half of it the flush's, took #{took} s")
  check(server.output.match?(/^pelton: left undone: #{@in}/), "it says what was lost: #{server.output}")
  equal([nil], committed(@group, @in, 1), "what is committed at the deadline")

  code, text = boot("Pelton.configure { |config| config.concurency = 7 }")
  equal(1, code, "an unknown setting")
  check(text.match?(/^pelton: cannot start: concurency: unknown setting, did you mean concurrency\? \(.+:1\)$/), text)
  code, text = boot("Pelton.configure { |config| config.concurrency = -7 }")
  equal(1, code, "a value that is not allowed")
  check(text.match?(/^pelton: cannot start: concurrency = -7: expected an Integer, 1 to 1000 \(.+:1\)$/), text)
  servers = "{ 'bootstrap.servers' => 'localhost:9092',"
  routes = 'Pelton.routes { group("g") { topic "orders", to: Class.new(Pelton::Consumer) { def consume; end } } }'
  code, text = boot("Pelton.configure { |config| config.kafka = #{servers} 'fetch.min.bites' => 7 } }\n#{routes}")
  equal(1, code, "an unknown option of librdkafka")
  check(text.match?(/^pelton: cannot start: .*fetch\.min\.bites/), text)
  code, text = boot("Pelton.configure { |config| config.kafka = #{servers} 'fetch.min.bytes' => 'many' } }\n#{routes}")
  equal(1, code, "a value that librdkafka does not allow")
  check(text.match?(/^pelton: cannot start: .*fetch\.min\.bytes.*many/), text)
  code, text = boot("nil")
  equal(1, code, "no routes")
  check(text.match?(/^pelton: cannot start: routes: are empty/), text)
  code, text = boot(routes, "--include-groups", "gg")
  equal(1, code, "an unknown group")
  check(text.match?(/^pelton: cannot start: gg: unknown group/), text)
  code, text = boot("raise 'the database is away'")
  equal(1, code, "a file that raises")
  check(text.match?(/^pelton: cannot start: the database is away \(RuntimeError, .*boot\d+\.rb:1/), text)
  own = "Pelton.configure { |config| config.kafka = { 'bootstrap.servers' => #{bootstrap.inspect} } }\n#{routes}"
  code, text = boot("Process.kill(:TERM, Process.pid)\n#{own}\nputs 'loaded'")
  equal(0, code, "a signal while the app loads\n#{text}")
  check(text.include?("loaded") && text.include?("stopping (SIGTERM)"), "it ends once the app is loaded: #{text}")
  missing = pelton("server", "-r", "/nowhere/app.rb")
  equal(1, exit_code(missing), "a missing file")
  check(missing.output.match?(%r{^pelton: cannot start: .*/nowhere/app}), missing.output)
  command = pelton("serve")
  equal(1, exit_code(command), "an unknown command")
  check(command.output.match?(/^pelton: serve: unknown command, did you mean server/), command.output)
end
