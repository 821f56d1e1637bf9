# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/app"
require "pelton/reporters/log"
require "logger"
require "stringio"
require "support/forked_child"

# config.logger: what an app that nobody watches says by itself, and how often.
class FailureLogTest < Minitest::Test
  include ForkedChild

  # Keeps what it is told: [[:warn, "text"], …]
  class Lines
    attr_reader :all

    def initialize = @all = []

    %i[debug info warn error].each { |name| define_method(name) { |text| @all << [name, text] } }
  end

  DEAD = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused"

  def setup
    @lines = Lines.new
    @config = Pelton::Config.new
    @config.logger = @lines
    @bus = Pelton::Notifications.new
  end

  def teardown
    @log&.report(last: true)
    super
  end

  def log = @log = Pelton::FailureLog.new(@config, @bus)
  def texts = @lines.all.map(&:last)

  # Does its work while the clock shows so many seconds: however long that takes, its window is not over.
  def at(seconds, &work) = Pelton::Clock.stub(:now, seconds, &work)

  def connection(reason = DEAD, name = :_TRANSPORT, client: "c")
    @bus.publish("error.occurred", error: Pelton::KafkaError.new(-195, name, reason), source: "kafka", client: client)
  end

  def failed_delivery(topic, name = :_MSG_TIMED_OUT)
    error = Pelton::DeliveryError.new(-192, name, "Local: Message timed out", false, false, topic, 0)
    @bus.publish("message.delivery_failed", client: "c", error: error, topic: topic, partition: 0, label: nil)
  end

  def stderr
    old = $stderr
    $stderr = StringIO.new
    yield
    $stderr.string
  ensure
    $stderr = old
  end

  # A group's error has no client. The log raised a KeyError, so the line was lost.
  def test_connection_error_of_a_group_without_a_broker_in_its_reason_is_logged
    log
    %w[billing billing shop].each do |group|
      @bus.publish("error.occurred", error: Pelton::KafkaError.new(-185, :_TIMED_OUT, "Timed out"), source: "kafka",
                                     group: group)
    end
    assert_equal ["pelton: kafka (group billing)", "pelton: kafka (group shop)"], texts.map { |text| text[/\A.*?\)/] }
  end

  def test_a_child_that_was_forked_during_the_exit_flush_did_not_log_its_undelivered_messages
    @config.logger = Pelton::DefaultLogger
    log
    failed = { client: "c", failures: { "x" => { A: 1 } }, pending: 0 }
    tell = -> { stderr { @bus.publish("producer.flush_failed", **failed) } }
    Pelton::FailureLog.process_ends = true
    assert_empty tell.call
    assert_match(/x: 1 A/, in_child { tell.call })
  ensure
    Pelton::FailureLog.process_ends = false
  end

  def test_failures_reported_in_a_trap_are_counted
    log
    done = Thread::Queue.new
    before = Signal.trap("USR2") do
      12.times { @bus.publish("producer.flush_failed", client: "c", failures: { "x" => { A: 1 } }, pending: 0) }
      done << true
    end
    assert_equal("", stderr { Process.kill("USR2", Process.pid) && done.pop })
    Thread.list.each { |thread| thread.join if thread.name == "pelton.events.trap" }
    @log.report(last: true)
    assert_equal 11, texts.size
    assert_match(/and 1 more like it/, texts.last)
  ensure
    Signal.trap("USR2", before)
  end

  def test_dead_broker_is_one_line_for_all_clients_and_messages
    log
    184.times do |number|
      connection(client: "c#{number % 5}")
      @bus.publish("kafka.log", client: "c", level: 3, facility: "FAIL", message: "[thrd:x]: #{DEAD}")
      connection("1/1 brokers are down", :_ALL_BROKERS_DOWN)
    end
    assert_equal 1, texts.size
    assert_match(/\Apelton: kafka \(client c0\): Pelton::KafkaError: #{Regexp.escape(DEAD)}/, texts.first)
    @log.report(last: true)
    assert_equal 2, texts.size
    assert_match(/\(and 182 more like it within 30 s\)\z/, texts.last)
    @log.report(last: true)
    assert_equal 2, texts.size
  end

  def test_another_broker_and_another_reason_have_lines_of_their_own
    log
    2.times do
      connection
      connection(DEAD.gsub("127.0.0.1:1", "127.0.0.1:2"))
      connection("sasl_ssl://kafka:9093/1: SASL authentication error", :_AUTHENTICATION)
      connection("ssl://kafka:9093/1: SSL handshake failed", :_SSL)
    end
    assert_equal 4, texts.size
  end

  # librdkafka names it otherwise than the other connections of the same broker.
  def test_connection_to_the_group_coordinator_counts_for_its_broker
    log
    connection
    connection("GroupCoordinator: #{DEAD.sub("/bootstrap", "")}")
    connection("GroupCoordinator: 127.0.0.1:1: Connect to ipv4#127.0.0.1:1 failed: Connection refused")
    connection("ssl://127.0.0.1:1/7: Disconnected", client: "other")
    assert_equal 1, texts.size
  end

  def test_a_disconnection_that_is_no_error_is_left_out
    log
    @bus.publish("kafka.log", client: "c", level: 4, facility: "FAIL", message: "[thrd:x]: Disconnected")
    assert_empty texts
  end

  def test_all_brokers_down_is_logged_only_without_another_line
    log
    2.times { connection("1/1 brokers are down", :_ALL_BROKERS_DOWN) }
    assert_empty texts
    @log.report(last: true)
    assert_equal 1, texts.size
  end

  # librdkafka reports this first when a connection breaks, and why it cannot connect again after that.
  def test_all_brokers_down_is_not_logged_when_its_reason_follows
    log
    connection("1/1 brokers are down", :_ALL_BROKERS_DOWN)
    connection
    @log.report(last: true)
    assert_equal 1, texts.size
  end

  def test_the_next_window_has_a_line_again_and_the_count_of_the_last_one
    log
    at(100.0) { 3.times { connection } }
    at(130.0) { connection }
    assert_equal 3, texts.size
    assert_match(/and 1 more like it within 30 s/, texts[1])
  end

  def test_undelivered_messages_are_counted_by_topic_and_reason
    log
    1000.times { failed_delivery("orders") }
    2.times { failed_delivery("clicks") }
    failed_delivery("orders", :MSG_SIZE_TOO_LARGE)
    assert_equal 3, texts.size
    @log.report(last: true)
    assert_equal 5, texts.size
    assert(texts.any? { |text| text.include?("for orders/0 (and 998 more like it") })
  end

  def test_due_lines_are_written_by_a_thread_that_waits_anyway
    log
    assert_nil @log.due
    at(100.0) { 2.times { connection } }
    at(129.0) { 2.times { assert_equal 1, Pelton::RepeatLimit.due.tap { Pelton::RepeatLimit.report } } }
    assert_equal 1, texts.size
    at(130.0) { assert_equal 0, Pelton::RepeatLimit.due.tap { Pelton::RepeatLimit.report } }
    assert_equal 2, texts.size
    assert_nil Pelton::RepeatLimit.due
  end

  def test_other_failures_have_ten_lines_of_a_kind
    log
    12.times do |offset|
      @bus.publish("error.occurred", error: RuntimeError.new("no"), source: "consumer.consume", group: "g",
                                     topic: "orders", partition: 0, offset: offset)
    end
    assert_equal 10, texts.size
    assert_equal [:error], @lines.all.map(&:first).uniq
  end

  def test_a_failure_that_is_only_counted_makes_no_text
    log
    asked = 0
    error = RuntimeError.new.tap { |raised| raised.define_singleton_method(:message) { "no. #{asked += 1}" } }
    1000.times { @bus.publish("error.occurred", error: error, source: "consumer.consume", group: "g") }
    assert_equal 11, asked, "ten lines, and the first one that is only counted"
    @log.report(last: true)
    assert_match(/ no\. 11.*\(and 989 more like it within 30 s\)\z/, texts.last)
  end

  def test_only_failures_are_written
    log
    @bus.publish("producer.closed", client: "c", undelivered: 0)
    @bus.publish("producer.unclosed", client: "c", undelivered: 0)
    @bus.publish("transaction.aborted", client: "c", group: nil, topic: nil, partition: nil, seconds: 1.0, error: nil)
    @bus.publish("kafka.log", client: "c", level: 6, facility: "X", message: "chatter")
    assert_empty texts
    @bus.publish("producer.closed", client: "c", undelivered: 2)
    @bus.publish("kafka.log", client: "c", level: 4, facility: "MAXPOLL", message: "late")
    assert_equal [:error, :warn], @lines.all.map(&:first)
  end

  # librdkafka repeats the request, so a redrive or a start after a kill wrote a warning that meant nothing.
  def test_a_request_that_a_busy_coordinator_refuses_for_a_moment_is_not_written
    log
    refusals = ["Coordinator load in progress", "Coordinator not available",
                "Producer attempted to update a transaction while another concurrent operation on the same " \
                "transaction was ongoing"]
    refusals.each do |reason|
      message = "[thrd:main]: Failed to acquire transactional PID from broker k:9092/1: Broker: #{reason}: retrying"
      @bus.publish("kafka.log", client: "c", level: 4, facility: "GETPID", message: message)
    end
    assert_equal ["Coordinator not available"], texts.map { |text| text[/Broker: (.*): retrying/, 1] }
  end

  # What goes well must not become an event only because there is a log.
  def test_nothing_that_costs_time_is_listened_to
    log
    %w[statistics.emitted message.acknowledged message.purged consumer.consumed stats.measured].each do |name|
      refute @bus.wanted?(name), name
    end
  end

  def test_the_default_is_stderr_from_warn_on
    app = Pelton::App.new
    assert_same Pelton::DefaultLogger, app.config.logger
    written = stderr do
      app.notifications.publish("error.occurred", error: IOError.new("a\nb\e[31m"), source: "kafka")
      Pelton::DefaultLogger.debug("x")
      Pelton::DefaultLogger.info("x")
      Pelton::DefaultLogger.warn { "block" }
    end
    first, last = written.lines
    assert_match(/\A\d{4}-\S+Z ERROR pelton\[#{Process.pid}\] kafka: IOError: a\\nb\\e\[31m\n\z/, first)
    assert_match(/ WARN  pelton\[\d+\] block\n\z/, last)
  end

  def test_closed_stderr_raises_no_error
    old = $stderr
    $stderr = StringIO.new.tap(&:close)
    refute Pelton::DefaultLogger.warn("x")
  ensure
    $stderr = old
  end

  # Ruby takes every object with `write` as $stderr.
  def test_stderr_that_raises_or_has_another_encoding_raises_no_error
    old = $stderr
    io = ->(&write) { Object.new.tap { |object| object.define_singleton_method(:write, &write) } }
    bare = io.call { |text| (@all ||= +"") << text }
    ascii = io.call { |text| (@all ||= +"") << text.encode("US-ASCII") }
    $stderr = io.call { |_| raise "no" }
    refute Pelton::DefaultLogger.warn("x")
    [bare, ascii].each do |stream|
      $stderr = stream
      assert Pelton::DefaultLogger.warn("gr\u00fcn")
    end
    assert_match(/ grün\n\z/, bare.instance_variable_get(:@all))
    assert_match(/ gr\?n\n\z/, ascii.instance_variable_get(:@all))
  ensure
    $stderr = old
  end

  def test_nil_is_silent
    app = Pelton::App.new.configure { |config| config.logger = nil }
    assert_nil app.config.logger
    assert_empty(stderr { app.notifications.publish("error.occurred", error: IOError.new("a"), source: "kafka") })
  end

  def test_a_logger_of_rails_is_taken_where_none_was_set
    lines = @lines
    rails = Module.new { define_singleton_method(:logger) { lines } }
    Object.const_set(:Rails, rails)
    config = Pelton::Config.new
    assert_same @lines, config.logger
    config.logger = nil
    assert_nil config.logger
  ensure
    Object.send(:remove_const, :Rails) if rails && Object.const_defined?(:Rails) && ::Rails.equal?(rails)
  end

  def test_object_that_is_not_a_logger_is_refused
    [Object.new, "stderr", $stderr, :stdout].each do |value|
      error = assert_raises(Pelton::ConfigError) { @config.logger = value }
      assert_match(/debug, info, warn and error/, error.message)
    end
  end

  def test_a_full_log_takes_the_place_of_the_default_one_and_not_of_one_that_was_set
    [[Pelton::Config.new, 0], [@config, 1]].each do |config, lines|
      bus = Pelton::Notifications.new
      Pelton::FailureLog.new(config, bus)
      all = StringIO.new
      bus.subscribe(Pelton::Reporters::Log.new(all))
      written = stderr { bus.publish("error.occurred", error: IOError.new("a"), source: "kafka") }
      assert_equal [1, 0, lines], [all.string.lines.size, written.lines.size, texts.size],
                   "lines of the full log, lines of stderr, lines of the short log"
    end
  end

  # `config.logger = Logger.new($stdout)` and `pelton server`.
  def test_a_failure_is_one_line_where_the_logger_and_the_full_log_write_to_the_same_place
    all = StringIO.new
    ours = Logger.new(all)
    other = StringIO.new
    [[ours, all], [ours, ours], [ours, other], [Logger.new(other), all], [Logger.new(nil), all]].each do |own, target|
      bus = Pelton::Notifications.new
      @config.logger = own
      Pelton::FailureLog.new(@config, bus)
      bus.subscribe(Pelton::Reporters::Log.new(target))
      bus.publish("error.occurred", error: IOError.new("a"), source: "kafka")
      assert_equal 1, all.string.lines.size, [own, target].inspect
      all.truncate(0) && all.rewind
    end
    assert_equal 2, other.string.lines.size
  end

  def test_logger_that_raises_stops_no_other
    broken = Lines.new
    broken.define_singleton_method(:error) { |_| raise "disk full" }
    @config.logger = broken
    log
    heard = []
    @bus.subscribe("error.occurred") { |event| heard << event[:source] }
    written = stderr { connection }
    assert_equal ["subscriber of error.occurred", "kafka"].sort, (heard + ["subscriber of error.occurred"]).uniq.sort
    assert_match(/disk full/, written)
  end

  # The count is written by the thread that brings all events, or at process exit.
  def test_a_logger_that_raises_when_a_count_is_due_harms_no_other_log
    broken = Lines.new
    config = Pelton::Config.new.tap { |own| own.logger = broken }
    other = Pelton::FailureLog.new(config, @bus)
    log
    3.times { connection }
    broken.define_singleton_method(:error) { |_| raise IOError, "disk\nfull" }
    written = stderr { Pelton::RepeatLimit.report(last: true) }
    assert_match(/and 1 more like it/, texts.last)
    assert_match(/ERROR pelton\[\d+\] a log raised IOError: disk\\nfull$/, written)
  ensure
    other&.report(last: true)
  end

  def test_a_trap_may_publish
    log
    old = trap("USR1") { connection }
    Process.kill("USR1", Process.pid)
    eventually(5) { texts.size == 1 }
  ensure
    trap("USR1", old || "DEFAULT")
  end

  def test_forked_child_does_not_log_its_parents_failures
    log
    3.times { connection }
    reader, writer = IO.pipe
    pid = fork do
      Pelton::RepeatLimit.report(last: true)
      connection
      writer.puts(texts.size)
      exit!(0)
    end
    Process.wait(pid)
    assert_equal "2\n", reader.gets, "the parent's line, and one of its own"
  ensure
    [reader, writer].each(&:close)
    @log.report(last: true)
  end

  def test_kinds_are_bounded
    log
    (Pelton::RepeatLimit::KINDS + 10).times { |number| failed_delivery("t#{number}") }
    assert_includes @log.inspect, "#{Pelton::RepeatLimit::KINDS} kinds"
  end
end
