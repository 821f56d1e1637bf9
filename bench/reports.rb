# How much of a core do process reports take at rest and while messages fail, and do they make a message cost more?
# frozen_string_literal: true

require "pelton/reports/recent_errors"
require_relative "support"
require_relative "support/orders"
require_relative "support/served"

SECONDS = Integer(ENV["BENCH_SECONDS"] || (Bench::QUICK ? 1 : 15)) # three reports
PARTITIONS = 50
COUNT = Cluster.fitting(Bench.some(400_000), 1000, PARTITIONS)

SHARE = "% of a core"
COST = "µs CPU/msg"
# The settings of each.
KINDS = { "no reports" => [], "reports" => %i[report_topic], "reports and commands" => %i[report_topic command_topic] }
        .freeze
# Messages a second of which each fails twice and becomes a dead letter, and of how many partitions they are.
STORM = 1_000
STORM_PARTITIONS = 10
# Failures that are published at once, to time one of them.
FAILURES = Bench.some(50_000)
# Seconds between two reports under load: a tenth of the default, because the work takes only seconds.
OFTEN = 0.5

# s of CPU that the process had so far, and of these its thread that reports.
def used
  tid = Thread.list.find { |thread| thread.name&.include?("pelton.reports") }&.native_thread_id
  own = tid ? Integer(File.read("/proc/self/task/#{tid}/schedstat")[/\d+/]) / 1e9 : 0
  [Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID), own]
end

# The same, since it was this.
def since(before) = used.zip(before).map { |now, start| now - start }

# Until the first report of this process is in the topic. By then its clients are connected.
def await_report(app)
  topic = app.config.report_topic or return
  app.each(topic, follow: true, decode: :json).find { |message| message.payload["pid"] == Process.pid }
end

# % of a core of a server at rest, and of these of its thread that reports, in a process of its own.
def shares(topic, settings)
  Bench.forked do
    served = Served.new(topic, **settings) { nil }
    served.run(assigned: PARTITIONS) do
      await_report(served.app)
      before = used
      sleep(SECONDS)
      since(before).map { |seconds| seconds / SECONDS * 100 }
    end
  end
end

# µs of CPU for each of COUNT messages of a topic, and of these of the thread that reports, in a process of its own.
def costs(topic, settings)
  Bench.forked do
    tally = Served::Tally.new(COUNT)
    served = Served.new(topic, words: -> { decode :json }, **settings) do
      messages.each(&:payload)
      tally.add(messages.size)
    end
    before = used
    served.run { tally.speed && since(before) }.map { |seconds| seconds / COUNT * 1e6 }
  end
end

# Starts a process that produces STORM messages a second to the topic, from the call of what this returns on. It ends
# after this many seconds.
def storm(topic, seconds)
  Bench.forked_later do
    producer = Cluster.producer
    slice = Array.new(STORM / 20) { |number| { topic: topic, partition: number % STORM_PARTITIONS, payload: "x" } }
    began = Bench.now
    (seconds * 20).times do |number|
      sleep([began + (number / 20.0) - Bench.now, 0].max)
      producer.produce_many_async(slice)
    end
    producer.close
  end
end

# µs of CPU for each dead letter of a server whose messages all fail, % of a core of its thread that reports, and dead
# letters a second, in a process of its own.
def failing(settings)
  topic, dead = [STORM_PARTITIONS, 1].map { |partitions| Cluster.topic(partitions) }
  words = lambda do
    dead_letters dead, retries: 1
    backoff 0..0
  end
  start = storm(topic, SECONDS + 5)
  Bench.forked do
    served = Served.new(topic, words: words, action: :process, failing: true, concurrency: STORM_PARTITIONS,
                               **settings) { |_message| raise KeyError, "no total" }
    served.run(assigned: STORM_PARTITIONS) do
      await_report(served.app)
      start.call
      served.app.each(dead, follow: true).first
      during_storm { served.app.admin.offsets({ [dead, 0] => :end }).values.first }
    end
  end
end

# The block counts dead letters.
def during_storm
  count = yield
  before = used
  sleep(SECONDS)
  all, own = since(before)
  letters = yield - count
  [all / letters * 1e6, own / SECONDS * 100, letters / SECONDS.to_f]
end

# µs of CPU of the event of a failure, which `reporting` subscribes to.
def failure(&reporting)
  Bench.forked do
    bus = Pelton::Notifications.new
    reporting.call(bus)
    error = begin
      raise KeyError, "no total"
    rescue KeyError => e
      e
    end
    facts = { error: error, source: "consumer.consume", group: "billing", topic: "orders", partition: 3, offset: 17,
              failure_id: "1", attempt: 1 }
    publish = ->(count) { count.times { bus.publish("error.occurred", **facts) } }
    publish.call(FAILURES / 10)
    before = used.first
    publish.call(FAILURES)
    (used.first - before) / FAILURES * 1e6
  end
end

# A case for each kind of reports. The block measures one.
def compare(bench, work, unit, topics)
  KINDS.each do |kind, settings|
    name = "a server #{work}, #{kind}"
    bench.case(name, unit) do
      all, own, letters = yield topics.slice(*settings)
      bench.note("#{name}, the thread that reports", letters ? SHARE : unit, own) if settings.any?
      bench.note("#{name}, dead letters", "msg/s", letters) if letters
      all
    end
  end
end

Bench.measure("reports", warm_up: false) do |bench|
  Cluster.bootstrap # before the forks, so that children have it
  topics = %i[report_topic command_topic].to_h { |setting| [setting, Cluster.topic(1)] }
  orders = Orders.new(bytes: 1000, description: 175)
  full = Cluster.filled(COUNT, PARTITIONS) { orders.next }
  compare(bench, "at rest", SHARE, topics) { |settings| shares(Cluster.topic(PARTITIONS), settings) }
  compare(bench, "under load", COST, topics) { |settings| costs(full, { report_interval: OFTEN, **settings }) }
  compare(bench, "whose messages fail", COST, topics) { |settings| failing(settings) }
  silent = ->(bus) { bus.subscribe("error.occurred") { nil } }
  reports = ->(bus) { Pelton::Reports.const_get(:RecentErrors).new(bus) }
  { "no reports" => silent, "reports" => reports }.each do |kind, reporting|
    bench.case("the event of a failure, #{kind}", "µs CPU") { failure(&reporting) }
  end
end
