# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/server/signals"
require "pelton/runtime/notifications"
require "pelton/reporters/log"
require "stringio"

# Signals and the log reporter.
class EdgesTest < Minitest::Test
  def test_signals_are_chained_and_restored
    seen = Thread::Queue.new
    original = Signal.trap("USR2") { seen << :before }
    signals = Pelton::Signals.new(["USR2"]) { |name| seen << name }
    Process.kill("USR2", Process.pid)
    assert_equal ["USR2", :before], [seen.pop, seen.pop]
    signals.restore
    signals.restore
    Process.kill("USR2", Process.pid)
    assert_equal :before, seen.pop
    assert_empty seen
  ensure
    Signal.trap("USR2", original || "DEFAULT")
  end

  FACTS = { group: "g", topic: "orders", partition: 3, offset: 17, attempt: 2, attempts: 3, delay: 1.5, lost: false,
            reason: "SIGTERM", timeout: 60, seconds: 0.5, unfinished_work: ["orders/0: busy"], groups: ["g"],
            concurrency: 5, worker: "pelton.worker#1", client: "c", level: 4, facility: "FAIL", message: "text",
            undelivered: 2, source: "kafka", idle: true, final: false, poller: "pelton.poll", count: 3,
            waits: 9, reasons: ["group g hangs"], process: 2, pid: 77,
            status: nil, signal: "KILL", due_in: 1.5, pending: 4,
            failures: { "orders" => { UNKNOWN_TOPIC_OR_PART: 3 } } }.freeze

  def log_everything(target)
    bus = Pelton::Notifications.new
    bus.subscribe(Pelton::Reporters::Log.new(target))
    error = RuntimeError.new("the reason")
    Pelton::Events::TABLE.each_value do |kind|
      bus.publish(kind.name, **kind.keys.to_h { |key| [key, key == :error ? error : FACTS[key]] })
    end
  end

  # The line in the gem says little about whose call it was.
  def test_the_log_of_an_error_in_a_gem_names_the_line_of_the_application_that_led_there
    gem = "#{Gem.path.first}/gems/activerecord-7.1.0/lib/relation.rb:61:in `find'"
    own = "/srv/shop/app/consumers/orders_consumer.rb:7:in `consume'"
    ours = File.expand_path("../../lib/pelton/consuming/worker.rb:30:in `run'", __dir__)
    kernel = "<internal:kernel>:187:in `loop'"
    { [kernel, gem, ours, own] => "#{gem}, called from #{own}", [own, gem] => own, [gem] => gem, [gem, ours] => gem,
      [kernel] => nil, [] => nil, nil => nil }
      .each { |lines, location| assert_equal [location], [Pelton::LibraryCode.location(lines)] }
  end

  # A server that the command started was said to be started by a line of the command.
  def test_the_call_that_led_to_pelton_is_named_with_its_line
    place = Struct.new(:path, :lineno, :base_label)
    face, app, command = %w[pelton.rb pelton/app.rb pelton/cli/server_command.rb].map do |name|
      place.new(File.expand_path("../../lib/#{name}", __dir__), 1, "start")
    end
    own = place.new("#{Dir.pwd}/config/kafka.rb", 3, "<main>")
    executable = place.new("/usr/local/bin/pelton", 25, "<main>")
    { [app, face, own] => "`start` in config/kafka.rb:3", [app, own, executable] => "`start` in config/kafka.rb:3",
      [app, command, executable] => nil, [own] => nil, [app, face] => nil, [] => nil }
      .each { |places, call| assert_equal [call], [Pelton::LibraryCode.call_of_pelton(places)] }
  end

  def text_of(error)
    Pelton::EventText.of(Pelton::Events::Event.new("error.occurred", { error: error, source: "consumer.consume" })).last
  end

  def test_the_log_of_an_error_has_its_cause_but_not_of_a_decode_error_whose_cause_may_show_the_payload
    wrap = lambda do |kind|
      raise IOError, "card 4111"
    rescue IOError
      raise kind, "no order"
    end
    wrapped = assert_raises(ArgumentError) { wrap.call(ArgumentError) }
    place = "#{__FILE__}:\\d+:in .+"
    assert_match(/: ArgumentError: no order at #{place}; caused by IOError: card 4111 at #{place}\z/, text_of(wrapped))
    refute_includes text_of(assert_raises(Pelton::DecodeError) { wrap.call(Pelton::DecodeError) }), "4111"
    assert_equal "consumer.consume: RuntimeError: x", text_of(RuntimeError.new("x"))
  end

  def test_the_log_names_a_thread_that_leaked
    io = StringIO.new
    bus = Pelton::Notifications.new
    bus.subscribe(Pelton::Reporters::Log.new(io))
    ["prices", nil].each do |name|
      bus.publish("thread.leaked", name: name, started_at: "a.rb:1", seconds: 5.0, at: "a.rb:2")
    end
    assert_match(/thread prices of the app, .*\n.*thread without a name of the app, started at a\.rb:1, /, io.string)
  end

  def test_an_errors_message_of_another_encoding_left_no_line
    io = StringIO.new
    bus = Pelton::Notifications.new
    bus.subscribe(Pelton::Reporters::Log.new(io))
    latin = "gr\xFCn".dup.force_encoding(Encoding::ISO_8859_1)
    ["grün".encode(Encoding::UTF_16LE), latin, latin.b, "gr\xFCn"].each do |text|
      bus.publish("error.occurred", error: IOError.new(text), source: "kafka", group: "gä")
    end
    assert_equal 4, io.string.scan(/kafka \(group gä\): IOError: gr.+n$/).size, io.string
  end

  def test_log_lines
    io = StringIO.new
    log_everything(io)
    lines = io.string.lines
    shape = /\A\d{4}-\d\d-\d\dT[\d:.]+Z (INFO |WARN |ERROR) pelton\[#{Process.pid}\] \S/
    assert(lines.all? { |line| line.match?(shape) })
    ["running: groups g, 5 workers", "stopping (SIGTERM)", "left undone: orders/0: busy",
     "g orders/3 stopped at offset 17", "ERROR pelton[#{Process.pid}] unhealthy: group g hangs",
     "ERROR pelton[#{Process.pid}] process 2 (pid 77) ended: killed by SIGKILL, restarts in 1.5 s",
     "skipped offset 17 after 3 attempts: RuntimeError: the reason", "retries from offset 17 in 1.5 s",
     "WARN  pelton[#{Process.pid}] c FAIL: text", "INFO  pelton[#{Process.pid}] c opened",
     "c disconnected after being idle", "c reconnected", "ERROR pelton[#{Process.pid}] c closed, 2 messages not",
     "c was garbage collected without a close, 2 messages not delivered: call close on it",
     "c (g orders/3): transaction aborted after 0.5 s: RuntimeError: the reason",
     "ERROR pelton[#{Process.pid}] c failed and is replaced by a new client (attempt 2): RuntimeError: the reason",
     "c has a new client after RuntimeError: the reason", "ERROR pelton[#{Process.pid}] c: RuntimeError: the reason",
     "ERROR pelton[#{Process.pid}] c: a flush ended with 4 messages still in flight; c: not delivered since the " \
     "last flush: orders: 3 UNKNOWN_TOPIC_OR_PART",
     "3 events of pelton.poll were published late", "c: the queue was full, produce waited 0.5 s for space (9 times)",
     "kafka (client c, group g, topic orders"].each do |text|
      assert_includes io.string, text
    end
  end

  def test_one_attempt_is_no_plural
    %w[message.skipped message.dead_lettered message.postponed partition.stopped].each do |name|
      facts = { **FACTS, attempts: 1, error: IOError.new("x"), to: "dead" }
      _, text = Pelton::EventText.of(Pelton::Events::Event.new(name, facts))
      assert_match(/ after 1 attempt\b/, text)
    end
  end

  # What happens to producers is logged, but for what happens all the time.
  def test_log_reports_producer_events
    told = Pelton::Reporters::Log.instance_methods.grep(/\Aon_/).map(&:to_s)
    silent = %w[message.dropped message.produced message.acknowledged message.purged transaction.started
                transaction.committed]
    names = Pelton::Events::TABLE.keys.grep(/\A(producer|transaction|message)\./) - silent
    assert_empty names.map { |name| Pelton::Events.method_name(name).to_s } - told
    # It would switch them on for every client.
    refute_includes told, "on_statistics_emitted"
  end

  def test_log_reports_successful_work
    lines = []
    logger = Object.new
    logger.define_singleton_method(:add) { |severity, text| lines << [severity, text] }
    bus = Pelton::Notifications.new
    bus.subscribe(Pelton::Reporters::Log.new(logger))
    bus.publish("producer.closed", client: "c", undelivered: 0)
    bus.publish("producer.disconnected", client: "c", idle: false)
    bus.publish("transaction.aborted", client: "c", group: nil, topic: nil, partition: nil, seconds: 1, error: nil)
    bus.publish("producer.fatal", client: "c", error: RuntimeError.new("x"), attempt: 1, final: true)
    assert_equal [[1, "c closed"], [1, "c disconnected"], [1, "c: transaction aborted after 1.0 s"],
                  [3, "c failed and is not replaced (attempt 1): RuntimeError: x"]], lines
  end

  def test_log_to_a_logger
    lines = []
    logger = Object.new
    logger.define_singleton_method(:add) { |severity, text| lines << [severity, text] }
    log_everything(logger)
    assert_includes lines, [1, "revoked g orders/3"]
    assert_includes lines, [2, "c FAIL: text"]
  end
end
