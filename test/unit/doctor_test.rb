# frozen_string_literal: true

require "test_helper"
require "json"
require "socket"
require "support/fake_admin"
require "pelton/app"
require "pelton/cli/doctor"

# `pelton doctor` without Kafka: what it says of an app, of Ruby, of times.
class DoctorTest < Minitest::Test
  # What doctor asks of Pelton::Native.
  class Native
    attr_reader :asked
    attr_accessor :topics
    attr_writer :shared

    def initialize
      @asked = []
      @topics = {}
      @shared = false
    end

    def librdkafka_version = "2.12.1"
    def librdkafka_features = %w[ssl oidc]
    def librdkafka_shared? = @shared
    def check_options(_options) = nil
    def knows_pattern?(regexp) = !regexp.source.include?("(?=")

    def metadata(options, topic, _timeout)
      @asked << [options, topic]
      { brokers: [[1, "a", 9092]], topics: @topics }
    end
  end

  class Consumer < Pelton::Consumer
    def consume = nil
  end

  def setup
    @native = Native.new
    # What the admin client of doctor finds; the fake above answers the other questions.
    @kafka = Fakes::AdminCluster.new
    @app = Pelton::App.new(native: @kafka.native)
    @app.configure { |config| config.group_id = "billing" }
  end

  def examine(**options) = Pelton::CLI::Doctor.new(@app, native: @native, offline: true, **options).examine

  def kafka(options) = @app.configure { |config| config.kafka = options }
  def route(*name, &block) = @app.routes { topic(*name, to: Consumer, &block) }

  def assert_found(level, about, text, report = examine)
    found = report.findings.select { |finding| finding[:about] == about }
    assert found.any? { |finding| finding[:level] == level && text === finding[:text] }, # rubocop:disable Style/CaseEquality
           "no #{level} of #{about} like #{text.inspect}: #{report.findings}"
  end

  def refute_found(about, report = examine)
    assert_empty(report.findings.select { |finding| finding[:about] == about })
  end

  def test_versions_and_machine
    facts = examine.facts
    assert_equal Pelton::VERSION, facts["versions"]["pelton"]
    assert_equal "2.12.1", facts["versions"]["librdkafka"]
    assert_equal "ssl, oidc", facts["versions"]["features"]
    assert_includes facts["versions"]["native library"], "ABI #{RUBY_VERSION[/\d+\.\d+/]}"
    assert_equal RUBY_DESCRIPTION, facts["versions"]["ruby"]
    assert_operator facts["machine"]["cores"], :>=, 1
    budget = Pelton::MemoryBudget.new(@app.config)
    assert_equal ["#{budget.total >> 20} MB", "#{budget.decoded >> 20} MB"],
                 [facts["machine"]["config.memory"], facts["decoding"]["memory"]]
  end

  def test_a_librdkafka_of_the_system_lacks_the_limit_of_batches
    refute_found "librdkafka"
    @native.shared = true
    assert_found :note, "librdkafka", /not limit what a batch of gzip, lz4 or snappy becomes/
  end

  def test_no_routes_are_a_note_and_wrong_ones_an_error
    assert_found :note, "routes", /load the file that declares them with -r/
    route("orders") { tick_every 5 }
    report = examine
    assert_found :error, "routes", /has no method tick/, report
    refute report.healthy?
  end

  def test_doctor_reports_the_settings_of_a_topic_and_their_reasons
    route("plain") { filter { true } }
    route("ahead") { decode :json, freeze: true }
    route("bytes") { decode :bytes }
    route("filtered") do
      where("type").matches(/a(?=b)/)
      concurrency 8
    end
    report = examine
    topics = report.facts["group billing"]
    assert_match(/worker that reads a payload/, topics["plain"]["decoded"])
    assert_equal "1 in Ruby", topics["plain"]["filters"]
    assert_equal "native threads, as it arrives: decode :json", topics["ahead"]["decoded"]
    assert_match(/not at all/, topics["bytes"]["decoded"])
    assert_match(/native threads/, topics["filtered"]["decoded"])
    assert_equal "native threads; /a(?=b)/ by Ruby", topics["filtered"]["where"]
    assert_match(/per key, 8 jobs/, topics["filtered"]["order"])
    assert_found :note, "topic plain", /with decode :json, native threads parse/, report
    assert_found :note, "topic plain", /`filter` runs in Ruby/, report
    assert_found :note, "topic filtered", /only Ruby's Regexp supports/, report
    refute_found "topic ahead", report
  end

  # Makes payloads.
  class Decoder
    def call(message) = message.raw_payload
  end

  def test_deserializers
    route("inline") { deserializer Decoder.new }
    route("threads") { deserializer Decoder.new, parallel: :thread }
    route("keys") do
      key_deserializer :json
      headers_deserializer Decoder.new
      decode :bytes
    end
    route("small") do
      deserializer Decoder.new, parallel: :auto
      max_messages 10
    end
    report = examine
    topics = report.facts["group billing"]
    assert_equal "DoctorTest::Decoder, by the worker that reads them", topics["inline"]["payloads"]
    assert_equal "DoctorTest::Decoder, ahead, by a pool of threads", topics["threads"]["payloads"]
    assert_equal "not at all: no `decode`", topics["inline"]["decoded"]
    assert_equal ["as json, where they are read", "DoctorTest::Decoder, where they are read"],
                 topics["keys"].values_at("keys", "headers")
    refute_found "topic inline", report
    assert_found :note, "topic threads", /that wait/, report
    assert_found :warning, "topic small", /its batches of 10 messages are smaller than `parallel_min` \(50\)/, report
    ractors = Pelton::Parallel::RactorWorker.available?
    assert_found :note, "topic small", ractors ? /compare with concurrency 1/ : /no Ractors below Ruby 4.0/, report
    assert_equal ractors, report.facts["decoding"]["engines"].include?("Ractors")
  end

  def test_ractors
    route("ractors") { deserializer Decoder.new, parallel: :ractor }
    report = examine
    assert_match(/by a pool of Ractors/, report.facts["group billing"]["ractors"]["payloads"])
    assert_found :note, "topic ractors", /compare with concurrency 1 \(now 5\)/, report
  rescue Pelton::ConfigError => e
    raise if Pelton::Parallel::RactorWorker.available?

    assert_match(/needs Ruby 4.0 or later/, e.message)
  end

  def test_times_that_contradict_each_other
    route("orders")
    kafka "session.timeout.ms" => 8000, "fetch.queue.backoff.ms" => 1000, "auto.commit.interval.ms" => 0,
          "max.poll.interval.ms" => 20_000, "socket.timeout.ms" => 1200, "fetch.wait.max.ms" => 500,
          "message.timeout.ms" => 300_000
    about = "group billing"
    report = examine
    assert_found :warning, about, /heartbeat.interval.ms \(3 s\) is more than a third of session.timeout.ms/, report
    assert_found :warning, about, /fetch.queue.backoff.ms = 1000/, report
    assert_found :warning, about, /auto.commit.interval.ms = 0/, report
    assert_found :warning, about, /revocation_timeout \(30 s\) is not shorter than max.poll.interval.ms/, report
    assert_found :warning, about, /fetch.wait.max.ms \(0.5 s\)/, report
    assert_found :warning, "delivery_timeout", /180 s is shorter than message.timeout.ms \(300 s\)/, report
    assert report.healthy?
    refute report.healthy?(strict: true)
  end

  def test_time_in_milliseconds_is_a_warning_that_names_the_hours
    route("orders")
    @app.config.shutdown_timeout = 60_000
    assert_found :warning, "shutdown_timeout", /60000 s are 16.7 hours: .*in seconds, not in milliseconds/, examine
  end

  def test_option_of_the_classic_protocol_with_the_consumer_protocol_is_an_error
    route("orders")
    kafka "group.protocol" => "consumer", "session.timeout.ms" => 60_000
    report = examine
    assert_found :error, "group billing", /session.timeout.ms is not supported for group.protocol=consumer/, report
    refute report.healthy?
    kafka "group.protocol" => "consumer", "group.instance.id" => "billing-0"
    refute_found "group billing"
  end

  def test_times_that_librdkafka_refuses
    route("orders")
    kafka "session.timeout.ms" => 30_000, "max.poll.interval.ms" => 20_000
    assert_found :error, "group billing", /is longer than max.poll.interval.ms/
    kafka "session.timeout.ms" => 30_000, "max.poll.interval.ms" => 20_000, "group.protocol" => "consumer"
    texts = examine.findings.map { |finding| finding[:text] }.grep(/session.timeout.ms/)
    assert_equal 1, texts.size
    assert_match(/\Asession.timeout.ms is not supported for group.protocol=consumer, .*: remove it\z/, texts.first)
  end

  def test_defaults_hurt_nothing
    route("orders") { decode :json }
    report = examine
    assert_empty(report.findings.reject { |finding| finding[:level] == :note })
    assert report.healthy?(strict: true)
  end

  def test_an_option_that_does_not_exist
    route("orders")
    @native.define_singleton_method(:check_options) do |_options|
      raise Pelton::ConfigError.new("fetch.mni.bytes", 1, "is no option")
    end
    assert_found :error, "group billing", /fetch.mni.bytes/
  end

  def test_doctor_reports_effective_options_without_secrets
    route("orders")
    asked = []
    @native.define_singleton_method(:effective_options) do |kind, options|
      asked << [kind, options["group.id"]]
      { "ssl.key.pem" => "geheim", "linger.ms" => "5" }
    end
    facts = examine(options: true).facts
    assert_equal [[:producer, nil], [:consumer, "billing"]], asked
    assert_equal({ "ssl.key.pem" => Pelton::Secrets::MASK, "linger.ms" => "5" }, facts["options of group billing"])
    refute examine.facts.key?("options of producer")
  end

  def test_options_with_which_no_client_starts_are_an_error
    @native.define_singleton_method(:effective_options) do |_kind, _options|
      raise Pelton::ConfigError.new("kafka", "x", "no such certificate")
    end
    assert_found :error, "producer", /no such certificate/, examine(options: true)
  end

  def machine(**options)
    report = Pelton::CLI::Doctor::Report.new
    Pelton::CLI::Doctor::Machine.new(@app.config, @native, **options).examine(report)
    report
  end

  def test_limits_and_collector
    assert_found :warning, "descriptors", /limit is 256/, machine(descriptors: [256, 1024])
    environment = { "RUBY_GC_MALLOC_LIMIT" => "1000000", "RUBY_GC_HEAP_GROWTH_FACTOR" => "1.1", "HOME" => "/" }
    report = machine(environment: environment)
    assert_found :warning, "RUBY_GC_MALLOC_LIMIT", /1000000 bytes/, report
    assert_equal environment.first(2).map { |pair| pair.join("=") }, report.facts["machine"]["garbage collection"]
    GC.disable
    assert_found :warning, "GC.disable", /grows/, machine
    assert GC.enable, "left as it was"
    refute_found "GC.disable", machine
  end

  def test_the_heap_of_a_server_is_larger_unless_the_environment_has_one
    advice = Pelton::LargerHeap.to_s
    assert_found :note, "heap", /\Apelton server starts with a larger one.* #{Regexp.escape(advice)}\z/,
                 machine(environment: { "RUBY_GC_MALLOC_LIMIT" => "64000000" })
    assert_found :note, "heap", /leaves it as RUBY_GC_HEAP_GROWTH_FACTOR=1.4\z/,
                 machine(environment: { "RUBY_GC_HEAP_GROWTH_FACTOR" => "1.4" })
    assert_includes File.read("#{__dir__}/../../docs/guides/parallel-decoding.md"), "export #{advice}\n"
  end

  def test_more_threads_than_cores
    cores = Pelton::Container.cores
    @app.configure do |config|
      config.concurrency = cores + 1
      config.decoding_threads = cores + 1
      config.parallel_workers = cores + 1
    end
    assert_found :note, "concurrency", /#{cores + 1} workers/, machine
    assert_found :warning, "decoding_threads", /#{cores + 1} threads/, machine
    assert_found :warning, "parallel_workers", /#{cores + 1} workers/, machine
    @app.configure { |config| config.concurrency = config.decoding_threads = config.parallel_workers = cores }
    %w[concurrency decoding_threads parallel_workers].each { |about| refute_found about, machine }
  end

  def test_an_ffi_that_loses_objects
    skip "FFI itself is loaded here" if defined?(::FFI)

    { "1.16.3" => true, "1.17.0" => false, "1.9.25" => true }.each do |version, hurts|
      Object.const_set(:FFI, Module.new.tap { |ffi| ffi.const_set(:VERSION, version) })
      found = machine.findings.any? { |finding| finding[:about] == "ffi" && finding[:level] == :warning }
      assert_equal hurts, found, version
      assert_equal version, machine.facts["versions"]["ffi"]
    ensure
      Object.__send__(:remove_const, :FFI)
    end
  end

  def test_a_broker_that_is_not_there
    route("orders")
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    kafka "bootstrap.servers" => "127.0.0.1:#{port}", "sasl.password" => "geheim"
    report = examine(offline: false, timeout: 5)
    assert_found :error, "brokers 127.0.0.1:#{port}", /cannot reach any address/, report
    assert_found :warning, "broker 127.0.0.1:#{port}", /refused/, report
    assert_empty @native.asked
    refute_includes report.to_s + report.to_json, "geheim"
  end

  def test_no_servers_are_an_error_and_offline_nothing
    route("orders")
    assert_found :error, "group billing", /bootstrap.servers is not set/, examine(offline: false)
    refute_found "group billing"
  end

  # [servers, …] that accept and say nothing.
  def listening
    TCPServer.open("127.0.0.1", 0) { |server| yield "127.0.0.1:#{server.addr[1]}" }
  end

  def test_topics_that_are_not_there
    route("orders") do
      retry_in 10
      dead_letters "orders.dead"
      on_failure ->(_) { [:dead_letter, "orders.odd"] }, dead_letters: ["orders.odd"]
    end
    @native.topics = { "orders" => 2, "broken" => RuntimeError.new }
    listening do |server|
      kafka "bootstrap.servers" => server
      report = examine(offline: false)
      assert_equal 2, report.facts["group billing"]["orders"]["partitions"]
      assert_equal 1, report.facts["brokers"][server]["topics"]
      assert_found :warning, "topic orders.retry.10", /does not exist: create it for the retries of orders\z/, report
      assert_found :warning, "topic orders.dead", /for the dead letters of orders\z/, report
      assert_found :warning, "topic orders.odd", /for the dead letters of orders\z/, report
      assert_equal 1, report.findings.count { |finding| finding[:about] == "topic orders.dead" }
      refute(report.findings.any? { |finding| finding[:about] == "topic orders" && finding[:level] != :note })
    end
  end

  def test_partitions_that_are_not_there
    @native.topics = { "four" => 3 }
    route("four") { partitions 0..3 }
    listening do |server|
      kafka "bootstrap.servers" => server
      assert_found :error, "topic four", /there are 0 to 2/, examine(offline: false)
    end
  end

  def test_patterns_and_workers_without_work
    @native.topics = { "logs.a" => 1, "logs.b" => 2, "other" => 9 }
    route(/^logs\.\w+$/)
    route(/^none$/)
    @app.configure { |config| config.concurrency = 4 }
    listening do |server|
      kafka "bootstrap.servers" => server
      report = examine(offline: false)
      assert_equal 3, report.facts["group billing"]['/^logs\.\w+$/']["partitions"]
      assert_found :warning, "topic /^none$/", /matches no topic/, report
      assert_found :note, "concurrency", /4 workers, but at most 3 jobs/, report
    end
  end

  def test_topic_that_does_not_exist_yet_gets_no_note_about_0_jobs
    route("later")
    listening do |server|
      kafka "bootstrap.servers" => server
      report = examine(offline: false)
      assert_found :warning, "topic later", /does not exist/, report
      assert_empty(report.findings.select { |finding| finding[:text].include?("at most 0 jobs") })
    end
  end

  def test_doctor_asks_each_cluster_once
    @app.routes do
      topic "orders", to: Consumer
      group("audit", kafka: { "session.timeout.ms" => 20_000 }) { topic "orders", to: Consumer }
    end
    listening do |server|
      kafka "bootstrap.servers" => server
      report = examine(offline: false)
      assert_equal 1, @native.asked.size
      assert_equal 1, report.findings.count { |finding| finding[:text] == "does not exist" }
    end
  end

  def test_json_says_the_same
    route("orders")
    report = examine
    parsed = JSON.parse(report.to_json)
    assert_equal [*report.facts.keys, "findings"], parsed.keys
    assert_equal report.findings.size, parsed["findings"].size
    assert_equal %w[level about text], parsed["findings"].first.keys
  end

  def test_facts_and_findings_stand_in_columns
    @app.configure { |config| config.concurrency = Pelton::Container.cores + 1 }
    route("orders") { retries 0 }
    lines = examine.to_s.lines.grep(/^  (error|warning|note) /)
    refute_empty lines
    lines.each { |line| assert_match(/\A  (error   |warning |note    ) \S/, line) }
    assert_match(/^versions\n  pelton {13}\d/, examine.to_s)
  end
end
