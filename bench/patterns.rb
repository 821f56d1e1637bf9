# Which way to have Ractors parse for several callers gives the most, and which the evenest times of a batch?
# frozen_string_literal: true

require_relative "support"
require_relative "support/orders"

unless defined?(Ractor::Port)
  warn "patterns: Ractors that several threads call need Ruby 4.0"
  exit
end
require_relative "support/parallel_patterns"

CALLERS = [1, 3, 5, 8].freeze
WORKERS = 2
BATCH = 500
BATCHES = Bench.some(100) # of all callers together
SIZE = 5_000
DOCUMENTS = Orders.new(bytes: SIZE).then { |orders| Array.new(BATCH) { orders.next.freeze } }.freeze
VALUES = DOCUMENTS.map { |document| JSON.parse(document) }

# Callers take batches until there are none; [messages/s, ms of each batch].
def run(callers, &work)
  left = Thread::Queue.new
  [BATCHES, callers].max.times { left << true }
  left.close
  times = Thread::Queue.new
  took = Bench.seconds do
    threads = Array.new(callers) do
      Thread.new { times << (Bench.seconds(&work) * 1000) while left.pop }
    end
    threads.each(&:join)
  end
  [times.size * BATCH / took, Array.new(times.size) { times.pop }]
end

def parallel(pattern, callers)
  Bench.forked do
    Warning[:experimental] = false
    workers = pattern.new(WORKERS)
    raise "#{pattern} gives something else" unless workers.call(DOCUMENTS) == VALUES

    run(callers) { workers.call(DOCUMENTS) }.tap { workers.close }
  end
end

def note(bench, name, times)
  bench.note("#{name}, p50 of a batch", "ms", Bench.median(times))
  bench.note("#{name}, p99 of a batch", "ms", Bench.percentile(times, 0.99))
  bench.note("#{name}, p99 is so many times p50", "times", Bench.percentile(times, 0.99) / Bench.median(times))
end

Bench.measure("patterns", warm_up: false) do |bench|
  bench.chart("messages of 5 KB a second, #{WORKERS} workers", "msg/s")
  bench.chart("ms of the slowest hundredth of batches of #{BATCH}", "ms", /p99/)
  CALLERS.each do |callers|
    many = callers == 1 ? "1 caller" : "#{callers} callers"
    inline = "no Ractor, #{many}"
    bench.case(inline, "msg/s") do
      speed, times = Bench.forked { run(callers) { DOCUMENTS.each { |document| JSON.parse(document, freeze: true) } } }
      note(bench, inline, times)
      speed
    end
    ParallelPatterns::ALL.each do |name, pattern|
      name = "#{name}, #{many}"
      bench.case(name, "msg/s", vs: inline) do
        speed, times = parallel(pattern, callers)
        note(bench, name, times)
        speed
      end
    end
  end
end
