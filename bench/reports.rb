# How much of a core do process reports take, of a server at rest and of one that works?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require_relative "support/served"

SECONDS = Integer(ENV["BENCH_SECONDS"] || (Bench::QUICK ? 1 : 15)) # three reports
PARTITIONS = 50
RATE = 10_000 # messages of 1 KB a second, under load
BURST = 100
WARM = Bench::QUICK ? 0 : 2 # s until clients are connected and the first report is sent

UNIT = "% of a core"
# The settings of each.
KINDS = { "no reports" => [], "reports" => %i[report_topic], "reports and commands" => %i[report_topic command_topic] }
        .freeze

# A process of its own that produces at this rate, until the block ends.
def fed(topic)
  pid = fork { feed(topic) }
  yield
ensure
  Process.kill(:KILL, pid)
  Process.wait(pid)
end

def feed(topic)
  orders = Orders.new(bytes: 1000, description: 175)
  rows = Array.new(BURST) { |index| { topic: topic, payload: orders.next, partition: index % PARTITIONS } }
  producer = Cluster.producer
  due = Bench.now
  loop do
    producer.produce_many_async(rows)
    due += BURST.fdiv(RATE)
    sleep([due - Bench.now, 0].max)
  end
end

# s of CPU that the process had so far, and of these its thread that reports.
def used
  tid = Thread.list.find { |thread| thread.name&.include?("pelton.reports") }&.native_thread_id
  own = tid ? Integer(File.read("/proc/self/task/#{tid}/schedstat")[/\d+/]) / 1e9 : 0
  [Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID), own]
end

# % of a core of a server, and of these of its thread that reports, in a process of its own.
def shares(topic, settings)
  Bench.forked do
    served = Served.new(topic, words: -> { decode :json }, **settings) { messages.each(&:payload) }
    served.run(assigned: PARTITIONS) do
      sleep(WARM)
      began = Bench.now
      before = used
      sleep(SECONDS)
      used.zip(before).map { |after, start| (after - start) / (Bench.now - began) * 100 }
    end
  end
end

# A case for each kind of reports. around: called with a topic and a block that measures.
def compare(bench, work, topics, &around)
  KINDS.each do |kind, settings|
    bench.case("a server #{work}, #{kind}", UNIT) do
      topic = Cluster.topic(PARTITIONS)
      share, own = around.call(topic) { shares(topic, topics.slice(*settings)) }
      bench.note("a server #{work}, #{kind}, the thread that reports", UNIT, own) if settings.any?
      share
    end
  end
end

Bench.measure("reports", warm_up: false) do |bench|
  Cluster.bootstrap # before the forks, so that children have it
  topics = %i[report_topic command_topic].to_h { |setting| [setting, Cluster.topic(1)] }
  compare(bench, "at rest", topics) { |_topic, &measure| measure.call }
  compare(bench, "under load", topics) { |topic, &measure| fed(topic, &measure) }
end
