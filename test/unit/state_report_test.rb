# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"
require "pelton/cli/process_title"
require "pelton/server/state_report"

# What TTIN prints of partitions and threads, and the title of a server's process.
class StateReportTest < Minitest::Test
  class OrdersConsumer < Pelton::Consumer
    class << self
      attr_accessor :script
    end

    def process(message) = instance_exec(message, &self.class.script)
  end

  def setup
    OrdersConsumer.script = ->(_) {}
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "billing"
    end
    Pelton.routes { topic("orders", to: OrdersConsumer) { backoff 5..5 } }
  end

  def test_an_idle_partition_waits_for_messages
    consumer_for("orders")
    assert_equal ["orders/0: waits for messages"], report
  end

  def test_a_partition_after_a_failure_says_when_it_goes_on
    OrdersConsumer.script = ->(_) { raise KeyError, "no" }
    produce("orders", "1")
    assert_match(%r{\Aorders/0: goes on in [0-5]\.\d s, after a failure\z}, report.join)
  end

  def test_a_paused_partition_says_until_when
    OrdersConsumer.script = ->(_) { pause(60) }
    produce("orders", "1")
    assert_match(%r{\Aorders/0: paused, goes on in [1-6]\d\.\d s\z}, report.join)
    consumer_for("orders").pause
    assert_equal ["orders/0: paused until it is resumed"], report
  end

  def test_a_running_job_has_its_thread
    found = nil
    test = self
    OrdersConsumer.script = ->(_) { found = test.send(:report) }
    produce("orders", "1")
    assert_match(%r{\Aorders/0: process runs for \d+\.\d s at offset 0, 1 of 1 messages not finished \(.*\)\z},
                 found.join)
  end

  def test_the_text_has_the_process_each_group_with_its_partitions_and_the_threads
    group = Struct.new(:name)
    listener = Struct.new(:group, :coordinators)
    reporting = Struct.new(:report)
    listeners = [listener.new(group.new("billing"), [reporting.new(%w[one two]), reporting.new(["three\e[0m"])]),
                 listener.new(group.new("audit"), [])]
    server = Struct.new(:status, :concurrency).new(:quiet, 5)
    text = Pelton::StateReport.text(server, listeners, { running: 2, waiting: 1 })
    assert_equal <<~TEXT, text[/.*?(?=^thread)/m]
      pelton #{Process.pid}: quiet, 5 workers, jobs: 2 running, 1 waiting
      group billing:
        one
        two
        three\\e[0m
      group audit:
        no partition
    TEXT
    assert_match(/^thread main \(run\):\n  writes this report$/, text)
  end

  def test_at_most_twenty_lines_of_a_thread_are_listed
    queue = Thread::Queue.new
    deep = ->(levels) { levels.zero? ? queue.pop : deep.call(levels - 1) }
    thread = Thread.new { deep.call(30) }
    thread.name = "deep"
    eventually { thread.status == "sleep" }
    lines = Pelton::StateReport.threads[/^thread deep .*?(?=^thread|\z)/m].lines.drop(1)
    assert_equal thread.backtrace.first(20).map { |line| "  #{line}\n" }, lines
  ensure
    queue.close
    thread.join
  end

  def test_each_thread_is_listed_with_its_lines
    queue = Thread::Queue.new
    thread = Thread.new { queue.pop }
    thread.name = "waits"
    eventually { thread.status == "sleep" }
    text = Pelton::StateReport.threads
    # Ruby 3.3 has a line of its own for `pop`.
    assert_match(/^thread waits \(sleep\):\n(  <internal:.*\n)?  .*state_report_test\.rb:\d+/, text)
    assert_match(/\(run\):\n  writes this report$/, text)
  ensure
    queue.close
    thread.join
  end

  def test_the_title_has_state_groups_busy_workers_and_lag
    before = $PROGRAM_NAME
    app = Pelton::App.new
    title = Pelton::CLI::ProcessTitle.keep(app, 2)
    publish = ->(name, **facts) { app.notifications.publish(name, **facts) }
    publish.call("app.starting", groups: %w[billing audit], concurrency: 5)
    assert_equal "pelton server 2: starting, billing, audit", title.to_s
    publish.call("app.running", groups: %w[billing audit], concurrency: 5)
    publish.call("workers.scaled", from: 5, to: 6)
    publish.call("stats.measured", threads: {}, native_threads: {}, descriptors: 1, consumers: {}, consumer_threads: {},
                                   lags: { "billing" => { "orders" => { 0 => 12, 1 => 3 } }, "audit" => {} },
                                   stopped: {}, jobs: { running: 2, waiting: 0, aside: 0 }, leaked: 0)
    assert_equal "pelton server 2: running, billing, audit, 2 of 6 busy, lag 15", title.to_s
    publish.call("app.quieting", reason: "SIGTSTP")
    assert_match(/\Apelton server 2: quieting, /, title.to_s)
  ensure
    Process.setproctitle(before)
  end

  def test_the_title_of_a_parent_counts_the_processes_that_run
    before = $PROGRAM_NAME
    app = Pelton::App.new
    app.configure { |config| config.logger = nil }
    title = Pelton::CLI::ProcessTitle::Parent.keep(app, 2)
    publish = ->(name, **facts) { app.notifications.publish(name, **facts) }
    [0, 1].each { |process| publish.call("process.started", process: process, pid: 10 + process) }
    assert_equal "pelton server: 2 of 2 processes run", title.to_s
    publish.call("process.ended", process: 1, pid: 11, status: nil, signal: "KILL", due_in: 1.0)
    assert_equal "pelton server: 1 of 2 processes run", title.to_s
    assert_equal title.to_s, File.read("/proc/self/cmdline").delete("\0") if File.exist?("/proc/self/cmdline")
  ensure
    Process.setproctitle(before)
  end

  private

  # The session's partitions.
  def report = kafka.consumers.active("orders").flat_map { |listener| [*listener.coordinator("orders", 0)&.report] }
end
