# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "pelton/reports/reports"

# Reports of processes on the embedded cluster: written by two apps, read by a third. And commands to them. (The real
# broker's twins: test/integration/reports.rb and commands.rb.)
class EmbeddedReportsTest < Minitest::Test
  include EmbeddedApp

  def setup
    super
    @cluster.create_topic("pelton.reports", 1)
  end

  def reporting(name, group, to)
    settings = { report_topic: "pelton.reports", report_interval: 0.1, client_id: group }
    app(group: group, kafka: ONE_BATCH, **settings) { topic(name, to: to) }
  end

  def test_all_processes_are_read_from_one_topic_until_their_last_report
    name = topic(2)
    gate = Thread::Queue.new
    billing = reporting(name, "billing", consumer { gate.pop })
    audit = reporting(name, "audit", collector)
    produce(audit, name, %w[a b c])
    reader = app(report_topic: "pelton.reports")
    latest = {}
    following = Pelton::Threads.start("test") do
      Pelton::Reports.each(reader, "pelton.reports", seconds: 60, follow: true) do |report|
        latest[report.name] = report
      end
    end
    [billing, audit].each(&:start)
    take(3)
    report = eventually(20, "a running job") do
      last = latest["billing"]
      last if last&.lag == 3 && last.running.any? { |job| job[:called] }
    end
    job = report.running.first
    assert_equal [name, 0, "consume", 3, 0], job.values_at(:topic, :partition, :kind, :messages, :offset)
    assert_operator job[:called], :>, job[:since] - 5 # it is now less an age, and the ages are not of the same moment
    assert_equal %w[idle running], report.each_partition.map { |*, state| state }.sort
    eventually(20, "no lag") { latest["audit"]&.lag&.zero? }
    reader.producer.produce_sync(topic: "pelton.reports", payload: "{no report")
    gate.close
    [billing, audit].each(&:stop)
    eventually(20, "the last reports") do
      latest.transform_values(&:state) == { "billing" => "stopped", "audit" => "stopped" }
    end
  ensure
    following&.kill&.join
  end

  def test_a_command_reaches_one_process_and_none_that_starts_later
    @cluster.create_topic("pelton.commands", 1)
    name = topic(2)
    reader = app(report_topic: "pelton.reports")
    latest = {}
    following = Pelton::Threads.start("test") do
      Pelton::Reports.each(reader, "pelton.reports", seconds: 60, follow: true) do |report|
        latest[report.name] = report
      end
    end
    idle = consumer {}
    commanded = lambda do |group|
      app(group: group, report_topic: "pelton.reports", report_interval: 0.1, client_id: group,
          command_topic: "pelton.commands") { topic(name, to: idle) }.start
      eventually(20, group) { (report = latest[group]) && report.commands && report.state == "running" && report.id }
    end
    first, second = %w[first second].map(&commanded)
    order = lambda do |id, action|
      command = Pelton::Reports::Command.new(id, action)
      reader.producer.produce_sync(**command.message("pelton.commands"))
    end
    states = -> { latest.transform_values(&:state) }
    order.call(first, "quiet")
    eventually(20, "quiet") { states.call == { "first" => "quiet", "second" => "running" } }
    order.call(first, "stop")
    order.call(second, "quiet")
    eventually(20, "a stop") { states.call == { "first" => "stopped", "second" => "quiet" } }
    commanded.call("third")
    order.call(second, "resume")
    eventually(20, "nothing more") do
      states.call == { "first" => "stopped", "second" => "running", "third" => "running" }
    end
    assert_equal 3, [first, second, latest["third"].id].uniq.size
  ensure
    following&.kill&.join
  end
end
