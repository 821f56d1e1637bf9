# What does an engine for parallel work cost a batch that does not use it?
# frozen_string_literal: true

require_relative "support"
require "pelton/parallel"

TIMES = Bench.some(2_000_000)
BATCH = Array.new(100, "{}").freeze
JOB = ->(input) { input }

# ns of one call of the block, without the loop around it.
def nanoseconds(&call)
  empty = Bench.seconds { TIMES.times { nil } }
  (Bench.seconds { TIMES.times(&call) } - empty) * 1e9 / TIMES
end

Bench.measure("unused") do |bench|
  bench.chart("ns that a batch pays for an engine that it does not use", "ns")
  inline = Pelton::Parallel.engine(:inline)
  native = Pelton::Parallel.engine(:native)
  # Never started: the batch is too small for it.
  pool = Pelton::Parallel.engine(:thread, size: 2, min: BATCH.size + 1)

  bench.case("inline, dispatched", "ns") { nanoseconds { inline.dispatch(BATCH, JOB) } }
  bench.case("native, dispatched", "ns") { nanoseconds { native.dispatch(BATCH) } }
  bench.case("pool, too few messages for it", "ns") { nanoseconds { pool.dispatch(BATCH, JOB) } }
end
