# frozen_string_literal: true

require "support/scenario"
require "pelton/web"

# The dashboard's plots of a day and a week, from a topic with five days of reports: two processes, one of which has
# stopped two days ago, foreign messages, and many reports between those that are read.
#
# once: the numbers are Kafka's

Scenario.run do
  reports = topic(name: unique("reports"))
  all = app(report_topic: reports)
  web = Pelton::Web.new(all)
  now = Pelton::Clock.wall
  start = now - (5 * 86_400)
  facts = lambda do |pid, at, state|
    done = (at - start).to_i # one message per second
    { version: 1, id: "web:#{pid}:1", at: at, started_at: start, interval: 5, host: "web", pid: pid, process: nil,
      name: "shop", pelton: "0", ruby: "3", state: state, groups: ["billing"], threads: 9, rss: 50_000_000, workers: 5,
      jobs: { running: 0, waiting: 0, aside: 0 }, rates: { in: { "billing" => 0 }, out: 0, errors: 0 },
      totals: { in: { "billing" => done }, out: done * 2, errors: 0 }, running: [], left_out: 0, settings: {},
      errors: [], partitions: { "billing" => { "orders" => [[0, 7, "idle"], [1, 30, "failing"]] } } }
  end
  # Each quarter of an hour: some before it, which are skipped. Also the next one, which may begin during the scenario.
  quarters = (start.to_i / 900 * 900).step(now.to_i + 900, 900).select { |time| time > start + 60 }
  rows = quarters.flat_map do |time|
    [300, 200, 100, 9, 4].flat_map do |ago|
      [1, 2].filter_map do |pid|
        at = (time - ago).to_f
        stopped = pid == 2 && at > now - (2 * 86_400)
        next if stopped

        { topic: reports, key: "web:#{pid}:1", timestamp: Time.at(at),
          payload: JSON.generate(facts.call(pid, at, "running")) }
      end
    end
  end
  rows.push({ topic: reports, payload: "{no report", timestamp: Time.at(quarters[-2] - 3) },
            { topic: reports, payload: nil, key: "web:1:1:gone", timestamp: Time.at(quarters[-2] - 3) })
  rows.sort_by! { |row| row[:timestamp] }
  all.producer.produce_many_sync(rows)

  read = lambda do |name|
    state = nil
    eventually(60, -> { "#{name}: #{state.inspect}" }) { (state = web.trends.look(name)).complete? }
    equal(nil, state.problem, "the problem")
  end
  values = ->(*words) { web.trends.series(*words).points.map { |_, value| value.round(3) }.uniq }
  read.call("24h")
  equal([37], values.call("24h", :lag), "the lag of one process")
  equal([1.0], values.call("24h", :in, :group, "billing"), "its rate")
  equal([2.0], values.call("24h", :out), "what it sent")
  equal([50_000_000], values.call("24h", :rss, :process, "web:1:1"), "its memory")
  equal([], values.call("24h", :lag, :process, "web:2:1"), "a process that has stopped")
  equal(96, web.trends.series("24h", :lag).points.size, "times of a day")

  read.call("7d")
  equal([74, 37], values.call("7d", :lag), "two processes, then one")
  # In the first hour, both had just started.
  equal([2.0, 1.0], values.call("7d", :in).drop(1), "their rates")
  days = web.trends.series("7d", :lag).points
  check((days.last.first - days.first.first).between?(4.9 * 86_400, 5 * 86_400), "five days of seven: #{days.size}")
  web.close

  # A topic that does not exist.
  missing = Pelton::Web.new(app(report_topic: unique("missing")))
  eventually(60, "the problem") { missing.trends.look("24h").problem }
  check(missing.trends.look("24h").problem.message.include?("missing"), missing.trends.look("24h").problem.message)
  missing.close
end
