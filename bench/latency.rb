# How long does a message take from produce to consume, at 1,000 messages a second, with default settings?
# frozen_string_literal: true

require_relative "support"
require_relative "support/served"

RATE = 1000
SECONDS = Integer(ENV["BENCH_SECONDS"] || 10)
# The mock cluster lets a fetch that finds nothing wait its whole time; a broker answers when a message comes.
FETCH = Cluster.kind == "embedded" ? { "fetch.wait.max.ms" => 5 } : {}
SHARES = { "p50" => 0.5, "p99" => 0.99, "p99.9" => 0.999 }.freeze

# A process of its own that produces, from the first byte on that it is sent: each message with the time at which it was
# due or, if the producer waited for that time, the time after the wait. (The clock is the machine's.)
class Source
  def initialize(topic, &send)
    Cluster.bootstrap # the child knows it then
    reader, @word = IO.pipe
    @pid = fork do
      @word.close
      producer = Pelton::Producer.new(Cluster.config)
      producer.produce_sync(topic: topic, payload: "0", partition: 0) # connected
      reader.read(1)
      work(producer, topic, &send)
      exit!(producer.close(timeout: 10))
    end
    reader.close
  end

  def start = @word.write("1")

  def stop
    @word.close
    Process.wait(@pid)
  end

  private

  def work(producer, topic)
    start = Bench.now
    (RATE * SECONDS).times do |number|
      due = start + number.fdiv(RATE)
      now = Bench.now
      if now < due
        sleep(due - now)
        due = Bench.now
      end
      yield producer, { topic: topic, payload: due.to_s, partition: number % Served::PARTITIONS }
    end
  end
end

# µs from produce to consume of each message, in the order of coming.
def latencies(&send)
  topic = Cluster.topic(Served::PARTITIONS)
  source = Source.new(topic, &send)
  times = []
  lock = Mutex.new
  tally = Served::Tally.new(RATE * SECONDS)
  served = Served.new(topic, kafka: FETCH) do
    now = Bench.now
    sent = messages.map { |message| message.raw_payload.to_f }.select(&:positive?)
    lock.synchronize { times.concat(sent.map { |time| (now - time) * 1e6 }) }
    tally.add(sent.size)
  end
  served.run(assigned: Served::PARTITIONS) do
    source.start
    tally.speed
  end
  times
ensure
  source&.stop
end

Bench.measure("latency") do |bench|
  { "produce_sync" => ->(producer, message) { producer.produce_sync(**message) },
    "produce_async, linger 5 ms" => ->(producer, message) { producer.produce_async(**message) } }.each do |name, send|
    bench.case("#{name}, p50", "µs") do
      times = latencies(&send)
      SHARES.drop(1).each { |label, share| bench.note("#{name}, #{label}", "µs", Bench.percentile(times, share)) }
      Bench.median(times)
    end
  end
end
