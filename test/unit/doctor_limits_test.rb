# frozen_string_literal: true

require "test_helper"
require "pelton/app"
require "pelton/active_job/job_consumer"
require "pelton/cli/doctor"

# The values at which `pelton doctor` starts to warn: on each side of the limit.
class DoctorLimitsTest < Minitest::Test
  CLI = Pelton::CLI
  # The groups g and h read orders, which has four partitions.
  CLUSTER = { "orders" => 4 }.freeze

  class Consumer < Pelton::Consumer
    def consume = nil
  end

  def setup
    @app = Pelton::App.new
    @app.routes do
      %w[g h].each { |name| group(name) { topic("orders", to: Consumer) } }
    end
  end

  # The findings of one part of doctor about one thing.
  def findings(about, clusters = { "g" => CLUSTER, "h" => CLUSTER })
    report = CLI::Doctor::Report.new
    CLI::Doctor::Topics.new(@app.config, @app.routes.groups(@app.config), clusters, Pelton::Native).examine(report)
    CLI::Doctor::Units.new(@app.config, @app.routes.groups(@app.config)).examine(report)
    CLI::Doctor::Timeouts.new(@app.config, @app.routes.groups(@app.config), Pelton::Native).examine(report)
    report.findings.select { |finding| finding[:about] == about }
  end

  # What doctor says about a budget of this part of the memory.
  def memory(part)
    @app.config.memory = (Pelton::Container.memory * part).floor
    report = CLI::Doctor::Report.new
    CLI::Doctor::Machine.new(@app.config, Pelton::Native).examine(report)
    report.findings.filter_map { |finding| finding[:text] if finding[:about] == "memory" }
  end

  # What doctor says of a route with this long_call.
  def long_call(seconds, stop: 90, flush: 10, revocation: 30, check: nil)
    @app = Pelton::App.new
    @app.configure do |config|
      config.shutdown_timeout = stop
      config.flush_timeout = flush
      config.revocation_timeout = revocation
      config.liveness.max_consume_time = check
    end
    @app.routes { group("g") { topic("orders", to: Consumer) { long_call(seconds) if seconds } } }
    found = findings("topic orders").select { |finding| finding[:text].include?("long_call") }
    assert_equal [:warning] * found.size, (found.map { |finding| finding[:level] })
    found.map { |finding| finding[:text] }
  end

  def test_a_call_that_may_take_longer_than_a_health_check
    assert_empty long_call(nil, check: 50, stop: 20)
    assert_empty long_call(300, check: 300, stop: 320, revocation: 310)
    assert_equal ["long_call (301 s) is longer than liveness.max_consume_time (300 s): the health check fails before " \
                  "a call counts as long. Lower the one or raise the other"],
                 long_call(301, check: 300, stop: 320, revocation: 310)
  end

  # It was only a note, and only if the whole stop was shorter: with flush_timeout = 30, a call had 30 s less.
  def test_a_call_that_may_take_longer_than_a_stop_waits_for_it
    assert_empty long_call(125, stop: 125, revocation: 130)
    assert_equal ["long_call (125 s) is longer than the 114 s that a stop waits for a call (shutdown_timeout 124 s " \
                  "less 10 s for producers): then its messages come again. Raise shutdown_timeout, or make calls " \
                  "shorter"],
                 long_call(125, stop: 124, revocation: 130)
    assert_match(/the 110 s that a stop waits.* less 30 s/, long_call(125, stop: 140, flush: 30, revocation: 130).first)
    assert_match(/the 1.5 s that a stop waits.* less 1.5 s/, long_call(125, stop: 3, revocation: 130).first)
  end

  # doctor found nothing: a rebalance repeated each job that took longer than 30 s.
  def test_a_call_that_may_take_longer_than_a_rebalance_waits_for_it
    assert_empty long_call(125, stop: 140, revocation: 115)
    assert_equal ["long_call (125 s) is longer than revocation_timeout (30 s): when a rebalance moves the partition " \
                  "during such a call, its messages come again. Raise revocation_timeout, or make calls shorter"],
                 long_call(125, stop: 140)
    assert_equal 1, long_call(125, stop: 140, revocation: 114).size
  end

  def test_routes_with_the_same_long_call_are_one_finding
    @app = Pelton::App.new
    @app.config.revocation_timeout = 1800
    @app.routes { group("g") { %w[exports reports].each { |name| topic(name, to: Consumer) { long_call 1800 } } } }
    assert_equal 1, findings("topic exports, reports").size
  end

  # Its `long_call` was longer than its `shutdown_timeout`.
  def test_the_guide_of_long_jobs_gets_no_finding
    guide = File.read(File.expand_path("../../docs/guides/long-jobs.md", __dir__))
    code = guide[/^```ruby\n(.*?)^```/m, 1]
    scope = self.class.const_set(:LongJobs, Module.new)
    scope.const_set(:APP, @app = Pelton::App.new)
    scope.module_eval(code.delete_prefix(%(require "pelton"\n)).gsub(/^Pelton\./, "APP."), __FILE__, __LINE__)
    @app.config.liveness.max_consume_time = guide[/^\| `config.liveness.max_consume_time`.*\| (\d+) \|$/, 1].to_i
    assert_equal [[], []], ["group reports", "topic orders"].map { |about| findings(about) }
    @app.config.revocation_timeout = 90
    refute_empty findings("topic orders")
  end

  # Of its table, for jobs of other times than 300 s.
  def test_the_numbers_of_the_guide_of_long_jobs_fit_together
    [[60, 10], [110, 10], [110, 20], [1800, 30]].each do |seconds, flush|
      long = { stop: seconds + flush + 10, flush: flush, revocation: seconds + 10, check: seconds + 360 }
      assert_empty long_call(seconds + 15, **long)
      assert_empty long_call(seconds + 20, **long)
      refute_empty long_call(seconds + 21, **long)
    end
  end

  def test_a_budget_of_more_than_half_of_the_memory_is_a_warning
    assert_empty memory(0.49)
    all = (Pelton::Container.memory / 1_048_576.0).round
    assert_equal ["#{(all * 0.51).round} MB is more than half of the #{all} MB that this machine or container has: " \
                  "lower config.memory"], memory(0.51)
    @app.config.decoding_memory = Pelton::Container.memory
    assert_match(/lower config.memory or config.decoding_memory\z/, memory(0.1).first)
  end

  def test_more_workers_than_jobs_are_a_note_if_the_partitions_of_all_groups_are_known
    @app.config.concurrency = 8
    assert_empty findings("concurrency")
    @app.config.concurrency = 9
    assert_match(/9 workers, but at most 8 jobs at once/, findings("concurrency").first[:text])
    assert_empty findings("concurrency", { "g" => CLUSTER })
    assert_empty findings("concurrency", {})
  end

  def test_one_job_at_once_is_named_in_the_singular
    @app.config.concurrency = 2
    found = findings("concurrency", { "g" => { "orders" => 1 }, "h" => { "orders" => 0 } }).first
    assert_match(/2 workers, but at most 1 job at once/, found[:text])
  end

  # A route with these words; the text of the warning about its times, or nil.
  def times(&words)
    @app = Pelton::App.new
    @app.routes { group("g") { topic("orders", to: Consumer, &words) } }
    findings("topic orders").find { |finding| finding[:text].include?("milliseconds") }&.fetch(:text)
  end

  def test_times_of_routes_that_look_like_milliseconds_are_a_warning
    assert_match(/\Abackoff 1000\.\.30000: 1000 s are 16\.7 minutes: .*in seconds, not in milliseconds/,
                 times { backoff 1_000..30_000 })
    assert_match(/\Adelay 60000: 60000 s are 16\.7 hours/, times { delay 60_000 })
    assert_match(/\Aexpire_after 3600000: 3600000 s are 41\.7 days/, times { expire_after 3_600_000 })
    assert_match(/\Aexpire_after 86400000: /, times { expire_after 86_400_000 })
    assert_match(/\Athrottle … every: 60000: /, times { throttle 10, every: 60_000 })
    assert_match(/\Aretry_in \[5, 10000\]: 10000 s are 2\.8 hours/, times { retry_in 5, 10_000 })
  end

  def test_the_warning_about_a_time_names_the_pattern
    @app.routes { group("g") { topic(/^a/, to: Ticks) { tick_every 5_000 } } }
    assert_includes findings("topic /^a/").map { |finding| finding[:text] },
                    "tick_every 5000: 5000 s are 83.3 minutes: Pelton's times are in seconds, not in milliseconds"
  end

  class Ticks < Consumer
    def tick = nil
  end

  def test_long_times_of_routes_in_seconds_are_no_warning
    assert_nil(times { retry_in 60, 3_600, 18_000, 86_400 })
    assert_nil(times { expire_after 30 * 86_400 })
    assert_nil(times { backoff 1..999 })
    assert_nil(times { throttle 10, every: 1.5 })
  end

  def test_the_same_time_of_several_topics_is_one_warning
    @app.routes { group("g") { %w[a b].each { |name| topic(name, to: Consumer) { delay 60_000 } } } }
    assert_equal 1, findings("topic a, topic b").size
  end

  def test_decoding_is_no_advice_for_the_consumer_of_jobs
    @app.routes { group("g") { topic("jobs.default", to: Pelton::ActiveJob::JobConsumer) } }
    assert_empty findings("topic jobs.default", { "g" => { "jobs.default" => 1 } })
  end

  class Renamed < Consumer
    def eofed = nil
  end

  def test_a_method_that_is_never_called_is_one_warning_for_all_topics_of_its_class
    @app.routes { group("g") { %w[a b].each { |name| topic(name, to: Renamed) } } }
    assert_equal ["DoctorLimitsTest::Renamed#eofed is never called: rename it to reached_end, or make it private"],
                 (findings("consumer").map { |finding| finding[:text] })
  end

  def test_revocation_timeout_that_reaches_the_poll_interval_is_a_warning
    { 30_001 => 0, 30_000 => 1 }.each do |interval, count|
      @app.config.kafka = { "max.poll.interval.ms" => interval, "session.timeout.ms" => 10_000 }
      found = findings("group g").grep(->(finding) { finding[:text].include?("revocation_timeout (30 s)") })
      assert_equal count, found.size, "#{interval} ms"
      # It said only: make it shorter, which is wrong for long jobs.
      assert_match(/For long jobs, raise max.poll.interval.ms; otherwise make it sh/, found[0][:text]) if count == 1
    end
  end

  # [options, what the finding of the group says], first with a value that is just allowed.
  { "session.timeout.ms" => [[9_000, 8_999], "heartbeat.interval.ms (3 s) is more than a third"],
    "heartbeat.interval.ms" => [[15_000, 15_001], "is more than a third of session.timeout.ms (45 s)"],
    "max.poll.interval.ms" => [[45_000, 44_999], "session.timeout.ms (45 s) is longer than max.poll.interval.ms"],
    "fetch.wait.max.ms" => [[59_000, 59_001], "leaves less than a second of socket.timeout.ms (60 s)"],
    "fetch.queue.backoff.ms" => [[99, 100], "fetch.queue.backoff.ms = 100: "],
    "auto.commit.interval.ms" => [[1, 0], "auto.commit.interval.ms = 0: "] }.each do |option, (values, text)|
    define_method("test_#{option.tr(".", "_")}_is_allowed_up_to_a_limit") do
      counts = values.map do |value|
        @app.config.kafka = { option => value }
        findings("group g").count { |finding| finding[:text].include?(text) }
      end
      assert_equal [0, 1], counts
    end
  end

  def test_a_session_that_is_longer_than_the_default_poll_interval_is_an_error
    counts = [300_000, 300_001].map do |session|
      @app.config.kafka = { "session.timeout.ms" => session }
      findings("group g").count { |finding| finding[:level] == :error }
    end
    assert_equal [0, 1], counts
  end

  # Zero: librdkafka never gives up.
  def test_a_message_timeout_under_either_name_that_is_longer_than_delivery_timeout_is_a_warning
    %w[message.timeout.ms delivery.timeout.ms].each do |option|
      counts = [180_000, 180_001, 0].map do |time|
        @app.config.kafka = { option => time }
        findings("delivery_timeout").size
      end
      assert_equal [0, 1, 1], counts, option
    end
  end

  def test_yjit_that_is_there_but_off_is_a_note_with_its_size_where_that_counts
    found = [nil, true, false].map do |yjit|
      report = CLI::Doctor::Report.new
      machine = CLI::Doctor::Machine.new(@app.config, Pelton::Native)
      machine.stub(:yjit, yjit) { machine.examine(report) }
      report.findings.select { |finding| finding[:about] == "yjit" }
    end
    assert_equal [[], [], [:note]], (found.map { |notes| notes.map { |note| note[:level] } })
    assert_equal RUBY_VERSION < "3.2", found.last.first.to_s.include?("--yjit-exec-mem-size=16")
  end

  # Each message of Pelton.producer was a transaction, and a second process fenced the first.
  def test_doctor_said_nothing_of_a_transactional_id_that_all_producers_share
    assert_empty findings("transactional.id")
    @app.config.kafka = { "transactional.id" => "shop" }
    assert_match(/second process fences the first: write `transactional` in/, findings("transactional.id").first[:text])
    @app = Pelton::App.new # a script without routes may share it
    @app.config.kafka = { "transactional.id" => "shop" }
    report = CLI::Doctor::Report.new
    CLI::Doctor::Timeouts.new(@app.config, [], Pelton::Native).examine(report)
    assert_empty report.findings
  end
end
