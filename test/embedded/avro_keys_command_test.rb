# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/registry_double"
require "pelton/cli/cli"
require "stringio"

# Keys in Avro on the command line: what `pelton consume`, `produce` and `dead-letters` do with them, with the route.
class EmbeddedAvroKeysCommandTest < Minitest::Test
  include EmbeddedApp
  include RegistryDoubles

  RECORD = JSON.generate(type: "record", name: "Key", fields: [{ name: "tenant", type: "string" },
                                                               { name: "id", type: "int" }])

  class Nothing < Pelton::Consumer
    def process(_message) = nil
  end

  def setup
    super
    @name = topic
    @dead = topic
    @double = new_double
    @registry = Pelton::Registry.new(@double.url, retries: 0, missing_ttl: 0, ttl: 0)
  end

  # An app with the route. payloads: are they Avro, too?
  def given(payloads: true)
    name = @name
    dead = @dead
    registry = @registry
    app = Pelton::App.new
    app.config.kafka = { "bootstrap.servers" => @cluster.bootstrap_servers }
    app.config.group_id = "g"
    app.routes do
      topic name, to: Nothing do
        decode :avro, registry: registry if payloads
        key_deserializer :avro, registry: registry
        dead_letters dead
      end
    end
    app
  end

  # [exit code, stdout, stderr]
  def pelton(*arguments, input: "", app: given)
    out = StringIO.new
    err = StringIO.new
    address = app.routes.empty? ? ["--bootstrap", @cluster.bootstrap_servers] : []
    cli = Pelton::CLI.new([*arguments, *address], app: app, out: out, err: err, input: StringIO.new(input), env: {})
    [cli.run, out.string.dup.force_encoding(Encoding::UTF_8), err.string]
  end

  def printed(*arguments, **options)
    code, out, err = pelton(*arguments, **options)
    assert_equal 0, code, err
    out
  end

  def read(*options, name: @name, **more)
    printed("consume", name, "--from", "beginning", "--until", "end", *options, **more).lines
                                                                                       .map { |line| JSON.parse(line) }
  end

  def key(schema, value)
    @double.add("#{@name}-key", schema)
    Pelton::Avro::Serializer.new(registry: @registry, subject: :topic_key).serialize(value, topic: @name)
  end

  def write(key, name: @name) = app.producer.produce_sync(topic: name, key: key, payload: "{}")

  # It found nothing.
  def test_consume_selects_decoded_keys
    write(key('"int"', 20))
    write(key(RECORD, { tenant: "a", id: 20 }))
    write(key('"string"', "k 7"))
    { "20" => [0], '{"tenant":"a","id":20}' => [1], '{ "id": 20, "tenant": "a" }' => [1], "k 7" => [2], "21" => [],
      '"k 7"' => [], "{" => [] }.each do |text, offsets|
      assert_equal offsets, read("--key", text, app: given(payloads: false)).map { |row| row["offset"] }, text
    end
    only = ["--key", "20", "--where", "where.key.starts_with(\"x\")", "--format", "json"]
    assert_empty read(*only), "the other conditions count, too"
    assert_empty read("--key", "20", app: Pelton::App.new), "without the route, bytes are compared"
  end

  def test_consume_selects_a_key_that_is_not_avro_by_its_bytes
    write("301")
    assert_equal ["301"], read("--key", "301", "--format", "string").map { |row| row["key"] }
    row = read("--key", "301", app: given(payloads: false)).first
    assert_match(/does not start with byte 0/, row["key_error"])
  end

  # It said that there is no such message.
  def test_consume_by_key_says_that_the_registry_is_down
    write(key('"int"', 20))
    @double.fail(503, times: 9)
    code, _, err = pelton("consume", @name, "--from", "beginning", "--until", "end", "--key", "20",
                          app: given(payloads: false))
    assert_equal 1, code
    assert_includes err, "HTTP 503"
  end

  def test_keys_are_decoded_whatever_the_format_of_the_payload
    write(key('"int"', 20))
    [["--format", "json"], [], ["--format", "string"]].zip([20, 20, "\0\0\0\0\x01("]).each do |options, shown|
      assert_equal shown, read(*options, app: given(payloads: false)).first["key"], options.join(" ")
    end
    assert_equal 20, read("--registry", @double.url).first["key"]
  end

  # They came as text, which the consumer could not read.
  def test_produce_writes_keys_as_the_route_reads_them
    @double.add("#{@name}-value", '"string"')
    { '"int"' => ["301", 301], '"string"' => %w[301 301], '["null","string"]' => %w[301 301],
      RECORD => ['{"tenant":"a","id":301}', { "tenant" => "a", "id" => 301 }],
      '{"type":"int","logicalType":"date"}' => %w[2026-11-30 2026-11-30] }.each do |schema, (text, shown)|
      @double.add("#{@name}-key", schema)
      printed("produce", @name, "--format", "avro", "--key", text, input: '"x"')
      assert_equal [shown, "x"], read.last.values_at("key", "payload"), schema
    end
  end

  def test_produce_writes_keys_of_lines_and_of_json
    @double.add("#{@name}-key", '"int"')
    printed("produce", @name, "--key-separator", ":", input: "7:{}\n", app: given(payloads: false))
    lines = [{ key: 8, payload: 1.25 }, { key: nil, payload: {} }, { payload: {} }, { key_text: "raw", payload: {} }]
    input = lines.map { |line| JSON.generate(line) }.join("\n")
    printed("produce", @name, "--json-lines", "--key", "9", input: input, app: given(payloads: false))
    rows = read(app: given(payloads: false))
    assert_equal([7, 8, 9, 9, "raw"], rows.map { |row| row.fetch("key") { row["key_text"] } })
    assert_equal [{}, 1.25, {}, {}, {}], rows.map { |row| row["payload"] }
  end

  def test_avro_keys_that_were_consumed_can_be_produced
    write(key(RECORD, { tenant: "a", id: 1 }))
    out = printed("consume", @name, "--from", "beginning", "--until", "end", app: given(payloads: false))
    2.times do
      printed("produce", @name, "--json-lines", input: out, app: given(payloads: false))
      out = out.gsub(/"key_(text|base64)":"[^"]*",?/, "")
    end
    assert_equal [{ "tenant" => "a", "id" => 1 }] * 3, read(app: given(payloads: false)).map { |row| row["key"] }
    assert_equal 1, app.each(@name).map(&:raw_key).uniq.size
  end

  def test_produce_refuses_a_key_that_does_not_fit_and_one_without_a_schema
    code, _, err = pelton("produce", @name, "--key", "301", input: "{}", app: given(payloads: false))
    assert_equal 1, code
    assert_match(/line 1: schema registry, subject #{@name}-key.*Subject not found/, err)
    @double.add("#{@name}-key", '"int"')
    [%w[--key abc], ["--key", '"7"'], ["--json-lines"]].each do |options|
      code, _, err = pelton("produce", @name, *options, input: '{"key":"a","payload":1}', app: given(payloads: false))
      assert_equal 1, code
      assert_match(/line 1: key: the value does not fit .*expected int, got a String/, err)
    end
    assert_empty app.each(@name).to_a
  end

  def test_produce_without_keys_asks_for_no_schema_of_keys
    printed("produce", @name, input: "{}", app: given(payloads: false))
    assert_empty @double.requests
  end

  def test_key_subject_needs_no_route
    @double.add("ids", '"int"')
    @double.add("#{@name}-value", '"int"')
    options = ["--registry", @double.url, "--key-subject", "ids", "--key", "7"]
    printed("produce", @name, *options, input: "1", app: Pelton::App.new)
    printed("produce", @name, "--key-subject", "ids", "--key", "8", input: "{}")
    assert_equal([7, 8], read(app: given(payloads: false)).map { |row| row["key"] })
    code, _, err = pelton("produce", @name, "--key-subject", "ids", "--key", "7", input: "1", app: Pelton::App.new)
    assert_equal 1, code
    assert_includes err, "--key-subject: needs --registry URL, or -r with a file whose route has key_deserializer :avro"
  end

  def test_dead_letters_show_decoded_keys_and_select_them
    write(key(RECORD, { tenant: "a", id: 20 }), name: @dead)
    write(key('"int"', 20), name: @dead)
    write("plain", name: @dead)
    shown = JSON.parse(printed("dead-letters", "show", @dead, "0/0", "--json"))
    assert_equal({ "tenant" => "a", "id" => 20 }, shown["key"])
    assert_match(/^key +\{"tenant":"a","id":20\}$/, printed("dead-letters", "show", @dead, "0/0"))
    assert_match(/^key: .*does not start with byte 0/, printed("dead-letters", "show", @dead, "0/2"))
    assert_match(/byte 0/, JSON.parse(printed("dead-letters", "show", @dead, "0/2", "--json"))["key_error"])
    { "20" => %w[0/1], '{"id":20,"tenant":"a"}' => %w[0/0], "plain" => %w[0/2], "7" => [] }.each do |text, places|
      letters = JSON.parse(printed("dead-letters", "list", "--key", text, "--json"))
      assert_equal places, letters.map { |letter| letter["place"] }, text
    end
  end
end
