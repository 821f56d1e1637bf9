# frozen_string_literal: true

require_relative "../test_helper"
require "support/server_kit"
require "pelton/reports/reports"
require "pelton/reports/process_state"
require "pelton/reports/service"

# What a server process reports of itself to config.report_topic, and what readers accept. (The embedded cluster's twin:
# test/embedded/reports_test.rb.)
class ReportsTest < Minitest::Test
  include ServerKit

  REPORTS = "pelton.reports"

  def reporting(**settings) = start(report_topic: REPORTS, report_interval: 0.02, **settings)

  # All reports so far: the native producer that sends them gets nothing else.
  def sent = @native.producers.flat_map(&:messages).select { |topic, *| topic == REPORTS }

  def reports = sent.map { |_, text, *| Pelton::Reports::Report.parse(text) || flunk("no report: #{text}") }

  def report(&condition) = eventually { reports.reverse.find(&condition) }

  def assign(*places) = subscription.assign_now(*places)

  def test_without_a_topic_nothing_is_reported_or_counted
    start
    assert_empty @native.producers
    refute_includes app.server.instance_variable_get(:@scope).instance_variable_get(:@backgrounds).map(&:name),
                    "pelton.reports"
  end

  def test_a_report_names_the_process_and_its_versions
    reporting(client_id: "shop")
    found = report { |report| report.state == "running" }
    assert_equal [Process.pid, "shop", ["g"], 2, 0.02, nil],
                 [found.pid, found.name, found.groups, found.workers, found.interval, found.process]
    assert_equal [Pelton::VERSION, RUBY_VERSION, Socket.gethostname], [found.pelton, found.ruby, found.host]
    assert_operator found.threads, :>, 2
    assert_operator found.rss, :>, 1_000_000
    assert_equal({ running: 0, waiting: 0, aside: 0 }, found.jobs)
    assert_equal [found.id] * sent.size, sent.map { |_, _, key| key } # one partition, so in their order
  end

  def test_a_report_has_the_changed_settings_without_secrets
    config = { "bootstrap.servers" => "a:1", "sasl.password" => "s3cret", "http.proxy" => "http://joe:pw@proxy" }
    app(report_topic: REPORTS).configure do |changing|
      changing.kafka = config
      changing.concurrency = 7
      changing.on_error = ->(_error, _context) {}
      changing.polling.max_time = 21
    end
    found = Pelton::Settings::Changed.of(app.config)
    assert_equal({ "concurrency" => "7", "on_error" => "(Proc)", "polling.max_time" => "21",
                   "report_topic" => "\"pelton.reports\"", "kafka.bootstrap.servers" => "\"a:1\"",
                   "kafka.sasl.password" => "[hidden]", "kafka.http.proxy" => "\"http://[hidden]@proxy\"" },
                 found.except("group_id", "logger", "shutdown_timeout", "flush_timeout"))
    long = app.config.dup.tap { |settings| settings.kafka = { "x" => "y" * 300 } }
    assert_equal 201, Pelton::Settings::Changed.of(long).fetch("kafka.x").size
  end

  def test_a_running_job_a_lag_and_the_rate_of_what_is_done
    gate = Thread::Queue.new
    script { |_| gate.pop }
    reporting
    produce(3)
    assign(["orders", 0])
    # Before it, `assigned` runs.
    of_consume = ->(report) { report.running.find { |job| job[:kind] == "consume" && job[:called] } }
    job = of_consume.call(report(&of_consume))
    assert_equal ["g", "ServerKit::Consumer", "orders", 0, "consume", 3],
                 job.values_at(:group, :consumer, :topic, :partition, :kind, :messages)
    assert_in_delta Pelton::Clock.wall, job[:since], 60
    assert_equal 0, job[:offset]
    assert_operator job[:called], :>, job[:since] - 5 # it is now less an age, and the ages are not of the same moment
    assert_equal [["g", "orders", 0, 3, "running"]], report { |report| report.lag == 3 }.each_partition.to_a
    gate.close
    assert_equal "idle", report { |report| report.each_partition.to_a.dig(0, 4) == "idle" }.each_partition.first.last
    assert_equal ["g"], report { |report| report.rate_in("g").positive? }.rates[:in].keys
    assert_equal({ in: { "g" => 3 }, out: 0, errors: 0 },
                 report { |report| report.totals[:in].fetch("g", 0) == 3 }.totals)
    assert_equal 0, report { |report| report.lag.zero? && report.rate_in.zero? }.rate_in
  end

  def test_a_paused_and_a_failing_partition
    script { |consumer| consumer.partition.zero? ? consumer.pause(600) : raise(KeyError, "no\nsecret payload") }
    reporting
    produce(1)
    produce(1, 1)
    assign(["orders", 0], ["orders", 1])
    states = report { |report| report.each_partition.map { |*, state| state }.sort == %w[failing paused] }
    assert_equal %w[orders], states.partitions.fetch("g").keys
    error = report { |report| report.errors.any? }.errors.first
    assert_equal ["KeyError", "no", "consumer.consume", "g", "orders", 1, 0],
                 error.values_at(:class, :message, :source, :group, :topic, :partition, :offset)
    assert_kind_of String, error[:failure_id]
    assert(report { |report| report.rates[:errors].positive? })
    refute_includes sent.map { |_, text, *| text }.join, "secret payload"
  end

  def test_only_the_last_errors_and_none_that_librdkafka_repairs
    reporting
    report { true }
    lost = Pelton::KafkaError.new(-195, :_TRANSPORT, "gone")
    app.notifications.publish("error.occurred", error: lost, source: "kafka")
    20.times { |number| app.notifications.publish("error.occurred", error: KeyError.new(number.to_s), source: "y") }
    found = report { |report| report.errors.last&.fetch(:message) == "19" }
    assert_equal (10..19).map(&:to_s), found.errors.map { |error| error[:message] }
    assert(reports.none? { |report| report.errors.any? { |error| error[:source] == "kafka" } })
  end

  def test_the_message_of_an_error_that_raises
    reporting
    report { true }
    broken = Class.new(StandardError) { def message = raise("never") }
    app.notifications.publish("error.occurred", error: broken.new, source: "x")
    assert_equal "(its message raised RuntimeError)", report { |report| report.errors.any? }.errors.first[:message]
  end

  def test_messages_of_the_producer_are_counted
    reporting
    report { |report| report.rates[:out].zero? }
    app.producer.produce_async(topic: "other", payload: "x")
    assert_operator report { |report| report.rates[:out].positive? }.rates[:out], :>, 0
  end

  def test_quiet_and_the_last_report_of_a_stop
    reporting
    app.quiet
    report { |report| report.state == "quiet" }
    app.stop
    assert_equal ["stopped", 1], [reports.last.state, reports.count(&:stopped?)]
    refute reports.last.silent?(reports.last.at + 1e6)
    assert reports.first.silent?(reports.first.at + 100)
  end

  # Otherwise its thread would count as leaked while Kafka does not answer.
  def test_the_end_takes_less_than_its_owner_waits
    reporting(background_timeout: 0.8)
    report { |report| report.state == "running" }
    client = @native.producers.find { |producer| producer.messages.any? }
    app.stop
    assert_operator client.closed, :<=, 0.4
  end

  def test_the_client_has_no_transactions_no_tracer_and_events_of_its_own
    tracer = Object.new
    %i[call wait process trace_id].each { |name| tracer.define_singleton_method(name) { flunk } }
    app(report_topic: REPORTS, report_interval: 0.02).configure do |config|
      config.kafka = { "transactional.id" => "mine" }
      config.tracer = tracer
    end
    start
    report { |report| report.state == "running" }
    client = @native.producers.find { |producer| producer.messages.any? }
    assert_nil client.config["transactional.id"]
    assert_equal "false", client.config["enable.idempotence"]
    names = Array.new(@events.size) { @events.pop.name }
    assert_empty names & %w[message.produced producer.opened]
  end

  # Instead of a ProcessState.
  class Reporter
    def id = "me"
    def report(*) = { version: 1 }
    def close = nil
  end

  def test_a_topic_that_is_missing_is_reported_once
    unknown = Pelton::DeliveryError.new(3, :UNKNOWN_TOPIC_OR_PART, "unknown", false, false, REPORTS, 0)
    config = app(report_topic: REPORTS).config
    failures = Thread::Queue.new
    app.subscribe("error.occurred") { |event| failures << event }
    stop = Pelton::Background::Stop.new
    rounds = 0
    stop.define_singleton_method(:wait) { |_| (rounds += 1) > 5 }
    native = @native.to_module
    refuse = ->(*) { Fakes::Delivery.new(REPORTS, 0, nil, error: unknown) }
    native::Producer.block = lambda do |*all|
      Fakes::Producer.new(*all).tap { |producer| producer.define_singleton_method(:produce, &refuse) }
    end
    service = Pelton::Reports::Service.new(config, server: nil, bus: app.notifications, native: native) { Reporter.new }
    service.run(stop)
    assert_equal 1, failures.size
    event = failures.pop
    assert_equal "reports", event[:source]
    assert_equal "report_topic = \"pelton.reports\": does not exist, so there are no process reports: run pelton " \
                 "topics apply, or create it with one partition", event[:error].message
  end

  # Kafka is away, say.
  def test_no_more_than_three_reports_wait_for_their_delivery
    config = app(report_topic: REPORTS).config
    made = 0
    pending = Class.new(Fakes::Delivery) { def done? = false }
    native = @native.to_module
    native::Producer.block = lambda do |*all|
      Fakes::Producer.new(*all).tap do |producer|
        producer.define_singleton_method(:produce) { |*| (made += 1) && pending.new(REPORTS, 0, nil) }
      end
    end
    stop = Pelton::Background::Stop.new
    rounds = 0
    stop.define_singleton_method(:wait) { |_| (rounds += 1) == 9 }
    Pelton::Reports::Service.new(config, server: nil, bus: app.notifications, native: native) { Reporter.new }.run(stop)
    assert_equal 3 + 1, made, "three, and that it stopped"
  end

  def test_the_topic_is_declared_with_a_week
    app(report_topic: "r").config.kafka = { "bootstrap.servers" => "a:1" }
    wanted = app.topics.clusters.first.topics.fetch("r").creation
    assert_equal [1, "604800000", "delete"],
                 [wanted[:partitions], *wanted[:config].values_at("retention.ms", "cleanup.policy")]
  end

  VALID = { version: 1, id: "h:1:2", at: 1.0, started_at: 0.5, interval: 5, host: "h", pid: 1, process: nil, name: "n",
            pelton: "1", ruby: "3", state: "running", groups: ["g"], threads: 3, rss: nil, workers: 5,
            jobs: { running: 0, waiting: 0, aside: 0 }, rates: { in: { "g" => 1.5 }, out: 0, errors: 0 },
            running: [], partitions: { "g" => { "t" => [[0, nil, "idle"]] } }, left_out: 0, settings: {},
            errors: [] }.freeze

  # --- classes of Active Job ----------------------------------------------------------------------------------------

  def classes(bus = Pelton::Notifications.new)
    job_classes = Pelton::Reports.const_get(:JobClasses).new(bus)
    note = lambda do |name, seconds, error = nil|
      bus.publish("active_job.performed", group: "g", topic: "t", partition: 0, offset: 0, job_class: name, job_id: "1",
                                          seconds: seconds, error: error)
    end
    yield job_classes, note
  ensure
    job_classes&.close
  end

  def test_job_classes_are_counted_and_the_longest_come_first
    classes do |job_classes, note|
      assert_empty job_classes.rows
      [0.5, 0.25].each { |seconds| note.call("MailJob", seconds) }
      note.call("MailJob", 1.0, KeyError.new)
      note.call("SlowJob", 9.0)
      assert_equal [{ class: "SlowJob", count: 1, failed: 0, seconds: 9.0, slowest: 9.0 },
                    { class: "MailJob", count: 3, failed: 1, seconds: 1.75, slowest: 1.0 }], job_classes.rows
    end
  end

  def test_job_classes_of_more_than_an_hour_ago_are_forgotten
    classes do |job_classes, note|
      start = Pelton::Clock.now
      at = ->(seconds, &block) { Pelton::Clock.stub(:now, start + seconds, &block) }
      at.call(0) { note.call("MailJob", 1.0) }
      at.call(3500) { note.call("MailJob", 2.0) }
      at.call(3590) { assert_equal 2, job_classes.rows.first[:count] }
      at.call(4000) { assert_equal [[1, 2.0]], (job_classes.rows.map { |row| row.values_at(:count, :slowest) }) }
      at.call(9000) { assert_empty job_classes.rows }
    end
  end

  def test_job_classes_of_a_report_are_limited
    classes do |job_classes, note|
      300.times { |number| note.call("Job#{number}", number + 1.0) }
      rows = job_classes.rows
      assert_equal [51, "(others)", 300, 300 * 301 / 2],
                   [rows.size, rows.last[:class], rows.sum { |row| row[:count] }, rows.sum { |row| row[:seconds] }]
      note.call("<b>\n#{"x" * 500}", 1000.0)
      assert_operator job_classes.rows.map { |row| row[:class].size }.max, :<=, 201
    end
  end

  def test_job_classes_of_a_report_may_be_missing_but_not_wrong
    row = { class: "MailJob", count: 3, failed: 1, seconds: 1.75, slowest: 1.0 }
    assert_equal [[row], nil], [parse(job_classes: [row]).job_classes, parse(job_classes: nil).job_classes]
    [{ class: nil }, { count: -1 }, { failed: "1" }, { seconds: 1e20 }, { slowest: nil }].each do |change|
      assert_nil parse(job_classes: [{ **row, **change }]), change.inspect
    end
  end

  # A process of an older version does not count them.
  def test_totals_may_be_missing_but_not_wrong
    totals = { in: { "g" => 3 }, out: 2, errors: 0 }
    assert_equal [totals, nil], [parse(totals: totals).totals, parse(totals: nil).totals]
    [{ out: -1 }, { errors: 1.5 }, { in: nil }, { in: { "g" => 2**80 } }].each do |change|
      assert_nil parse(totals: { **totals, **change }), change.inspect
    end
    assert_nil parse(totals: [])
  end

  JOB = { group: "g", consumer: "C", topic: "t", partition: 0, kind: "consume", since: 1.0, called: 1.5,
          messages: 3, offset: 7, long: 60 }.freeze
  ERROR = { at: 1.0, source: "s", class: "E", message: "m", group: "g", topic: "t", partition: 0, offset: 7,
            failure_id: "f", backtrace: "b" }.freeze
  PART = { class: "E", message: "m", lines: ["a.rb:1"], shared: 0, more: 2 }.freeze

  # A process of an older version does not report them.
  def test_backtraces_may_be_missing_but_not_wrong
    row = { id: "b", at: 1.0, parts: [PART, PART] }
    assert_equal [[row], nil], [parse(backtraces: [row]).backtraces, parse(backtraces: nil).backtraces]
    parts = [{ class: nil }, { lines: [1] }, { lines: nil }, { shared: -1 }, { more: "1" }, { message: 1 }]
    [*parts.map { |change| { parts: [{ **PART, **change }] } }, { parts: [] }, { parts: ["x"] }, { parts: {} },
     { id: 1 }, { at: "x" }].each do |change|
      assert_nil parse(backtraces: [{ **row, **change }]), change.inspect
    end
    [{}, "x", [[]], ["x"]].each { |value| assert_nil parse(backtraces: value), value.inspect }
  end

  def test_rows_of_a_report_may_lack_what_is_optional_and_nothing_else
    { running: [JOB, %i[called messages offset long]],
      errors: [ERROR, %i[group topic partition offset failure_id backtrace]] }
      .each do |field, (row, optional)|
        assert_equal [row], parse(field => [row]).public_send(field)
        row.each_key do |name|
          found = parse(field => [row, { **row, name => nil }])
          optional.include?(name) ? refute_nil(found, name) : assert_nil(found, name)
          assert_nil parse(field => [{ **row, name => [] }]), name
        end
      end
  end

  def test_numbers_of_a_report_are_accepted_up_to_their_limits
    rates = ->(value) { { in: { "g" => value }, out: value, errors: 0 } }
    { rates: [rates.call(9.9e14), rates.call(1e15)], at: [1e11, 1.1e11], interval: [0, -0.1],
      rss: [2**62, (2**62) + 1],
      partitions: [(10**15) - 1, 10**15].map { |lag| { "g" => { "t" => [[0, lag, "x"]] } } } }
      .each do |field, (allowed, wrong)|
        assert_equal allowed, parse(field => allowed).public_send(field)
        assert_nil parse(field => wrong), "#{field}: #{wrong.inspect}"
      end
  end

  def test_a_process_is_silent_when_its_third_report_is_more_than_two_seconds_late
    report = parse(at: 100.0, interval: 5)
    assert_equal [false, true], [117.0, 117.1].map { |time| report.silent?(time) }
    refute parse(at: 100.0, interval: 5, state: "stopped").silent?(1000.0)
  end

  def parse(**change) = Pelton::Reports::Report.parse(JSON.generate({ **VALID, **change }))

  def test_readers_accept_fields_that_they_do_not_know
    assert_equal [1.5, 0], [parse(later: { "a" => 1 }).rate_in("g"), parse.lag]
    refute_respond_to parse(later: 1), :later
  end

  def test_readers_ignore_other_versions_and_anything_else
    assert_nil parse(version: 2)
    [nil, "", "\xff", "[1]", "{", "null", "{\"version\":1}"].each do |text|
      assert_nil Pelton::Reports::Report.parse(text), text.inspect
    end
    { id: 1, at: "x", groups: "g", partitions: { "g" => { "t" => [["0", 1, "x"]] } },
      running: [{ group: 1 }], errors: [1], commands: 1, settings: { "a" => 1 }, jobs: [], rates: { in: [] },
      started_at: -1, interval: 1e300, rss: 10**400, job_classes: {} }.each do |field, value|
      assert_nil parse(field => value), "#{field}: #{value.inspect}"
    end
    assert_nil parse(partitions: { "g" => { "t" => [[0, 10**400, "idle"]] } })
    # JSON's 1e999 is infinite.
    { "out\":0": "out\":1e999", "\"g\":1.5": "\"g\":-1e999", "at\":1.0": "at\":1e999" }.each do |old, new|
      assert_nil Pelton::Reports::Report.parse(JSON.generate(VALID).sub(old.to_s, new.to_s)), new
    end
    (VALID.keys - %i[process rss]).each { |field| assert_nil parse(field => nil), "#{field}: nil" }
  end
end
