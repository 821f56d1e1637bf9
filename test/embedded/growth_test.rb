# frozen_string_literal: true

require "test_helper"
require "support/fake_feed"
require "support/footprint"

# What memory grows by for each job and each rebalance. A leak adds to every window of many. Caches, queues, allocators
# and a busy machine add to some windows only, so the smallest growth counts. Rebalances have no librdkafka here: its
# threads leave a kilobyte or two of holes for each of the first hundreds, on any broker (bin/soak waits for these).
class GrowthTest < Minitest::Test
  JOBS = 2_000
  REBALANCES = 100
  PARTITIONS = 6
  WINDOWS = 8
  # Bytes.
  MOST_PER_JOB = 64
  MOST_PER_REBALANCE = 512

  # Counts its jobs, and keeps no message. Each has a thread of its own.
  class Counter < Pelton::Consumer
    class << self
      attr_accessor :jobs, :last
    end

    def assigned = background("idle", &:wait)

    def consume
      Counter.jobs += 1
      Counter.last = self
    end
  end

  class Batch < FakeFeed::Batch
    def messages = Array.new(size) { |at| Fakes::Message.new(topic, partition, at, "x", key: "k#{at % 3}") }
  end

  # A subscription that gets its partitions, a batch of each, and loses them again, as often as it is told.
  class Rebalances < FakeFeed::Subscription
    class << self
      attr_accessor :only
    end

    # How many there were.
    attr_reader :done

    def initialize(*)
      super(PARTITIONS, 0, 10, 1)
      @wanted = @given = @done = @held = 0
      Rebalances.only = self
    end

    # So many more.
    def rebalance(times)
      @lock.synchronize { @wanted += times }
      wake
    end

    def subscribe(topics)
      @places = Array.new(PARTITIONS) { |partition| [topics.first, partition] }
      @next = []
    end

    def revoked(_token)
      @lock.synchronize do
        @done += 1
        @leaving = nil
      end
      wake
    end

    def released(_partition)
      @lock.synchronize { @held -= 1 }
      wake
    end

    private

    # Under @lock. The partitions go when their batches are done.
    def take
      return @next.shift unless @next.empty?
      return if @held.positive? || (@given == @done && @given == @wanted) || @leaving
      return [:revoked, @leaving = @given, @places, false] if @given > @done

      batches = @places.map { |topic, partition| [:batch, Batch.new(self, topic, partition, 0, 10)] }
      @held = batches.size
      @given += 1
      @next = batches
      [:assigned, @places]
    end
  end

  def setup
    super
    Counter.jobs = 0
    @app = Pelton::App.new
  end

  def teardown
    @app&.close(timeout: 5)
    @cluster&.close
    super
  end

  # 184 bytes a job on Ruby 3.1: `select` and `reject` of a Hash that compares by identity.
  def test_jobs_with_keys_leave_no_memory_behind
    @cluster = Pelton::EmbeddedCluster.new
    @cluster.create_topic("jobs", 1)
    start(@cluster.bootstrap_servers, max_messages: 1)
    # The same messages in each window: those that the cluster keeps are memory of this process, too.
    @app.producer.produce_many_sync(Array.new(JOBS) { |at| { topic: "jobs", key: "k#{at % 50}", payload: "x" } })
    await_jobs(JOBS)
    growth("job", JOBS, MOST_PER_JOB) do |window|
      assert Counter.last.seek(0)
      await_jobs(JOBS * (window + 2))
    end
  end

  # 1.8 kB a rebalance.
  def test_rebalances_leave_no_memory_behind
    native = Fakes::Native.new
    @app = Pelton::App.new(native: Module.new do
      extend Fakes::Limits
      const_set(:Poller, native.const(:Poller))
      const_set(:Subscription, Rebalances)
    end)
    start("127.0.0.1:1")
    growth("rebalance", REBALANCES, MOST_PER_REBALANCE) do
      wanted = Rebalances.only.done + REBALANCES
      Rebalances.only.rebalance(REBALANCES)
      eventually(60, -> { "#{wanted} rebalances: #{Rebalances.only.done}" }) { Rebalances.only.done == wanted }
    end
    assert_operator Counter.jobs, :>, 0
  end

  private

  # Fails if each window grew by `most` bytes for each of its things, or more. Ends with the first that did not.
  def growth(name, count, most)
    yield 0 # caches
    found = []
    before = Footprint.new
    (1..WINDOWS).each do |window|
      yield window
      after = Footprint.new
      found << ((after.kilobytes - before.kilobytes) * 1024 / count)
      before = after
      $stdout.puts "#{name} #{found}" if ENV["V"]
      break if found.last < most && !ENV["V"]
    end
    assert_operator found.min, :<, most, "bytes for each #{name}: #{found}"
  end

  def start(servers, **settings)
    @app.configure do |config|
      config.kafka = { "bootstrap.servers" => servers }
      config.group_id = "growth"
      config.logger = nil # of the end of the cluster
      settings.each { |name, value| config.set(name, value) }
    end
    @app.routes { topic("jobs", to: Counter) { concurrency 2 } }
    @app.start
  end

  def await_jobs(count)
    eventually(60, -> { "#{count} jobs: #{Counter.jobs}" }) { Counter.jobs >= count }
    eventually(60, "calm") { @app.stats[:jobs].values.sum.zero? && @app.stats[:lags].dig("growth", "jobs", 0)&.zero? }
  end
end
