# What do engines for parallel work cost a batch that does not use them, and what does a dispatch cost one that does?
# frozen_string_literal: true

require_relative "support"
require "pelton/batch"
require "pelton/decoding/parallel/parallel"
require "pelton/decoding/parallel/eager_decoding"
require "pelton/consuming/listener"

TIMES = Bench.some(2_000_000)
INPUTS = Array.new(40, "{}").freeze
BATCH = Pelton::Batch::Part.new("orders", 0, INPUTS, 39).freeze
JOB = ->(input) { input }
DISPATCHES = Bench.some(20_000)
# One task, for one worker.
MESSAGES = Array.new(100, "{}").freeze

# A job that takes no time, fit for Ractors.
module Nothing
  def self.call(_input) = nil
end

# ns of a turn of the first loop, less one of an empty loop.
def nanoseconds(&turns)
  empty = Bench.seconds { TIMES.times { nil } }
  (Bench.seconds(&turns) - empty) * 1e9 / TIMES
end

# A listener without a client, of a group with these deserializers: all that it does for engines with each batch.
def listener(deserializers)
  ahead = Pelton::Parallel::EagerDecoding.new(deserializers)
  Pelton::Consuming::Listener.allocate.tap do |listener|
    listener.instance_variable_set(:@ahead, (ahead unless ahead.none?))
  end
end

# µs of a dispatch of messages that take no time: what the caller pays, and until all are there.
def dispatches(pool)
  pool.dispatch(MESSAGES, Nothing).values # starts the workers
  paid = 0.0
  all = Bench.seconds do
    DISPATCHES.times do
      future = nil
      paid += Bench.seconds { future = pool.dispatch(MESSAGES, Nothing) }
      future[99]
    end
  end
  [paid, all].map { |seconds| seconds * 1e6 / DISPATCHES }
ensure
  pool.close
end

Bench.measure("unused") do |bench|
  bench.chart("ns that a batch pays for engines that it does not use", "ns")
  inline = Pelton::Parallel.engine(:inline)
  # Never started: 40 messages are too few for it.
  pool = Pelton::Parallel.engine(:thread, size: 2)
  decoding = Pelton::Parallel::Decoding.new(JOB, pool, topic: "orders", bus: Pelton::Notifications.new, timeout: 30)

  { "no deserializer in the group" => {}, "a deserializer without parallel" => { "orders" => JOB },
    "parallel, too few messages" => { "orders" => decoding } }.each do |name, deserializers|
    bench.case(name, "ns") do
      listener = listener(deserializers)
      nanoseconds { listener.instance_exec { TIMES.times { @ahead&.dispatch(BATCH) } } }
    end
  end
  bench.case("the inline engine, asked for a future", "ns") do
    nanoseconds { TIMES.times { inline.dispatch(INPUTS, JOB) } }
  end
  [:thread, *(:ractor if Pelton::Parallel::RactorWorker.available?)].each do |name|
    bench.case("a dispatch of 100 messages to a #{name}, which its caller pays", "µs") do
      paid, all = dispatches(Pelton::Parallel.engine(name, size: 1))
      bench.note("a dispatch of 100 messages to a #{name}, until all are there", "µs", all)
      paid
    end
  end
end
