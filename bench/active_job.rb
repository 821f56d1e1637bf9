# How many jobs of Active Job does Pelton enqueue and perform in a second, how soon, and in how much memory?
# frozen_string_literal: true

require_relative "support"
require_relative "support/job_workers"

COUNT = Bench.some(20_000)
ENQUEUED = Bench.some(5_000)
PACED = Bench.some(1_000)
PACE = 0.005 # seconds between two jobs
THREADS = 10
TEXT = ("x" * 100).freeze

# Jobs/s of perform_later from so many threads.
def enqueue(worker, threads)
  Bench.forked do
    worker.enqueuing
    BenchJob.perform_later(0, nil) # connects
    count = ENQUEUED / threads
    count * threads / Bench.seconds do
      Array.new(threads) { Thread.new { count.times { BenchJob.perform_later(TEXT, nil) } } }.each(&:join)
    end
  end
end

# A worker that performs jobs which wait: [jobs/s, MB more than before it started]
def perform(worker)
  Bench.forked do
    worker.enqueuing
    worker.fill(Array.new(COUNT) { BenchJob.new(TEXT, nil) })
    0
  end
  Bench.forked do
    before = Bench.resident
    worker.working
    ends = Array.new(COUNT) { BenchJob::DONE.pop.last }
    [(COUNT - 1) / (ends.max - ends.min), Bench.resident - before].tap { worker.stop }
  end
end

# Seconds from perform_later, in another process, to perform: [p50, p99]
def latency(worker)
  sender = Bench.forked_later do
    worker.enqueuing
    (PACED * 2).times do # the first half warms up
      BenchJob.perform_later(TEXT, Process.clock_gettime(Process::CLOCK_MONOTONIC))
      IO.select(nil, nil, nil, PACE)
    end
  end
  Bench.forked do
    worker.working
    sender.call
    all = Array.new(PACED * 2) { BenchJob::DONE.pop }.drop(PACED).map { |sent, done| done - sent }
    worker.stop
    [0.5, 0.99].map { |share| Bench.percentile(all, share) }
  end
end

Bench.measure("active_job", warm_up: false) do |bench|
  workers = JobWorkers.all
  workers.each do |name, make|
    peer = name == "Pelton" && workers.key?("Sidekiq")
    against = ->(text) { "Sidekiq: #{text}" if peer }
    [1, THREADS].each do |threads|
      what = "enqueue, #{threads} thread#{"s" if threads > 1}"
      bench.case("#{name}: #{what}", "jobs/s", vs: against.(what)) { enqueue(make.call, threads) }
    end
    bench.case("#{name}: perform, #{THREADS} threads", "jobs/s", vs: against.("perform, #{THREADS} threads")) do
      rate, memory = perform(make.call)
      bench.note("#{name}: memory of the jobs' process", "MB", memory)
      rate
    end
    bench.case("#{name}: perform_later to perform, p50", "ms", vs: against.("perform_later to perform, p50")) do
      half, most = latency(make.call)
      bench.note("#{name}: perform_later to perform, p99", "ms", most * 1000)
      half * 1000
    end
  end
end
