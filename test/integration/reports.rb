# frozen_string_literal: true

# once: reports are the same on every Ruby

require "support/scenario"
require "pelton/reports/reports"

# Server processes report to a topic that is created with a week of retention. A process that stops says so, one that is
# killed falls silent.

REPORTING = <<~RUBY
  require "pelton"

  class SlowConsumer < Pelton::Consumer
    def consume = Thread::Queue.new.pop
  end

  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"] }
    config.group_id = ENV["PELTON_GROUP"]
    config.create_topics = true
    config.report_topic = ENV["PELTON_REPORTS"]
    config.report_interval = 0.3
    config.shutdown_timeout = 2
    config.flush_timeout = 0.5
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: SlowConsumer }
RUBY

Scenario.run do
  folder = Dir.mktmpdir("pelton-reports")
  at_exit { FileUtils.rm_rf(folder) }
  File.write(file = File.join(folder, "app.rb"), REPORTING)
  reports = unique("reports")
  group = unique("group")
  input = topic(partitions: 4)
  app.producer.produce_many_sync(Array.new(8) { |number| { topic: input, partition: number % 4, payload: "x" } })
  server = lambda do |*more|
    pelton("server", "-r", file, *more,
           env: { "PELTON_GROUP" => group, "PELTON_IN" => input, "PELTON_REPORTS" => reports })
  end

  # --processes: each child reports, with its number.
  parent = server.call("--processes", "2")
  reader = app
  eventually(30, -> { "the topic\n#{parent.output}" }) { reader.admin.topic_names.include?(reports) }
  config = reader.admin.config(topic: reports)
  equal("604800000", config.fetch("retention.ms").value, "retention of a week")
  # The first child may keep all partitions: its jobs never end, so it gives none away.
  latest = {}
  Pelton::Reports.each(reader, reports, seconds: 60, follow: true) do |report|
    latest[report.process] = report
    running = latest.each_value.any? { |known| known.running.any? }
    break if latest.size == 2 && latest.each_value.sum(&:lag) == 8 && running
  end
  equal([0, 1], latest.keys.sort, "numbers of the processes")
  check(latest.each_value.map(&:pid).uniq.size == 2, "two processes")
  job = latest.each_value.flat_map(&:running).first
  equal(["SlowConsumer", input, "consume", group], job.values_at(:consumer, :topic, :kind, :group), "a running job")
  equal([0, true], [job[:offset], job[:called].between?(job[:since], Pelton::Clock.wall)], "its message, since when")

  # It says so in its last report when it stops in order.
  lone = app(group: unique("lone"), report_topic: reports, report_interval: 0.2)
  does_nothing = consumer {}
  lone.routes { topic(input, to: does_nothing) }
  lone.start
  lone.stop
  last = nil
  Pelton::Reports.each(reader, reports, seconds: 60) { |report| last = report.state if report.pid == Process.pid }
  equal("stopped", last, "the last report")

  # One is killed and falls silent; its successor reports under the same number. The other one has a job: if the first
  # child had kept all partitions, it is the one that stays.
  killed = latest.each_value.min_by { |report| report.running.size }
  Process.kill(:KILL, killed.pid)
  Pelton::Reports.each(reader, reports, seconds: 60, follow: true) do |report|
    latest[report.pid] = report
    break if latest.each_value.any? do |known|
      known.process == killed.process && known.pid != killed.pid && known.state == "running"
    end
  end
  check(latest[killed.pid].silent?(Pelton::Clock.wall + 5), "the killed process is silent")
  parent.kill(:TERM)
  equal(2, exit_code(parent, 30), "forced: the jobs never end\n#{parent.output}")
end
