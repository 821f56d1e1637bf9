# What do metrics for Prometheus cost a message that is produced, a message that is consumed, a batch, and a scrape?
# frozen_string_literal: true

require_relative "support"
require_relative "../test/support/fake_feed"
require "pelton/metrics"
require "pelton/server/server"

# Work is done in slices, without and with metrics in turn, so that a slow second of the machine is that of both.
PAIRS = Bench::QUICK ? 3 : 51
BATCHES = 500 # of a slice
SIZE = 100 # config.max_messages
MESSAGES = 10_000 # produced in a slice
PAYLOAD = ("x" * 100).freeze
TOPICS = 10 # in a scrape, with so many partitions each
PARTITIONS = 20

# An app's calls of one consumer, made by this thread alone: what the listener and a worker do with a batch, between
# Kafka and the user's code.
class Calls
  # The listener's part.
  class Owner
    %i[retry_at ended critical failed].each { |name| define_method(name) { |*| nil } }
  end

  #: (Class, Pelton::Notifications) -> void
  def initialize(consumer, bus)
    @jobs = Pelton::Consuming::JobsQueue.new
    topic = Pelton::Routing::Topic.new("orders", consumer, { max_messages: SIZE })
    @feed = FakeFeed::Subscription.new(1, 0, SIZE, 1)
    @coordinator = Pelton::Consuming::Coordinator.new(
      topic, 0, group: "billing", flow: Pelton::Consuming::Flow.for(topic, bus), subscription: @feed, jobs: @jobs,
                bus: bus, owner: Owner.new
    ).start
    @next = 0
  end

  # ns of CPU for a batch. The block makes one, with this number.
  def slice(count)
    batches = Array.new(count) { |index| yield @feed, @next + index }
    @next += count
    cpu(:THREAD) { batches.each { |batch| consume(batch) } } / count
  end

  private

  def consume(batch)
    @coordinator.receive(batch)
    Thread.handle_interrupt(Pelton::Threads::NEVER) do
      until @jobs.size.zero?
        job = @jobs.pop
        job.call
        job.clear if @jobs.finished(job)
      end
    end
  end
end

# ns of CPU that the block takes: of this :THREAD, or of the :PROCESS with librdkafka's threads.
def cpu(whose)
  clock = Process.const_get("CLOCK_#{whose}_CPUTIME_ID")
  before = Process.clock_gettime(clock, :nanosecond)
  yield
  (Process.clock_gettime(clock, :nanosecond) - before).to_f
end

# [without metrics, what they add]: the block measures a slice of either.
def compare(plain, counted)
  pairs = Array.new(PAIRS) { [yield(plain), yield(counted)] }
  [Bench.median(pairs.map(&:first)), Bench.median(pairs.map { |without, with| with - without })]
end

def app
  app = Pelton::App.new
  app.configure { |config| config.kafka = { "bootstrap.servers" => Cluster.bootstrap, **Cluster::PRODUCE } }
end

# Two apps, the second with metrics.
def apps
  both = [app, app.tap { |measured| Pelton::Metrics.new(measured) }]
  yield(*both)
ensure
  both&.each(&:close)
end

# [ns without, ns more] of a batch; the block makes it.
def consumed(consumer, batches, &make)
  apps do |*both|
    calls = both.map { |app| Calls.new(consumer, app.notifications) }
    compare(*calls) { |timed| timed.slice(batches, &make) }
  end
end

# [ns without, ns more] of a message. The block produces some with a producer, and waits for them.
def produced(topic)
  apps do |*both|
    both.each { |app| app.producer.produce_sync(topic: topic, payload: PAYLOAD, timeout: 30) }
    compare(*both.map(&:producer)) { |producer| cpu(:PROCESS) { yield producer } / MESSAGES }
  end
end

# ms of a scrape when all partitions had calls since the last one.
def scrape
  apps do |_, counted|
    metrics = Pelton::Metrics.new(counted)
    meters = Array.new(TOPICS * PARTITIONS) do |index|
      number, partition = index.divmod(PARTITIONS)
      facts = { group: "billing", topic: "topic-#{number}", partition: partition }
      Pelton::Native::CallMeter.new(partition, counted.notifications.counters.map { |counter| counter.calls(facts) })
    end
    Bench.median(Array.new(PAIRS) do
      meters.each do |meter|
        meter.begin
        meter.called(SIZE, 1.0, 0, false)
      end
      Bench.seconds { metrics.to_text } * 1e3
    end)
  end
end

WHOLE = Class.new(Pelton::Consumer) { def consume = nil }
SINGLE = Class.new(Pelton::Consumer) { def process(_message) = nil }
# Its messages are made before the time begins.
LISTED = lambda do |_feed, number|
  Fakes::Batch.new(Array.new(SIZE) { |index| Fakes::Message.new("orders", 0, (number * SIZE) + index, "x") })
end

SENDING = {
  "with a handle" => lambda do |producer, topic|
    Array.new(MESSAGES) { producer.produce_async(topic: topic, payload: PAYLOAD) }
  end,
  "of produce_many" => lambda do |producer, topic|
    rows = Array.new(1000) { { topic: topic, payload: PAYLOAD } }
    Array.new(MESSAGES / rows.size) { producer.produce_many_async(rows) }
  end
}.freeze

# A line without metrics, one with them, and the difference.
def lines(bench, name, unit: 1)
  bench.case("#{name}, no metrics", "ns") do
    plain, more = yield.map { |ns| ns / unit }
    bench.note("#{name}, with metrics", "ns", plain + more, vs: "#{name}, no metrics")
    bench.note("#{name}, difference", "ns", more)
    plain
  end
end

Bench.measure("metrics") do |bench|
  topic = Cluster.topic
  lines(bench, "a batch for consume") do
    found = consumed(WHOLE, BATCHES) { |feed, number| FakeFeed::Batch.new(feed, "orders", 0, number, SIZE) }
    bench.note("a message of a batch of #{SIZE}, difference", "ns", found.last / SIZE)
    found
  end
  lines(bench, "a message for process", unit: SIZE) { consumed(SINGLE, BATCHES / 20, &LISTED) }
  SENDING.each do |name, send|
    lines(bench, "a produced message #{name}") do
      produced(topic) { |producer| send.call(producer, topic).each(&:wait) }
    end
  end
  bench.case("a scrape, #{TOPICS} topics of #{PARTITIONS} partitions", "ms") { scrape }
end
