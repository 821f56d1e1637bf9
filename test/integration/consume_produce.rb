# frozen_string_literal: true

# once: the text is the same on every Ruby

require "json"
require "open3"
require "pty"
require "time"
require "support/registry_double"
require "support/scenario"

# `pelton consume` and `pelton produce` as programs in pipes: copies of topics, a hundred thousand lines, Ctrl-C in the
# middle, a reader that ends early, a terminal.

PELTON = [*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton"].freeze
ALL = %w[--from beginning --until end].freeze

Scenario.run do
  environment = { "PELTON_BOOTSTRAP" => bootstrap }
  # [exit code, stdout, stderr]
  call = lambda do |*arguments, input: ""|
    out, err, status = Open3.capture3(environment, *PELTON, *arguments, stdin_data: input, binmode: true)
    [status.exitstatus, out.force_encoding("UTF-8"), err.force_encoding("UTF-8")]
  end
  script = app
  content = lambda do |topic|
    script.each(topic).map do |message|
      [message.partition, message.offset, message.timestamp_ms, message.raw_key, message.raw_payload,
       message.raw_headers]
    end.sort
  end

  # --- a copy, byte by byte ----------------------------------------------------------------------------------------
  name = topic(partitions: 3)
  base = (Time.now.to_i - 3600) * 1000
  kinds = [{ payload: '{ "a" : 1.0 }', headers: { "h" => "1", "many" => ["a", nil, "\xfe".b], "none" => nil } },
           { payload: nil }, { payload: "\xff\x00\e".b, key: "\xfe".b }, { payload: "" }, { payload: '{"b":[null]}' },
           { payload: "null" }, { payload: "two\nlines\u2028" }, { payload: "12" }]
  rows = Array.new(600) do |number|
    { topic: name, partition: number % 3, timestamp: base + number, key: "k#{number}", **kinds[number % kinds.size] }
  end
  script.producer.produce_many_sync(rows)
  copy = topic(partitions: 3)
  consumer = [environment, *PELTON, "consume", name, *ALL]
  statuses = Open3.pipeline(consumer, [environment, *PELTON, "produce", copy, "--json-lines"], err: File::NULL)
  equal([0, 0], statuses.map(&:exitstatus), "exit codes of the copy")
  equal(content.(name), content.(copy), "the copy")
  equal(600, content.(copy).size, "messages of the copy")

  # --- times, and the offsets that follow --------------------------------------------------------------------------
  at = ->(number) { Time.at(0, base + number, :millisecond).utc.iso8601(3) }
  _, out, = call.("consume", name, "--from", at.(100), "--until", at.(200))
  equal((100...200).map(&at), out.lines.map { |line| JSON.parse(line)["timestamp"] }.sort, "messages between two times")

  # --- a topic that does not exist is not created ------------------------------------------------------------------
  missing = unique("missing")
  code, _, err = call.("produce", missing, input: "x\n")
  equal([1, true], [code, err.include?("topic = \"#{missing}\": does not exist: check the name")], "a missing topic")
  equal(false, script.admin.topics.key?(missing), "the topic exists now")
  [["consume", "--until", "end"], ["produce"]].each do |command, *options|
    code, _, err = call.(command, "#{name}x", *options)
    equal([1, "pelton: topic = \"#{name}x\": does not exist, did you mean #{name}?\n"], [code, err], command)
  end

  # --- a hundred thousand lines, in order --------------------------------------------------------------------------
  many = topic
  count = 100_000
  code, _, err = call.("produce", many, input: (0...count).map { |number| "#{number}\n" }.join)
  equal([0, true], [code, err.include?("#{count} of #{count} lines delivered, 0 failed")], "many lines: #{err}")
  code, out, = call.("consume", many, *ALL, "--payload-only")
  equal([0, (0...count).map(&:to_s)], [code, out.lines(chomp: true)], "all of them in order")
  code, out, = call.("consume", many, *ALL, "--where", "where.key.exists.not", "--count", "7")
  equal([0, 7], [code, out.lines.size], "the first seven")

  # --- progress on a terminal, while results go elsewhere -----------------------------------------------------------
  lines = Tempfile.new("lines")
  lines.write("x" * 80, "\n") while lines.pos < 8_000_000
  lines.flush
  [["consume", many, *ALL, { out: File::NULL }], ["produce", topic, { in: lines.path }]].each do |*command, streams|
    PTY.open do |terminal, screen|
      pid = spawn(environment, *PELTON, *command, **streams, err: screen)
      screen.close
      shown = +""
      begin
        loop { shown << terminal.readpartial(4096) }
      rescue Errno::EIO
        Process.wait(pid)
      end
      bar = %r{\[#*\.*\]  [\d,]+ of [\d,]+ \(\d+%\)  [\d,]+/s  \S+ \S+ left}
      check(shown.match?(bar), "progress of #{command.first}: #{shown[-500..].inspect}")
      ending = /consumed: 100,000 in|sent: 98,766 of 98,766 \(100%\) in/
      check(shown.match?(ending), "the end of #{command.first}: #{shown[-500..].inspect}")
    end
  end

  # --- the reader of a pipe ends early -----------------------------------------------------------------------------
  reader, writer = IO.pipe
  errors = Tempfile.new("errors")
  statuses = Open3.pipeline_start([environment, *PELTON, "consume", many, "--from", "beginning", "-q"],
                                  %w[head -n 3], out: writer, err: errors.path) do |threads|
    writer.close
    equal(3, reader.read.lines.size, "lines of head")
    threads.map { |thread| thread.value.exitstatus }
  end
  equal([[0, 0], ""], [statuses, File.read(errors.path)], "the end of a pipe is quiet")

  # --- Ctrl-C while lines are sent ---------------------------------------------------------------------------------
  part = topic
  stdin, stdout, process = Open3.popen2e(environment, *PELTON, "produce", part, "--rate", "50")
  stdin.write((1..5000).map { |number| "#{number}\n" }.join)
  eventually(30, "some messages") { script.each(part).count > 20 }
  Process.kill(:INT, process.pid)
  output = stdout.read
  equal(130, process.value.exitstatus, "exit code after Ctrl-C\n#{output}")
  sent = output[/stopped after line (\d+)/, 1].to_i
  check(sent.between?(20, 4999), "stopped in the middle: #{output}")
  check(output.include?("#{sent} of #{sent} lines delivered, 0 failed"), "delivered what was sent: #{output}")
  equal((1..sent).map(&:to_s), script.each(part).map(&:raw_payload), "what is in Kafka after Ctrl-C")
  stdin.close

  # --- Ctrl-C while it waits for input -----------------------------------------------------------------------------
  stdin, stdout, process = Open3.popen2e(environment, *PELTON, "produce", part)
  stdin.write("typed\nnot ended")
  eventually(30, "the line that was typed") { script.each(part).count == sent + 1 }
  Process.kill(:INT, process.pid)
  output = stdout.read
  equal([130, true], [process.value.exitstatus, output.include?("1 of 1 lines delivered")], "while it waits: #{output}")
  stdin.close

  # --- a topic that is followed, and Ctrl-C ------------------------------------------------------------------------
  _, stdout, stderr, process = Open3.popen3(environment, *PELTON, "consume", part, "--from", "end")
  waiting = stderr.gets
  check(waiting.include?("waiting for new messages"), "it says that it waits: #{waiting}")
  eventually(60, "a message of a followed topic") do
    script.producer.produce_sync(topic: part, payload: "new", key: "n")
    stdout.wait_readable(0.2)
  end
  row = JSON.parse(stdout.gets)
  equal([part, 0, "n", "new"], row.values_at("topic", "partition", "key", "payload"), "at once, also in a pipe")
  Process.kill(:INT, process.pid)
  stdout.read
  output = stderr.read
  equal(130, process.value.exitstatus, "exit code of consume after Ctrl-C\n#{output}")
  check(output.match?(%r{stopped before #{part}/0 offset \d+}), "it says where: #{output}")
  equal([], script.admin.groups.keys.grep(/pelton/), "groups")

  # --- a partition that is added while a topic is followed ---------------------------------------------------------
  grown = topic
  followed = [environment, *PELTON, "consume", grown, "--count", "1", "-X", "topic.metadata.refresh.interval.ms=300"]
  _, stdout, stderr, process = Open3.popen3(*followed)
  check(stderr.gets.include?("waiting for new messages"), "it waits")
  partitions(grown, 2)
  script.producer.produce_sync(topic: grown, payload: "in the new one", partition: 1)
  equal(["in the new one", 1], JSON.parse(stdout.read).values_at("payload", "partition"), "an added partition")
  equal(0, process.value.exitstatus, "exit code beside an added partition\n#{stderr.read}")

  # --- keys in Avro, as the route reads them ------------------------------------------------------------------------
  keyed = topic
  registry = RegistryDouble.new
  registry.add("#{keyed}-key", '{"type":"record","name":"Key","fields":[{"name":"id","type":"int"}]}')
  routes = Tempfile.new(["app", ".rb"])
  routes.write(<<~RUBY)
    class Keyed < Pelton::Consumer
      def process(_message) = nil
    end
    Pelton.configure { |config| config.group_id = "keyed" }
    Pelton.routes { topic("#{keyed}", to: Keyed) { key_deserializer :avro, registry: "#{registry.url}" } }
  RUBY
  routes.flush
  keys = [6, 7].map { |id| JSON.generate(id: id) }
  keys.each do |key|
    code, _, err = call.("produce", keyed, "-r", routes.path, "--key", key, input: "{}\n")
    equal([0, true], [code, err.include?("1 of 1 lines delivered")], "a key in Avro: #{err}")
  end
  equal([6, 7].map { |id| [0, 1, id << 1].pack("CNC") }, script.each(keyed).map { |message| message.raw_key.b }, "keys")
  code, out, err = call.("consume", keyed, *ALL, "-r", routes.path, "--key", keys.last)
  equal([0, [[1, { "id" => 7 }]]], [code, out.lines.map { |line| JSON.parse(line).values_at("offset", "key") }],
        "the key that was asked for: #{err}")
  code, _, err = call.("produce", keyed, "-r", routes.path, "--key", "7", input: "{}\n")
  equal([1, true], [code, err.include?("line 1: key: the value does not fit")], "a key that the route cannot read")
  registry.close

  # --- a terminal --------------------------------------------------------------------------------------------------
  evil = topic
  script.producer.produce_sync(topic: evil, payload: "{\"a\":\"\\u001b[2J\"}", key: "\e]0;x\a",
                               headers: { "h" => "\e" })
  script.producer.produce_sync(topic: evil, payload: "\e[2J\x9b".b)
  screen = +""
  PTY.spawn(environment, *PELTON, "consume", evil, *ALL) do |terminal, _, pid|
    loop { screen << terminal.readpartial(4096) }
  rescue Errno::EIO, EOFError
    Process.wait(pid)
  end
  check(screen.include?("\e[1m#{evil}/0 offset 0\e[0m"), "color on a terminal: #{screen.inspect}")
  equal(["\e[0m", "\e[1m", "\e[2m", "\e[32m", "\e[33m"], screen.scan(/\e[^m]*m?/).uniq.sort - ["\e[K"],
        "escape sequences")
  check(screen.include?('\e[2J\x9B'), "what was escaped: #{screen.inspect}")
end
