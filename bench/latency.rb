# How long does a message take from produce to consume, at 1,000 messages a second, with default settings?
# frozen_string_literal: true

require_relative "support"
require_relative "support/served"

RATE = 1000
SECONDS = Integer(ENV["BENCH_SECONDS"] || (Bench::QUICK ? 3 : 15))
# The mock cluster lets a fetch that finds nothing wait its whole time; a broker answers when a message comes.
FETCH = Cluster.kind == "embedded" ? { "fetch.wait.max.ms" => 5 } : {}
SHARES = { "p50" => 0.5, "p99" => 0.99, "p99.9" => 0.999 }.freeze

# s in which a new broker may still compile. They have rows of their own.
FIRST = 2

# A process of its own that produces, from the first byte on that it is sent: each message with the time at which it was
# due or, if the producer waited for that time, the time after the wait. (The clock is the machine's.)
class Source
  def initialize(topic, &send)
    Cluster.bootstrap # before the fork, so that the child has it
    reader, @word = IO.pipe
    @waits, writer = IO.pipe
    @pid = fork do
      @word.close
      producer = Pelton::Producer.new(Cluster.config)
      # Connected, and something to read for each partition of the consumer.
      Served::PARTITIONS.times { |number| producer.produce_sync(topic: topic, payload: "0", partition: number) }
      reader.read(1)
      writer.puts(work(producer, topic, &send))
      writer.close
      exit!(producer.close(timeout: 10))
    end
    [reader, writer].each(&:close)
  end

  def start = @word.write("1")

  # µs that each message kept the producer waiting, when all are sent.
  #: () -> Array[Float]
  def waits = @waits.each_line.map(&:to_f)

  def stop
    @word.close
    Process.wait(@pid)
  end

  private

  def work(producer, topic)
    start = Bench.now
    Array.new(RATE * SECONDS) do |number|
      due = start + number.fdiv(RATE)
      now = Bench.now
      if now < due
        sleep(due - now)
        due = Bench.now
      end
      message = { topic: topic, payload: due.to_s, partition: number % Served::PARTITIONS }
      Bench.seconds { yield producer, message } * 1e6
    end
  end
end

# [time of sending, µs since then] of each message but those that go ahead.
def taken(messages, now)
  messages.filter_map { |message| (time = message.raw_payload.to_f).positive? && [time, (now - time) * 1e6] }
end

# µs of those that were sent after the first seconds, of [time of sending, µs].
def later(times)
  first = times.map(&:first).min
  times.filter_map { |time, taken| taken if time - first > FIRST }
end

# [µs from produce to consume of each message, in the order of coming; the same after the first seconds; µs that the
# producer waited for each].
def latencies(&send)
  topic = Cluster.topic(Served::PARTITIONS)
  source = Source.new(topic, &send)
  times = []
  lock = Mutex.new
  tally = Served::Tally.new(RATE * SECONDS)
  reading = Thread::Queue.new
  served = Served.new(topic, kafka: FETCH) do
    sent = taken(messages, Bench.now)
    lock.synchronize { times.concat(sent) }
    sent.empty? ? reading << true : tally.add(sent.size)
  end
  served.run do
    # A new group's first messages come 100 ms late: see docs/internals/non-obvious.md.
    Served::PARTITIONS.times { reading.pop }
    source.start
    tally.speed
  end
  [times.map(&:last), later(times), source.waits]
ensure
  source&.stop
end

# The same of librdkafka alone: a thread that sends and waits for each report, one that reads, one process.
def c_loop
  topic = Cluster.topic(Served::PARTITIONS)
  options = Cluster::CONSUME.merge(FETCH)
  Cluster.c_loops("latency", topic, RATE * SECONDS, RATE, Served::PARTITIONS, options: options)
end

Bench.measure("latency") do |bench|
  bench.case("C loop, p50", "µs") do
    times = c_loop
    SHARES.drop(1).each { |label, share| bench.note("C loop, #{label}", "µs", Bench.percentile(times, share)) }
    later = times.drop(RATE * FIRST)
    bench.note("C loop, after #{FIRST} s, p99", "µs", Bench.percentile(later, 0.99))
    Bench.median(times)
  end
  { "produce_sync" => ->(producer, message) { producer.produce_sync(**message) },
    "produce_async, linger 5 ms" => ->(producer, message) { producer.produce_async(**message) } }.each do |name, send|
    bench.case("#{name}, p50", "µs") do
      times, later, waits = latencies(&send)
      SHARES.drop(1).each { |label, share| bench.note("#{name}, #{label}", "µs", Bench.percentile(times, share)) }
      { "after #{FIRST} s" => later, "the producer's own wait" => waits }.each do |part, values|
        bench.note("#{name}, #{part}, p99", "µs", Bench.percentile(values, 0.99))
        bench.note("#{name}, #{part}, p99.9", "µs", Bench.percentile(values, 0.999))
      end
      Bench.median(times)
    end
  end
end
