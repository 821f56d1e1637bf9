# From how many messages on does a batch come back sooner from Ractors than from a loop, for each size of a message?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"
require "pelton/decoding/parallel/parallel"

unless Pelton::Parallel::RactorWorker.available?
  warn "break_even: needs the Ractors of Ruby 4.0"
  exit
end

SIZES = { "500 B" => 500, "1 KB" => 1_000, "5 KB" => 5_000, "18 KB" => 18_000, "78 KB" => 78_000 }.freeze
BATCHES = [5, 10, 25, 50, 100, 200, 500].freeze
WORKERS = 2
BYTES = Bench.some(15_000_000) # parsed for each figure

# The work of both.
module Job
  def self.call(document) = JSON.parse(document, freeze: true)
end

# Times as fast as a loop in the same process, batch by batch.
def speed(documents)
  task_size = [documents.size / (2 * WORKERS), 1].max
  pool = Pelton::Parallel.engine(:ractor, size: WORKERS, min: 1, task_size: task_size).start
  expected = documents.map { |document| Job.call(document) }
  raise "other values" unless pool.dispatch(documents, Job).values == expected

  rounds = [BYTES / documents.sum(&:bytesize), 3].max
  loop_times = []
  pool_times = []
  rounds.times do # in turn
    loop_times << Bench.seconds { documents.map { |document| Job.call(document) } }
    pool_times << Bench.seconds { pool.dispatch(documents, Job).values }
  end
  Bench.median(loop_times) / Bench.median(pool_times)
ensure
  pool.close
end

Bench.measure("break_even", warm_up: false) do |bench|
  bench.chart("times as fast as a loop, #{WORKERS} Ractors", "times")
  SIZES.each do |name, size|
    orders = Orders.new(bytes: size)
    documents = Array.new(BATCHES.last) { orders.next.freeze }.freeze
    speeds = {}
    BATCHES.each do |count|
      bench.case("#{name}, #{count} messages", "times") do
        speeds[count] = Bench.forked do
          Warning[:experimental] = false
          speed(documents.first(count).freeze)
        end
      end
    end
    bench.case("#{name}, smallest batch that wins by a tenth (0: none)", "messages") do
      BATCHES.find { |count| BATCHES.select { |more| more >= count }.all? { |more| speeds[more] >= 1.1 } } || 0
    end
  end
end
