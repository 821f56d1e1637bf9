# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/registry_double"
begin
  require "bigdecimal"
rescue LoadError
  nil # a gem from Ruby 3.4 on
end
require "pelton/cli/cli"
require "stringio"

# `pelton consume` and `pelton produce` in this process, on the embedded cluster.
class EmbeddedConsumeProduceTest < Minitest::Test
  include EmbeddedApp

  # [exit code, stdout, stderr]
  def pelton(*arguments, input: "", app: nil, out: StringIO.new, err: StringIO.new)
    input = StringIO.new(input) if input.is_a?(String)
    address = app ? [] : ["--bootstrap", @cluster.bootstrap_servers]
    cli = Pelton::CLI.new([*arguments, *address], app: app || Pelton::App.new, out: out, err: err, input: input,
                                                  env: {})
    [cli.run, (out.string.dup.force_encoding(Encoding::UTF_8) if out.is_a?(StringIO)), err.string]
  end

  # Sends a file and returns what stderr said.
  def send_lines(name, text, *options, code: 0)
    result, out, err = pelton("produce", name, *options, input: text)
    assert_equal [code, ""], [result, out], err
    err
  end

  # The lines that `consume` printed, parsed.
  def read(name, *options)
    code, out, err = pelton("consume", name, "--from", "beginning", "--until", "end", *options)
    assert_equal 0, code, err
    out.lines.map { |line| JSON.parse(line) }
  end

  def payloads(name, *options)
    read(name, *options).sort_by { |line| line["timestamp"] }.map { |line| line["payload"] }
  end

  def test_lines_are_sent_and_read_again
    name = topic(2)
    err = send_lines(name, "a\n\nb\r\n{\"n\":1}", "--partition", "1", "--header", "x=1", "--header", "x=2")
    assert_match(/4 of 4 lines delivered, 0 failed/, err)
    rows = read(name)
    assert_equal ["a", "", "b\r", { "n" => 1 }], rows.map { |row| row["payload"] }
    assert_equal [[name, 1, 0, nil, { "x" => %w[1 2] }]],
                 rows.first(1).map { |row| row.values_at("topic", "partition", "offset", "key", "headers") }
    assert_match(/0 of 0 lines delivered/, send_lines(name, ""))
  end

  def test_keys_and_tombstones_of_lines
    name = topic
    send_lines(name, "1:a\n2:-\n3:b:c\nd\n", "--key-separator", ":", "--null-value", "-", code: 1)
    assert_equal [["1", "a"], ["2", nil], ["3", "b:c"]], read(name).map { |row| row.values_at("key", "payload") }
    send_lines(name, "x\n", "--key", "k")
    assert_equal %w[k x], read(name).last.values_at("key", "payload")
  end

  def test_topic_is_copied_byte_by_byte
    name = topic(2)
    copy = topic(2)
    rows = [{ payload: '{ "a" : 1.0 }', key: "1", headers: { "h" => "1", "many" => ["a", nil, "\xfe".b] } },
            { payload: nil, key: "gone" }, { payload: "\xff\x00".b, key: "\xfe".b }, { payload: "" },
            { payload: "null", key: "" }, { payload: '"text"' }, { payload: "a\nb\e" }, { payload: "7" }]
    rows = rows.each_with_index.map do |row, index|
      { topic: name, partition: index % 2, timestamp: 1_700_000_000_000 + index, **row }
    end
    app.producer.produce_many_sync(rows)
    lines = pelton("consume", name, "--from", "beginning", "--until", "end")[1]
    assert_match(/8 of 8 lines delivered/, send_lines(copy, lines, "--json-lines"))
    content = lambda do |topic|
      app.each(topic).map do |message|
        [message.partition, message.offset, message.timestamp_ms, message.raw_key, message.raw_payload,
         message.raw_headers]
      end.sort
    end
    assert_equal content.(name), content.(copy)
    # With a partition of its own, and chosen by the key.
    assert_match(/8 of 8/, send_lines(copy, lines, "--json-lines", "--partition", "0"))
    assert_match(/8 of 8/, send_lines(copy, lines, "--json-lines", "--partition", "auto"))
  end

  def test_failed_lines_are_reported_with_number_and_reason
    name = topic
    text = "{\"payload\":1}\nnope\n{\"payload\":2,\"partition\":7}\n{\"payload\":3,\"timestamp\":0}\n{\"payload\":4}\n"
    err = send_lines(name, text, "--json-lines", code: 1)
    assert_match(/line 2: the line: is not valid JSON/, err)
    assert_match(/line 3: .*Unknown partition/, err)
    assert_match(/line 4: timestamp: 0 is not allowed/, err)
    assert_match(/2 of 5 lines delivered, 3 failed/, err)
    assert_equal [1, 4], payloads(name)
    code, out, = pelton("produce", name, "--json-lines", "--json", input: text)
    report = JSON.parse(out)
    assert_equal [1, 5, 2, 3], [code, *report.values_at("lines", "delivered", "failed")]
    assert_equal [2, 3, 4], report["failures"].map { |failure| failure["line"] }.sort
  end

  def test_only_the_first_failures_are_shown
    err = send_lines(topic, "x\n" * 150, "--format", "json", code: 1)
    assert_equal 100, err.scan(/line \d+: the line: is not valid JSON/).size
    assert_match(/50 more failures/, err)
    assert_match(/0 of 150 lines delivered, 150 failed/, err)
  end

  def test_wrong_options_are_refused
    { %w[produce t --rate 0] => %r{--rate = "0": expected a rate, such as 100/s},
      %w[produce t --rate 5/d] => %r{--rate = "5/d"},
      %w[produce t --header x] => /--header = "x": expected NAME=VALUE/,
      %w[produce t --partition -1] => /--partition = "-1": expected a number >= 0, or auto/,
      %w[produce] => /TOPIC: is missing/,
      %w[consume] => /TOPIC: is missing/,
      %w[consume t --from soon] => /--from = "soon": expected beginning, end, an offset/,
      %w[consume t --until -5] => /--until = "-5": expected end, an offset/,
      %w[consume t --from 99999999999999999999] => /--from = "99999999999999999999"/,
      %w[consume t --count 0] => /--count = 0: expected a number > 0/,
      %w[consume t --format xml] => /--format = "xml": expected json, avro/,
      %w[consume t --format avro] => /--format = "avro": needs --registry URL/,
      %w[consume t --format json --registry http://x] => /--registry: works only with --format avro/,
      ["consume", "t", "--where", "total > 5"] => /--where = "total > 5": column 6/ }.each do |arguments, message|
      code, out, err = pelton(*arguments)
      assert_equal [1, ""], [code, out], arguments
      assert_match message, err
    end
  end

  # Offsets 0 to 9, one second apart, payloads {"n":0} to {"n":9}, keys "0" and "1" in turn.
  def filled
    name = topic
    rows = Array.new(10) do |n|
      { topic: name, partition: 0, key: (n % 2).to_s, payload: "{\"n\":#{n}}", headers: { "n" => n.to_s },
        timestamp: Time.at(1_700_000_000 + n) }
    end
    app.producer.produce_many_sync(rows)
    name
  end

  def numbers(name, *options)
    code, out, err = pelton("consume", name, *options)
    assert_equal 0, code, err
    out.lines.map { |line| JSON.parse(line)["payload"]["n"] }
  end

  def test_where_reading_begins_and_ends
    name = filled
    { %w[--from beginning --until end] => 0..9, %w[--from -3 --until end] => 7..9, %w[--from 4 --until 7] => 4..6,
      %w[--from beginning --count 2] => 0..1,
      %w[--from -100 --until 1d] => 0..9, %w[--from 1h --until end] => [], %w[--until end] => [],
      %w[--from 8 --until 100 --count 2] => 8..9 }.each do |options, expected|
      assert_equal expected.to_a, numbers(name, *options), options.join(" ")
    end
  end

  def test_messages_are_selected
    name = filled
    all = %w[--from beginning --until end]
    { ["--key", "1"] => [1, 3, 5, 7, 9], ["--where", 'where("n").gteq(8)'] => [8, 9],
      ["--where", 'where("n").gt(3)', "--where", 'where("n").lt(6)'] => [4, 5],
      ["--where", 'where.header("n").in("2", "7")', "--key", "0"] => [2],
      ["--where", 'where("n").matches(/a(?=b)/)'] => [], ["--partition", "0", "--count", "1"] => [0],
      ["--where", 'where("n").lt(2)', "--format", "json"] => [0, 1] }.each do |options, expected|
      assert_equal expected, numbers(name, *all, *options), options.join(" ")
    end
    assert_equal ['{"n":9}'], read(name, "--where", 'where("n").eq(9)', "--format", "string").map { |row|
                                row["payload"]
                              }
    app.producer.produce_many_sync(["no json", nil].map { |text| { topic: name, payload: text } })
    assert_equal [9], numbers(name, *all, "--where", 'where("n").gt(8)'), "a payload without fields does not match"
    assert_match(/partition = 7: does not exist, there are 0 to 0/, pelton("consume", name, "--partition", "7").last)
  end

  def test_formats
    name = topic
    app.producer.produce_many_sync(['{"n":1}', "text", "\xff".b].map { |text| { topic: name, payload: text } })
    { "raw" => ["{\"n\":1}", "text", nil], "hex" => %w[7b226e223a317d 74657874 ff],
      "string" => ["{\"n\":1}", "text", nil], "json" => [{ "n" => 1 }, "text", nil] }.each do |format, expected|
      assert_equal expected, read(name, "--format", format).map { |row| row["payload"] }, format
    end
    errors = read(name, "--format", "json").map { |row| row["payload_error"] }
    assert_equal [nil, true, true], errors.map { |error| error&.include?("payload cannot be decoded") }
    err = pelton("consume", name, "--from", "beginning", "--until", "end", "--format", "json").last
    assert_match(/payloads that could not be decoded: 2$/, err)
    assert_equal [nil, nil, nil], read(name).map { |row| row["payload_error"] }, "no format was asked for"
    assert_equal ["/w==", "/w=="], %w[raw json].map { |format| read(name, "--format", format).last["payload_base64"] }
    lines = pelton("consume", name, "--from", "beginning", "--until", "end", "--payload-only")[1]
    assert_equal "{\"n\":1}\ntext\n\xff\n".b, lines.b
  end

  def test_avro_with_a_registry
    double = RegistryDouble.new
    name = topic
    double.add("#{name}-value", JSON.generate(type: "record", name: "Order", fields: [{ name: "id", type: "long" },
                                                                                      { name: "raw", type: "bytes" }]))
    options = ["--format", "avro", "--registry", double.url]
    err = send_lines(name, "{\"id\":7,\"raw\":\"x\"}\n{\"id\":\"x\",\"raw\":\"\"}\nnope\n", *options, code: 1)
    assert_match(/line 2: .*id: /, err)
    assert_match(/line 3: the line: is not valid JSON/, err)
    row = read(name, *options).first
    assert_equal [{ "id" => 7, "raw" => "x" }, true], [row["payload"], row.key?("payload_text")]
    send_lines(name, JSON.generate(row), "--json-lines")
    assert_equal [{ "id" => 7, "raw" => "x" }] * 2, payloads(name, "--registry", double.url)
    double.add("other-value", '"string"')
    send_lines(name, JSON.generate(payload: "text"), "--json-lines", *options, "--subject", "other-value")
    assert_equal "text", payloads(name, *options).last
  ensure
    double&.close
  end

  # The arguments of a process, such as a URL with its password, are no secret.
  def test_produce_needs_no_password_in_its_arguments_if_the_route_has_the_registry
    double = RegistryDouble.new
    double.authorization = "Basic #{["ann:secret"].pack("m0")}"
    name = topic
    double.add("#{name}-value", JSON.generate(type: "record", name: "Order", fields: [{ name: "id", type: "long" }]))
    registry = Pelton::Registry.new(double.url, user: "ann", password: "secret", retries: 0)
    reader = consumer { nil }
    app = app { topic(name, to: reader) { decode :avro, registry: registry } }
    code, _, err = pelton("produce", name, "--format", "avro", input: '{"id":7}', app: app)
    assert_equal 0, code, err
    code, out, err = pelton("consume", name, "--from", "beginning", "--until", "end", app: app)
    assert_equal [0, { "id" => 7 }], [code, JSON.parse(out)["payload"]], err
  ensure
    double&.close
  end

  def test_produce_without_the_registry_of_a_route_says_what_it_needs
    name = topic
    reader = consumer { nil }
    app = app { topic(name, to: reader) { decode :avro, schema: '"long"' } }
    code, _, err = pelton("produce", name, "--format", "avro", input: "7", app: app)
    assert_equal 1, code
    assert_match(/--format avro: needs --registry URL, or -r .* whose route has decode :avro and a registry/, err)
  end

  def test_avro_that_was_consumed_can_be_produced_with_all_its_digits
    skip "no gem bigdecimal for this Ruby" unless defined?(::BigDecimal)
    double = RegistryDouble.new
    name = topic
    fields = { total: { type: "bytes", logicalType: "decimal", precision: 30, scale: 2 },
               at: ["null", { type: "long", logicalType: "timestamp-micros" }],
               day: { type: "int", logicalType: "date" }, raw: "bytes" }
    double.add("#{name}-value", JSON.generate(type: "record", name: "Sale",
                                              fields: fields.map { |field, type| { name: field, type: type } }))
    options = ["--format", "avro", "--registry", double.url]
    sale = { "total" => "1234567890123456789012345.67", "at" => "2026-11-29T08:00:00.123456Z", "day" => "2026-11-29",
             "raw" => { "base64" => "/w==" } }
    text = JSON.generate(sale)
    send_lines(name, "#{text}\n#{text.sub(/"total":"([\d.]+)"/, '"total":\1')}", *options)
    printed = read(name, *options).map { |row| JSON.generate(row) }.join("\n")
    send_lines(name, printed, "--json-lines", *options)
    assert_equal [sale] * 4, payloads(name, *options)
    assert_match(/total: /, send_lines(name, JSON.generate(sale.merge("total" => "x")), *options, code: 1))
    assert_match(/day: /, send_lines(name, JSON.generate(sale.merge("day" => "29.11.")), *options, code: 1))
  ensure
    double&.close
  end

  def test_format_of_the_route_also_of_its_dead_letters
    name = topic
    @cluster.create_topic("#{name}.dead", 1)
    reader = consumer { nil }
    app = app { topic(name, to: reader) { decode(:msgpack, symbolize_keys: true) && dead_letters("#{name}.dead") } }
    [name, "#{name}.dead"].each do |topic|
      app.producer.produce_sync(topic: topic, payload: "\x81\xA1a\xC4\x01\xFF".b)
      code, out, err = pelton("consume", topic, "--from", "beginning", "--until", "end", app: app)
      assert_equal 0, code, err
      row = JSON.parse(out)
      assert_equal [{ "a" => { "base64" => "/w==" } }, "gaFhxAH/"], row.values_at("payload", "payload_base64")
      @apps << app = self.app { topic(name, to: reader) { decode(:msgpack) && dead_letters("#{name}.dead") } }
    end
  end

  def test_condition_on_fields_needs_a_format_with_fields
    name = topic
    reader = consumer { nil }
    app.producer.produce_sync(topic: name, payload: '{"n":1}')
    read = lambda do |*options, &route|
      app = self.app { topic(name, to: reader, &route) }
      pelton("consume", name, "--from", "beginning", "--until", "end", *options, app: app)
    end
    code, _, err = read.call("--where", 'where("n").eq(1)') { decode :utf8 }
    assert_equal [1, true], [code, err.include?("--where: the route's payloads have no fields: add --format json")]
    assert_includes read.call("--where", 'where("n").eq(1)', "--format", "json") { decode :utf8 }[1], '{"n":1}'
    assert_includes read.call("--where", "where.key.exists.not") { decode :utf8 }[1], '"{\\"n\\":1}"'
    assert_includes read.call("--where", 'where("n").eq(1)') { deserializer ->(_) { "made" } }[1], '"made"'
    assert_equal "", read.call("--where", 'where("n").eq(2)') { deserializer ->(_) { "made" } }[1]
  end

  def test_summary_says_how_many_and_where_it_stopped
    name = filled
    err = pelton("consume", name, "--from", "4", "--count", "3").last
    assert_match(/reading #{name} from 4, waiting for new messages; Ctrl-C ends it/, err)
    assert_match(%r{consumed: 3 in .* s, .*/s}, err)
    assert_match(%r{stopped before #{name}/0 offset 7}, err)
    assert_equal "", pelton("consume", name, "--from", "4", "--count", "3", "--quiet").last
  end

  # Its line is drawn at once, then every 0.1 s.
  def test_progress_on_a_terminal_estimates_how_many_messages_will_come
    name = filled
    terminal = Class.new(StringIO) { def tty? = true }
    { %w[--from beginning --until end] => "1 of 10 (10%)", %w[--from 4 --until 7] => "1 of 3 (33%)",
      %w[--from beginning --until end --count 4] => "1 of 4 (25%)",
      ["--from", "beginning", "--until", "end", "--where", 'where("n").gteq(4)'] => "1 of 2 (50%)",
      ["--from", "beginning", "--until", "100", "--count", "2"] => "1 of 2 (50%)" }.each do |options, shown|
      _, _, err = pelton("consume", name, *options, err: terminal.new)
      assert_includes err[/\A.*?\r\e\[K([^\r]*)/m, 1], shown, options.join(" ")
    end
  end

  def test_each_message_leaves_at_once_also_into_a_pipe
    name = topic
    app.producer.produce_sync(topic: name, payload: "first")
    reader, writer = IO.pipe
    options = %w[--from beginning --count 2 --payload-only]
    command = Thread.new { pelton("consume", name, *options, out: writer) }
    assert reader.wait_readable(30), "the first message waits in a buffer"
    assert_equal "first\n", reader.readline
    app.producer.produce_sync(topic: name, payload: "second")
    assert_equal 0, command.value.first
  ensure
    command&.join
    [reader, writer].each(&:close)
  end

  def test_rate_limits_messages_per_second
    name = topic
    started = Pelton::Clock.now
    send_lines(name, "x\n" * 11, "--rate", "20")
    assert_operator Pelton::Clock.now - started, :>=, 0.5
  end
end
