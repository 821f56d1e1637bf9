# By how much does a server's memory grow when 100,000 jobs of Active Job, 365 B each, wait in its schedule?
# frozen_string_literal: true

require_relative "support"

COUNT = Bench.some(100_000)
HOUR = 3_600_000 # in ms
# What Active Job writes for a job with one argument of 100 characters, but for its job_id.
JOB = { job_class: "BenchJob", job_id: nil, provider_job_id: nil, queue_name: "default", priority: nil,
        arguments: ["x" * 100, nil], executions: 0, exception_executions: {}, locale: "en", timezone: "UTC",
        enqueued_at: "2026-11-28T08:00:00Z" }.freeze

# A schedule in which this many jobs wait.
def schedule(count)
  topic = Cluster.topic
  Bench.forked { Cluster.producer.tap { |producer| fill(producer, topic, count) }.close }
  topic
end

# Writes what `perform_later` with `wait` writes.
def fill(producer, topic, count)
  now = (Time.now.to_f * 1000).ceil
  random = Random.new(1)
  (0...count).each_slice(1000) do |slice|
    rows = slice.map do |number|
      place = number % Cluster::PARTITIONS
      payload = JSON.generate({ **JOB, job_id: SecureRandom.uuid })
      Pelton::Schedule::ScheduledMessage.new(id: "@#{place}.#{SecureRandom.urlsafe_base64(12)}",
                                             schedule_partition: place,
                                             at_ms: now + HOUR + random.rand(30 * 24 * HOUR), topic: "jobs.default",
                                             payload: payload).record(topic)
    end
    producer.produce_many_async(rows).wait(timeout: 60)
  end
end

# Gets none.
class BenchJobs < Pelton::Consumer
  def consume = nil
end

# [MB of a server that has read this schedule, seconds until then]
def server(schedule, jobs)
  Bench.forked do
    loaded = Thread::Queue.new
    app = Pelton::App.new
    app.configure do |config|
      config.kafka = { "bootstrap.servers" => Cluster.bootstrap }
      config.schedule_topic = schedule
      config.group_id = schedule
      config.logger = nil
    end
    app.routes { topic jobs, to: BenchJobs }
    app.subscribe("schedule.loaded") { |event| loaded << event }
    seconds = Bench.seconds do
      app.start
      Cluster::PARTITIONS.times { loaded.pop }
    end
    [Bench.resident, seconds].tap { app.stop }
  end
end

Bench.measure("schedule_memory", warm_up: false) do |bench|
  Cluster.bootstrap # the embedded cluster is this process's, not a child's
  jobs = Cluster.topic
  empty, full = [0, COUNT].map { |count| schedule(count) }
  bench.case("server with an empty schedule", "MB") { server(empty, jobs).first }
  bench.case("grows by, #{COUNT} jobs wait", "MB") do
    grown, seconds = server(full, jobs)
    bench.note("until it has read them", "s", seconds)
    grown - bench.last("server with an empty schedule", "MB")
  end
end
