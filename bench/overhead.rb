# What does a batch cost between Kafka and a consumer class when no feature is on?
# frozen_string_literal: true

require_relative "support"
require_relative "../test/support/fake_feed"

BATCHES = Bench.some(20_000)
SIZE = 100 # config.max_messages

# Counts batches, and notes the time and the number of objects at the first and the last one.
class Tally
  def initialize(count)
    @left = count
    @lock = Mutex.new
    @done = Thread::Queue.new
  end

  def batch
    @lock.synchronize do
      @from ||= reading
      @done << reading if (@left -= 1).zero?
    end
  end

  # [ns, objects] between the first and the last batch.
  def wait = reading_after(@done.pop)

  private

  def reading = [Bench.now * 1e9, GC.stat(:total_allocated_objects)]
  def reading_after(last) = last.zip(@from).map { |after, before| after - before }
end

# ns and objects of one batch.
def overhead(partitions, workers)
  app = Pelton::App.new(native: FakeFeed.of(partitions: partitions, batches: BATCHES / partitions, size: SIZE))
  tally = Tally.new(BATCHES)
  app.configure do |config|
    config.group_id = "bench"
    config.concurrency = workers
  end
  consumer = Class.new(Pelton::Consumer) { define_method(:consume) { tally.batch } }
  app.routes { topic "orders", to: consumer }
  app.start
  tally.wait.map { |value| value.fdiv(BATCHES) }
ensure
  app.close(timeout: 10)
end

Bench.measure("overhead") do |bench|
  { "1 partition, 1 worker" => [1, 1], "5 partitions, 5 workers" => [5, 5] }.each do |name, shape|
    bench.case("#{name}, a batch", "ns") do
      time, objects = overhead(*shape)
      bench.note("#{name}, a batch", "objects", objects)
      bench.note("#{name}, a message of #{SIZE}", "objects", objects / SIZE)
      time
    end
  end
end
