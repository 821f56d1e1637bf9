# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/registry_double"
require "pelton/cli/cli"
require "stringio"
require "time"
require "tmpdir"

# What `pelton dead-letters …` prints and does, without an app and with one. On a real broker, and with Ctrl-C:
# test/integration/dead_letters_command.rb.
class DeadLettersCommandsTest < Minitest::Test
  include EmbeddedApp

  class Nothing < Pelton::Consumer
    def process(_message) = nil
  end

  class TerminalIO < StringIO
    def tty? = true
  end

  def setup
    super
    @name = topic
    @dead = topic
    @cluster.create_topic("#{@dead}.status", 1)
    headers = { "pelton.topic" => @name, "pelton.partition" => "0", "pelton.attempts" => "2", "pelton.group" => "g",
                "trace" => "7" }
    rows = %w[KeyError IOError IOError].map.with_index do |error, number|
      own = { "pelton.offset" => number.to_s, "pelton.error" => error, "pelton.error_message" => "bad\n#{number}",
              "pelton.failure_id" => "f#{number}", "pelton.failed_at" => (1_700_000_000_000 + number).to_s,
              "pelton.backtrace" => "app.rb:#{number}\nlib.rb:1" }
      { topic: @dead, key: "k#{number}", payload: "{\"n\":#{number}}", headers: { **headers, **own } }
    end
    app.producer.produce_many_sync([*rows, { topic: @dead, key: "foreign", payload: "\xFF\e[31m" }], timeout: 20)
  end

  def call(*arguments, input: StringIO.new, given: Pelton::App.new)
    @out = StringIO.new
    @err = StringIO.new
    env = { "PELTON_BOOTSTRAP" => @cluster.bootstrap_servers }
    Pelton::CLI.new(["dead-letters", *arguments], app: given, out: @out, err: @err, input: input, env: env).run
  end

  def json(*arguments, code: 0)
    assert_equal code, call(*arguments, "--json"), -> { @err.string }
    JSON.parse(@out.string)
  end

  def places(*filters) = json("list", @dead, *filters).map { |letter| letter["place"] }

  def test_list_filters_and_counts
    assert_equal %w[0/3 0/2 0/1 0/0], places
    assert_equal %w[0/2 0/1], places("--error", "IOError", "--group", "g", "--topic", @name)
    assert_equal %w[0/1 0/0], places("--id", "f0", "--id", "0/1")
    assert_equal %w[0/2], places("--limit", "1", "--until", "2024-01-01")
    assert_equal %w[0/3], places("--since", "1h")
    assert_equal %w[0/3], places("--key", "foreign")
    assert_equal [{ "error" => "IOError", "letters" => 2 }, { "error" => "KeyError", "letters" => 1 }],
                 json("list", @dead, "--by", "error", "--group", "g")
    assert_equal 0, call("list", @dead, "--limit", "2", "--group", "g")
    lines = @out.string.lines(chomp: true).map { |line| line.split(/ {2,}/) }
    assert_equal ["PLACE", "ID", "FAILED AT", "FROM", "GROUP", "ATTEMPTS", "REDRIVES", "ERROR", "MESSAGE"], lines[0]
    assert_equal ["0/2", "f2", "2023-11-14T22:13:20.002Z", "#{@name}/0 offset 2", "g", "2", "-", "IOError", "bad\\n2"],
                 lines[1]
    assert_equal [["0/1"], ["There are more: see --limit."]], lines.drop(2).map { |line| line.first(1) }
  end

  # FAILED AT and failed_at were the time at which the letter was written.
  def test_a_letter_of_another_system_has_no_time_of_a_failure
    written = app.each(@dead).find { |message| message.raw_key == "foreign" }.timestamp.utc
    assert_equal [[nil, written.iso8601(3)]], [json("list", @dead, "--key", "foreign"), [json("show", @dead, "0/3")]]
      .map { |letters| letters.first.values_at("failed_at", "written_at") }.uniq
    assert_equal 0, call("list", @dead, "--limit", "1")
    heads, row = @out.string.lines(chomp: true).first(2).map { |line| line.split(/ {2,}/) }
    assert_equal [["FAILED AT", "-"], ["WRITTEN AT", written.iso8601(3)]], heads.zip(row)[2, 2]
    assert_equal 0, call("show", @dead, "0/3")
    refute_match(/^failed at/, @out.string)
    assert_match(/^written at  .*#{written.iso8601(3)}/, @out.string)
  end

  def test_headers_that_are_no_text_are_no_error
    place = { "pelton.topic" => @name, "pelton.partition" => "0", "pelton.offset" => "9", "pelton.attempts" => "1" }
    app.producer.produce_sync(topic: @dead, payload: nil, headers: { **place, "pelton.error_message" => "a\xFF\nb" })
    letter = json("list", @dead, "--limit", "1").first
    assert_equal ["a?\nb", "0/4"], letter.values_at("error_message", "place")
    assert_equal 0, call("list", @dead, "--limit", "1")
    assert_includes @out.string, "a\\xFF\\nb"
    assert_equal 0, call("redrive", @dead, "--id", "0/4")
    assert_predicate app.each(@name).first, :tombstone?
  end

  def test_show_prints_everything_and_raw_the_bytes
    letter = json("show", @dead, "f1")
    assert_equal [{ "n" => 1 }, { "trace" => "7" }, %w[app.rb:1 lib.rb:1], "k1", "open", "2023-11-14T22:13:20.001Z"],
                 letter.values_at("payload", "headers", "backtrace", "key", "status", "failed_at")
    assert_equal 0, call("show", @dead, "0/1")
    ["error                IOError", "bad\\n1", "app.rb:1\nlib.rb:1", "{\n  \"n\": 1\n}", "trace"].each do |text|
      assert_includes @out.string, text
    end
    assert_equal 0, call("show", @dead, "0/3")
    assert_includes @out.string, "\\xFF\\e[31m", "a payload that is not JSON, and no command for the terminal"
    assert_equal 0, call("show", @dead, "0/3", "--raw")
    assert_equal "\xFF\e[31m".b, @out.string.b
    assert_equal 1, call("show", @dead, "0/9")
    assert_includes @err.string, "#{@dead} has no letter 0/9"
  end

  # A String of JSON could hold commands for the terminal.
  def test_show_escapes_a_payload_that_is_a_string
    headers = { "\u00e9\e" => "\xFF", "b\xFE" => ["x", nil] }
    app.producer.produce_sync(topic: @dead, key: "\xFE", payload: '"a\u001b[31m\u009b"', headers: headers)
    assert_equal 0, call("show", @dead, "0/4")
    refute_match(/[\e\u009b]/, @out.string)
    ["a\\e[31m", "\u00e9\\e", "\\xFF", "b\\xFE"].each { |text| assert_includes @out.string, text }
    letter = json("show", @dead, "0/4")
    assert_equal [["\xFE".b], "a\e[31m\u009b", '"a\u001b[31m\u009b"', { "\u00e9\e" => "/w==" }],
                 [letter["key_base64"].unpack("m"), *letter.values_at("payload", "payload_text", "headers_base64")]
  end

  def test_show_names_a_tombstone
    app.producer.produce_sync(topic: @dead, payload: nil)
    letter = json("show", @dead, "0/4")
    assert_equal [true, nil, true, nil], [letter.key?("payload"), letter["payload"], letter.key?("key"), letter["key"]]
    assert_equal 0, call("show", @dead, "0/4")
    assert_includes @out.string, "payload\ntombstone\n"
  end

  # Anyone who may write to the topic could stop all redrives.
  def test_letters_with_a_wrong_origin_stop_no_others
    place = { "pelton.partition" => "0", "pelton.offset" => "9", "pelton.attempts" => "1" }
    rows = [{ "pelton.topic" => "no/such\e[2J" }, { "pelton.topic" => "\xFF" }, { "pelton.topic" => "" },
            { "pelton.topic" => @name, "pelton.partition" => "-3" },
            { "pelton.topic" => @name, "pelton.backtrace" => "a\xFF\nb" }]
    app.producer.produce_many_sync(rows.map { |row| { topic: @dead, payload: "{}", headers: { **place, **row } } })
    assert_equal 1, call("redrive", @dead, "--dry-run", "--json")
    assert_equal 1, call("redrive", @dead)
    assert_equal "redriven: 5 letters of #{@dead}\n", @out.string, @err.string
    assert_includes @err.string, "the topic no/such\\e[2J does not exist"
    refute_includes @err.string.lines.grep(/not redriven/).join, "\e"
    assert_equal ["a?", "b"], json("show", @dead, "0/8")["backtrace"]
  end

  def test_huge_limits_and_rates_are_accepted_or_refused
    huge = "9" * 400
    assert_equal %w[0/3 0/2 0/1 0/0], places("--limit", "9" * 30)
    assert_equal %w[0/3 0/2 0/1 0/0], places("--limit", "1000000000")
    assert_equal 1, call("redrive", @dead, "--rate", huge)
    assert_includes @err.string, "expected a rate"
    assert_equal 0, call("redrive", @dead, "--group", "g", "--limit", "9" * 30, "--rate", "6000/m"), @err.string
  end

  # The name of the topic with the status would be longer than Kafka allows.
  def test_topic_with_a_long_name_is_listed_and_a_redrive_says_why_not
    long = "d" * 243
    @cluster.create_topic(long, 1)
    app.producer.produce_sync(topic: long, payload: "{}")
    assert_equal %w[0/0], json("list", long).map { |letter| letter["place"] }
    assert_equal 1, call("redrive", long, "--to", @name)
    assert_includes @err.string, "topic = \"#{long}\": has too long a name"
  end

  def test_json_list_that_is_cut_says_so
    assert_equal 2, json("list", @dead, "--limit", "2").size
    assert_equal "There are more: see --limit.\n", @err.string
  end

  def test_redrive_sends_each_letter_once
    assert_equal 1, call("redrive", @dead, "--dry-run"), "one letter cannot be sent"
    assert_includes @out.string, "would be redriven: 3 letters of #{@dead}"
    assert_includes @err.string, "pelton: not redriven: 1 letter of #{@dead}: it has no origin"
    done = json("redrive", @dead, "--error", "IOError", "--limit", "1").first
    assert_equal [@dead, 1, {}, "0/2"], done.values_at("dead_letters", "redriven", "skipped", "stopped_before")
    assert_equal 0, call("redrive", @dead, "--group", "g", "--rate", "6000/min")
    assert_equal "redriven: 2 letters of #{@dead}\n", @out.string
    assert_includes @err.string, "#{@dead}: redriven: 2 of 2 (100%)"
    assert_equal 0, call("redrive", @dead, "--group", "g")
    assert_equal "redriven: 0 letters of #{@dead}\n", @out.string
    assert_equal 0, call("redrive", @dead, "--key", "foreign", "--to", @name)
    assert_equal %w[{"n":1} {"n":0} {"n":2}], app.each(@name).first(3).map(&:raw_payload)
    assert_equal [{ "status" => "redriven", "letters" => 4 }], json("list", @dead, "--by", "status", "--status", "all")
    assert_equal 0, call("redrive", @dead, "--status", "redriven", "--id", "f0")
    assert_equal 5, app.each(@name).count
  end

  def test_delete_takes_a_status
    assert_equal 0, call("delete", @dead, "--id", "f0")
    [["redriven", 0], ["deleted", 1], ["open", 3], ["all", 4]].each do |status, count|
      assert_equal 0, call("delete", @dead, "--status", status, "--dry-run"), @err.string
      assert_equal "would be deleted: #{count} letter#{"s" unless count == 1} of #{@dead}\n", @out.string
    end
  end

  def test_delete_asks_unless_letters_are_named_or_yes_is_given
    assert_equal 1, call("delete", @dead)
    assert_includes @err.string, "--yes: is needed"
    assert_equal 0, call("delete", @dead, input: TerminalIO.new("n\n"))
    assert_includes @err.string, "delete 4 letters of #{@dead}? [y/N]"
    assert_equal "deleted: 0 letters of #{@dead}\n", @out.string
    assert_equal 0, call("delete", @dead, "--id", "f0")
    assert_equal "deleted: 1 letter of #{@dead}\n", @out.string
    assert_equal 0, call("delete", @dead, "--group", "g", input: TerminalIO.new("y\n"))
    assert_equal 0, call("delete", @dead, "--yes")
    assert_equal [{ "status" => "deleted", "letters" => 4 }], json("list", @dead, "--by", "status", "--status", "all")
  end

  # They were left out without a word.
  def test_topics_that_on_failure_may_name_are_found
    other = topic
    main = @name
    odd = @dead
    given = Pelton::App.new
    given.config.kafka = { "bootstrap.servers" => @cluster.bootstrap_servers }
    given.config.group_id = "g"
    given.routes do
      topic main, to: Nothing do
        decode :bytes
        dead_letters other
        on_failure ->(_) { [:dead_letter, odd] }, dead_letters: [odd]
      end
    end
    assert_equal 0, call("list", "--json", given: given)
    assert_equal [@dead] * 4, JSON.parse(@out.string).map { |letter| letter["dead_letters"] }
  end

  # An app's topics, as its routes decode them.
  def test_with_an_app_no_topic_is_needed
    dead = @dead
    other = topic
    given = lambda do
      Pelton::App.new.tap do |app|
        app.config.kafka = { "bootstrap.servers" => @cluster.bootstrap_servers }
        app.config.group_id = "g"
        names = [@name, other]
        app.routes do
          topic(names[0], to: Nothing) do
            decode :bytes
            dead_letters dead
          end
          topic(names[1], to: Nothing) { dead_letters names[0] }
        end
      end
    end
    assert_equal 0, call("list", "--json", given: given.call)
    assert_equal [@dead] * 4, JSON.parse(@out.string).map { |letter| letter["dead_letters"] }
    assert_equal 0, call("show", @dead, "f1", "--json", given: given.call)
    assert_equal '{"n":1}', JSON.parse(@out.string)["payload"]
  end

  # It printed bytes only.
  def test_show_prints_a_letter_that_the_reader_schema_refuses_as_it_was_written
    Dir.mktmpdir do |folder|
      File.write("#{folder}/#{@name}-value.7.avsc", order_schema("string"))
      registry = Pelton::Registry.files(folder)
      main = @name
      dead = @dead
      given = Pelton::App.new
      given.config.group_id = "g"
      given.routes do
        topic main, to: Nothing do
          decode :avro, registry: registry, schema: DeadLettersCommandsTest.order_schema("int")
          dead_letters dead
        end
      end
      payload = Pelton::Avro::Serializer.new(registry: registry).serialize({ "id" => "seven" }, topic: @name)
      app.producer.produce_sync(topic: @dead, payload: payload)

      assert_equal 0, call("show", @dead, "0/4", given: given), @err.string
      assert_match(/payload: .* has string, the reader.s has int\n\{\n  "id": "seven"\n\}\n\z/, @out.string)
    end
  end

  def test_show_takes_a_format_and_a_registry
    registry = RegistryDouble.new
    registry.add("#{@name}-value", order_schema("string"))
    serializer = Pelton::Avro::Serializer.new(registry: Pelton::Registry.new(registry.url))
    app.producer.produce_sync(topic: @dead, payload: serializer.serialize({ "id" => "seven" }, topic: @name))

    assert_equal({ "id" => "seven" }, json("show", @dead, "0/4", "--registry", registry.url)["payload"])
    assert_equal "7b226e223a317d", json("show", @dead, "0/1", "--format", "hex")["payload"]
    assert_equal 1, call("show", @dead, "0/1", "--format", "json", "--registry", registry.url)
  ensure
    registry&.close
  end

  def self.order_schema(type)
    JSON.generate(type: "record", name: "Order", fields: [{ name: "id", type: type }])
  end

  def order_schema(type) = self.class.order_schema(type)
end
