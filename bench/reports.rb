# How much of a core do process reports take at rest, and do they make a message cost more?
# frozen_string_literal: true

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

# A case for each kind of reports. The block measures one.
def compare(bench, work, unit, topics)
  KINDS.each do |kind, settings|
    bench.case("a server #{work}, #{kind}", unit) do
      all, own = yield topics.slice(*settings)
      bench.note("a server #{work}, #{kind}, the thread that reports", unit, own) if settings.any?
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
end
