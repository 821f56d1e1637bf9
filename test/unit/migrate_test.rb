# frozen_string_literal: true

# once: the text is the same on every Ruby

require_relative "../test_helper"
require "pelton/cli/cli"
require "pelton/cli/migrate/application"
require "support/migrate_vectors"
require "stringio"

# `pelton migrate`: what it finds in made-up applications, and the file that it drafts.
class MigrateTest < Minitest::Test
  MigrateVector.all.each do |vector|
    define_method(:"test_app_#{vector.name}") do
      actual = vector.actual
      vector.expected.each do |part, text|
        assert_equal text, actual.fetch(part), "#{vector.name}: #{part} (see test/support/migrate_vectors.rb)"
      end
    end
  end

  def setup
    @folder = Dir.mktmpdir
    @out = StringIO.new
    @err = StringIO.new
  end

  def teardown = FileUtils.remove_entry(@folder)

  def write(name, text)
    path = File.join(@folder, name)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
    path
  end

  def migrate(path = @folder, *options)
    [@out, @err].each { |io| io.truncate(0) && io.rewind }
    Pelton::CLI.new(["migrate", path, *options], app: nil, out: @out, err: @err, env: {}).run
  end

  APP = "class A < Karafka::App\n  setup { |config| config.group_id = %p }\nend\n"

  def test_code_is_not_run
    write("karafka.rb", "raise \"it ran\"\n#{format(APP, "g")}")
    assert_equal 0, migrate, @err.string
    assert_match(/^ +3  same +config\.group_id = "g"$/, @out.string)
  end

  def test_question_whether_the_app_stops_is_one_about_the_server
    write("a.rb", "class A < Karafka::BaseConsumer\n  def consume = Karafka::App.stopping?\nend\n")
    assert_equal 0, migrate, @err.string
    assert_match(/^ +2  differs +Karafka::App\.stopping\?\n +Pelton\.server\.status == :stopping$/, @out.string)
  end

  def test_a_file_that_exists_is_kept
    write("karafka.rb", format(APP, "g"))
    path = write("pelton.rb", "# mine\n")
    assert_equal 1, migrate(@folder, "--write")
    assert_equal "pelton: #{path} exists: rename it, or run without --write\n", @err.string
    assert_equal "# mine\n", File.read(path)
  end

  def test_rails_gets_its_file_in_config
    write("karafka.rb", format(APP, "g"))
    write("config/application.rb", "")
    assert_equal 0, migrate(@folder, "--write"), @err.string
    draft = File.read(File.join(@folder, "config/pelton.rb"))
    refute_includes draft, "require"
    assert_includes draft, "config.group_id = \"g\""
  end

  # Only a Rails app has ActiveSupport when the draft is loaded.
  def test_methods_of_activesupport_are_kept_in_a_rails_app_only
    write("karafka.rb", "class A < Karafka::App\n  setup { |config| config.max_messages = 2.kilobytes }\nend\n")
    assert_equal 0, migrate, @err.string
    assert_includes @out.string, "it calls `2.kilobytes` of ActiveSupport"
    write("config/application.rb", "")
    assert_equal 0, migrate, @err.string
    refute_includes @out.string, "ActiveSupport"
  end

  def test_a_syntax_error_names_file_and_line_and_the_other_files_are_read
    write("karafka.rb", format(APP, "g"))
    write("app/a_consumer.rb", "class AConsumer\n  def consume\n    x = = 1\n  end\nend\n")
    assert_equal 1, migrate(@folder, "--write")
    assert_equal <<~TEXT, @err.string
      pelton: app/a_consumer.rb:3: syntax error
      pelton: nothing is written until these files can be read
    TEXT
    assert_includes @out.string, "config.group_id = \"g\""
    refute_path_exists File.join(@folder, "pelton.rb")
  end

  def test_a_path_that_does_not_exist
    assert_equal 1, migrate("#{@folder}/none")
    assert_equal "pelton: PATH = \"#{@folder}/none\": does not exist\n", @err.string
  end

  def test_an_application_of_another_kind_has_nothing_to_draft
    write("app.rb", "class Order\n  def consumer = 1\nend\n")
    assert_equal 1, migrate(@folder, "--write")
    assert_equal "pelton: there are no settings and no routes to draft\n", @err.string
    assert_includes @out.string, "1 files read, 0 constructs found"
  end

  def test_one_file_and_a_choice_of_status
    path = write("karafka.rb", "#{format(APP, "g")}Karafka.frobnicate\n")
    write("app/a.rb", "Karafka.frobnicate")
    assert_equal 0, migrate(path, "--status", "unknown"), @err.string
    assert_includes @out.string, "Karafka.frobnicate"
    refute_includes @out.string, "group_id"
    refute_includes @out.string, "app/a.rb"
    assert_equal 1, migrate(path, "--status", "unknwon")
    assert_match(/unknwon.*did you mean unknown/, @err.string)
  end

  def test_vendored_code_and_broken_bytes
    write("vendor/gem.rb", "Karafka.frobnicate")
    write("karafka.rb", "# \xFF\n#{format(APP, "é")}")
    assert_equal 0, migrate, @err.string
    assert_includes @out.string, "config.group_id = \"é\""
    refute_includes @out.string, "frobnicate"
  end

  # What the draft makes of a Hash with librdkafka's options, and of those that a producer adds.
  def kafka(hash, producer = nil)
    own = "config.producer = WaterDrop::Producer.new { |other| other.kafka = #{producer} }\n" if producer
    write("karafka.rb", <<~RUBY)
      class A < Karafka::App
        setup do |config|
          config.group_id = "g"; config.shutdown_timeout = 1
      config.kafka = #{hash}
      #{own}  end
      end
    RUBY
    assert_equal 0, migrate(@folder, "--write"), @err.string
    path = File.join(@folder, "pelton.rb")
    settings = File.read(path)[/^  config.kafka = .*?(?=\nend)/m]
    settings.gsub(/^  /, "").gsub(/^# partitioner.*\n/, "")
  ensure
    FileUtils.rm_f(path) if path
  end

  PARTITIONER = "\"partitioner\" => \"consistent_random\""

  def test_the_partitioner_is_written_in_the_hash_if_its_end_is_plain
    assert_equal "config.kafka = { a: \"\#{1}\", #{PARTITIONER} }", kafka("{ a: \"\#{1}\" }")
    assert_equal "config.kafka = {\n  a: 1,\n  #{PARTITIONER}\n}", kafka("{\n  a: 1,\n}")
    ["{}", "{ a: 1 }.merge(b: 2)", "{\n  a: 1 # one\n}"].each do |hash|
      assert_equal "config.kafka = #{hash}\nconfig.kafka = { **config.kafka, #{PARTITIONER} }", kafka(hash)
    end
    assert_equal "config.kafka = { \"partitioner\": \"murmur2\" }", kafka("{ \"partitioner\": \"murmur2\" }")
  end

  def test_options_of_karafkas_producer_join_those_of_the_app
    assert_equal "config.kafka = { \"a\": 1, \"b\" => 2, #{PARTITIONER} }", kafka("{ \"a\": 1 }", "{ a: 1, b: 2 }")
    assert_match(/"a": 10, .*\n# TODO karafka.rb:5: .*"a" => 1: config.kafka has another value\z/,
                 kafka("{ \"a\": 10 }", "{ a: 1 }"))
    assert_includes kafka("{}", "OPTIONS"), "# config.kafka = { **config.kafka, **OPTIONS }"
    assert_includes kafka("{}", "ENV.to_h"), "\nconfig.kafka = { **config.kafka, **ENV.to_h }"
    assert_match(/# TODO karafka.rb:5: .*"transactional.id" => "x": consumers need `transactional`/,
                 kafka("{ \"a\": 1 }", "{ \"transactional.id\": \"x\" }"))
  end

  def test_options_of_both_are_written_once
    once = "config.kafka = { 'a.b': 'x', 'c': 1_000, #{PARTITIONER} }"
    assert_equal once, kafka("{ 'a.b': 'x', 'c': 1_000 }", "{ \"a.b\" => \"x\", c: \"1000\" }")
    assert_equal "config.kafka = { \"bootstrap.servers\": \"a\", #{PARTITIONER} }",
                 kafka("{ \"bootstrap.servers\": \"a\" }", "{ \"metadata.broker.list\": \"a\" }")
    assert_equal "config.kafka = ENV.to_h\nconfig.kafka = { **config.kafka, #{PARTITIONER} }",
                 kafka("ENV.to_h", "ENV.to_h")
  end

  def test_a_producer_of_another_cluster_does_not_change_the_app
    text = kafka("{ 'bootstrap.servers': 'a' }", "{ \"bootstrap.servers\" => \"b\", acks: 1 }")
    assert_equal "config.kafka = { 'bootstrap.servers': 'a', #{PARTITIONER} }", text.lines.first.chomp
    assert_match(/\A# TODO karafka.rb:5: .* two clusters: make a Pelton::App for it, /, text.lines.last)
    assert_equal 2, text.lines.size
  end

  def test_servers_that_cannot_be_compared_are_left_to_the_user
    text = kafka("ENV.to_h", "{ \"bootstrap.servers\" => \"b\", acks: 1 }")
    assert_match(/^# TODO karafka.rb:5: .*"bootstrap.servers" => "b": consumers get these options, too/, text)
    refute_match(/^config.kafka.*bootstrap/, text)
    assert_match(/^# TODO karafka.rb:5: ENV.to_h: consumers get .*\nconfig.kafka = { \*\*config.kafka, \*\*ENV.to_h }/,
                 kafka("{ \"bootstrap.servers\": \"a\" }", "ENV.to_h"))
    assert_match(/^# TODO karafka.rb:5: \*\*ENV: consumers get .*\nconfig.kafka = { \*\*config.kafka, \*\*ENV }/,
                 kafka("{}", "{ **ENV }"))
  end

  # What the draft says of a wait in ms; nil: nothing.
  def short_wait(limit, options)
    write("a.rb", "P = WaterDrop::Producer.new do |c|\n  c.kafka = #{options}\n  c.max_wait_timeout = #{limit}\nend\n")
    assert_equal 0, migrate(@folder, "--write"), @err.string
    File.read("#{@folder}/pelton.rb")[/max_wait_timeout is shorter than message.timeout.ms \(.*?\)|=> [\d_]+ to /]
  ensure
    FileUtils.rm_f("#{@folder}/pelton.rb")
  end

  def test_a_wait_that_ends_before_its_message_fails_is_a_todo
    short = "max_wait_timeout is shorter than message.timeout.ms "
    assert_equal "#{short}(150 s)", short_wait("149_999", "{ acks: 1 }")
    assert_nil short_wait("150_000", "{ acks: 1 }")
    assert_equal "#{short}(30 s)", short_wait("20_000", "{ \"delivery.timeout.ms\": 30_000 }")
    assert_equal "#{short}(no limit)", short_wait("200_000", "{ \"message.timeout.ms\": \"0\" }")
    assert_nil short_wait("20_000", "{ \"message.timeout.ms\": 15_000 }")
    ["{ \"message.timeout.ms\": Integer(ENV[\"T\"]) }", "{ **ENV }"].each { |hash| assert_nil short_wait("9", hash) }
    assert_nil short_wait("Integer(ENV[\"T\"])", "{ acks: 1 }")
  end

  # The command that the draft prints for a topic with this `kafka`.
  def printed(kafka)
    write("karafka.rb", "class A < Karafka::App\n  setup { |c| c.kafka = { \"bootstrap.servers\": \"a\" } }\n  " \
                        "routes.draw do\n    topic(:x) { consumer X }\n    topic(:y) do\n      consumer Y\n      " \
                        "kafka(#{kafka})\n    end\n  end\nend\n")
    assert_equal 0, migrate(@folder, "--write"), @err.string
    File.read(Dir.glob("#{@folder}/{,config/}pelton.rb").first)[/pelton groups copy .*/]
  ensure
    FileUtils.rm_f(Dir.glob("#{@folder}/{,config/}pelton.rb"))
  end

  # Without a connection, the command asked for one. With -r, it looked for the groups in the cluster of config.kafka.
  def test_printed_copy_of_offsets_named_no_cluster
    copy = "pelton groups copy app app_y --topic y"
    assert_equal "#{copy} --bootstrap b:1,c:2 --apply", printed("\"bootstrap.servers\": \"b:1,c:2\"")
    assert_equal "#{copy} --bootstrap b:1 --apply", printed("{ \"metadata.broker.list\" => \"b:1\" }")
    assert_equal "#{copy} --bootstrap b:1 --apply, with -X NAME=VALUE for ssl.ca.location",
                 printed("\"bootstrap.servers\": \"b:1\", \"ssl.ca.location\": \"x\", \"fetch.min.bytes\": 1")
    assert_equal "#{copy} --bootstrap HOST:PORT --apply, with the address of ENV[\"B\"]",
                 printed("\"bootstrap.servers\": ENV[\"B\"]")
    assert_equal "#{copy} --bootstrap HOST:PORT --apply, with the address of kafka(ENV.to_h)", printed("ENV.to_h")
    assert_equal "#{copy} -r ./pelton.rb --apply", printed("\"fetch.min.bytes\": 1, inherit: true")
    write("config/application.rb", "")
    assert_equal "#{copy} --apply", printed("\"fetch.min.bytes\": 1")
  end

  def default_group?(routes, more = "")
    write("karafka.rb",
          "class A < Karafka::App\n  setup { |config| config.client_id = \"a\" }\n#{routes}\nend\n#{more}")
    assert_equal 0, migrate(@folder, "--write"), @err.string
    File.read("#{@folder}/pelton.rb").include?("  config.group_id = \"app\" # Karafka's default\n")
  ensure
    FileUtils.rm_f("#{@folder}/pelton.rb")
  end

  # The line is left out only if each topic has a group of its own, and no line may hide a topic.
  def test_karafkas_default_group_is_drafted_unless_all_topics_have_another
    topic = "topic(:x) { consumer X }"
    group = "consumer_group(:g) { #{topic} }"
    ["routes.draw { #{group} }", "routes.draw { #{group}; topic(:y) { config(partitions: 2) } }",
     "routes.draw { consumer_group(:g) { subscription_group(:s) { #{topic}; odd } } }",
     "routes.draw { #{group}; topic(:y) { consumer Y; kafka(acks: 1) } }",
     "routes.draw { defaults { max_messages 1 }; if ENV[\"A\"] then #{group} end }"].each do |routes|
      refute default_group?(routes), routes
    end
    ["", "routes.draw { #{group}; #{topic} }", "routes.draw { #{group}; odd }",
     "routes.draw { #{group}; a.each(&b) }", "routes.draw { #{group}; active_job_topic :default }",
     "routes.draw { #{group}; active_job_pattern(/a/) }",
     "routes.draw { #{group}; recurring_tasks(true) }", "routes.draw { subscription_group(:s) { #{topic} } }",
     "routes.draw { #{group}; pattern(/a/) { consumer X } }",
     "routes.draw { #{group} }\n  routes.draw { #{topic} }"].each do |routes|
      assert default_group?(routes), routes
    end
    assert default_group?("routes.draw { #{group} }", "config.active_job.queue_adapter = :sidekiq\n")
  end

  # `concurrency …` of a draft for virtual partitions without max_partitions.
  def virtual_partitions(setting)
    write("karafka.rb", "class A < Karafka::App\n  setup do |config|\n    threads = 12\n    #{setting}\n  end\n  " \
                        "routes.draw { topic(:x) { consumer X; virtual_partitions } }\nend\n")
    assert_equal 0, migrate(@folder, "--write"), @err.string
    File.read("#{@folder}/pelton.rb")[/^ +concurrency (.+), by: :key$/, 1]
  ensure
    FileUtils.rm_f("#{@folder}/pelton.rb")
  end

  # It was 5 for a computed one.
  def test_virtual_partitions_without_a_maximum_have_the_number_of_the_setting
    assert_equal "5", virtual_partitions("")
    assert_equal "12", virtual_partitions("config.concurrency = 12")
    ["ENV.fetch(\"THREADS\", 12).to_i", "threads", "Size::OF_POOL"].each do |code|
      assert_equal "Pelton.config.concurrency", virtual_partitions("config.concurrency = #{code}"), code
    end
  end

  # In Pelton, they raised an error, were never called, or found no messages.
  def test_code_of_consumers_that_broke_only_at_run_time_was_not_listed
    write("a_consumer.rb", <<~RUBY)
      class AConsumer < Karafka::BaseConsumer
        def consume = messages.each { |message| seek(message.offset, reset_offset: true) }
        def revoked = log(messages.last, topic.consumer_group.id)
        def on_shutdown = nil
        def log(*_all) = nil
        def fine = seek(7) && messages.last && topic.upcase
      end
    RUBY
    assert_equal 0, migrate, @err.string
    assert_equal [[2, "seek(message.offset, reset_offset: true)"], [3, "messages"], [3, "topic.consumer_group"],
                  [4, "def on_shutdown = nil"]],
                 @out.string.scan(/^ +(\d+)  (?:same|differs|none) +(.*)$/).drop(1).map { |at, code| [at.to_i, code] }
  end

  # The text of each part of the tree is the code that it was made of.
  def test_code_that_is_copied
    code = ["->(m) do m[0][b[1]] end", "{ \"a b\": 1, c: [%w[d e], :\"f g\"] }", "::A::B.new(*c, **d, &e)",
            "!Rails.env.test?", "\"a\#{b(\"c\")}d\"", "/a\#{b}c/i", "-x", "a ? b : c", "5 * (60 + 1)", "x.()", "[]",
            "{}", "\"\"", ":a", "A[:b]"]
    text = code.map { |expression| "call(#{expression})\n" }.join
    source = Pelton::CLI::Migrate::Source.read("x.rb", text)
    calls = Pelton::CLI::Migrate::Call.statements(source.root).map { |node| Pelton::CLI::Migrate::Call.of(node) }
    copied = calls.map { |call| call.args.first ? source.text(call.args.first) : "{}" }
    assert_equal code, copied
  end

  def test_code_that_cannot_stand_alone_is_not_copied
    ["call(<<~X, 1)\n  text\nX\n", "if b\n  c\nend\n", "case d\nwhen 1 then 2\nend\n"].each do |code|
      source = Pelton::CLI::Migrate::Source.read("x.rb", "a = #{code}")
      refute source.whole?(Pelton::CLI::Migrate::Call.statements(source.root).first.children[1]), code
    end
  end
end
