# frozen_string_literal: true

# 500 partitions with a backlog of 1 GB, in messages of 1 to 5 KB and batches of up to 1 MB, are worked through by a
# process that may have 256 MB, and 25 producers may flood a broker that is away. The limit is a control group's where
# this machine lets us make one; the peak of the resident memory is checked in any case.

# time limit: 1800
# once: what is counted is native memory

require "support/scenario"

LIMIT = 256 << 20
PARTITIONS = 500
BACKLOG = 2 << 20 # bytes of a partition

CHILD = <<~RUBY
  require "pelton"
  require "json"
  group = ARGV.shift
  File.write("\#{group}/cgroup.procs", Process.pid.to_s) unless group.empty?
  kind, servers, topic, count = ARGV
  app = Pelton::App.new
  app.configure do |config|
    config.kafka = { "bootstrap.servers" => servers }
    config.memory = "64MB"
    config.logger = nil
  end
  limits = []
  if kind == "consume"
    done = Thread::Queue.new
    reader = Class.new(Pelton::Consumer) { define_method(:consume) { done << messages.raw_payloads.size } }
    app.routes { group("g-\#{topic}") { topic(topic, to: reader) } }
    app.start
    left = Integer(count)
    while left.positive?
      left -= done.pop
      memory = Pelton::Native.memory
      limits << memory[:fetched] + memory[:batches]
    end
    app.stop
  else
    app.config.queue_timeout = 0.1
    error = nil
    all = Array.new(25) { Pelton::Producer.new(app.config) }
    all.each do |producer|
      loop { producer.produce_async(topic: topic, payload: "x" * 4096) }
    rescue Pelton::QueueFullError => error
      limits << app.stats[:memory][:producers]
    end
    all.each { |producer| producer.close(timeout: 0) }
    left = app.stats[:memory][:producers]
  end
  peak = File.read("/proc/self/status")[/^VmHWM:\\s+(\\d+)/, 1].to_i * 1024
  puts JSON.generate("peak" => peak, "most" => limits, "full" => error&.message, "left" => left)
RUBY

# A control group with that limit, of version 1 or 2; "" where none can be made.
def control_group(bytes)
  { "/sys/fs/cgroup" => "memory.max", "/sys/fs/cgroup/memory" => "memory.limit_in_bytes" }.each do |folder, file|
    next unless File.writable?("#{folder}/cgroup.procs") && File.exist?("#{folder}/cgroup.procs")

    group = "#{folder}/pelton-#{Process.pid}"
    Dir.mkdir(group)
    begin
      File.write("#{group}/#{file}", bytes.to_s)
      return group
    rescue SystemCallError
      Dir.rmdir(group)
    end
  end
  ""
rescue SystemCallError
  ""
end

Scenario.run do
  name = topic(partitions: PARTITIONS)
  group = control_group(LIMIT)
  puts group.empty? ? "no control group: the resident memory is watched alone" : "in #{group}"
  sizes = [1000, 2000, 3000, 5000]
  texts = sizes.map { |size| Random.bytes(size) }
  count = 0
  writer = app(kafka: { "linger.ms" => 100 }, queue_timeout: 120)
  PARTITIONS.times do |partition|
    (BACKLOG / sizes.sum).times do
      texts.each { |text| writer.producer.produce_async(topic: name, payload: text, partition: partition) }
      count += texts.size
    end
  end
  equal(true, writer.producer.flush, "all was sent")
  writer.close

  work = lambda do |kind, servers, *more|
    child = ruby("-e", CHILD, group, kind, servers, name, *more)
    eventually(300, -> { "#{kind}: #{child.output}" }) { child.code }
    equal(0, child.code, "#{kind}: #{child.output}")
    JSON.parse(child.output.lines.last)
  end

  consumed = work.("consume", bootstrap, count.to_s)
  check(consumed["peak"] < LIMIT, "the consumer had #{consumed["peak"] >> 20} MB")
  # A quarter of 64 MB, and what one fetch may bring on top.
  most = consumed["most"].max
  check(most.between?(1, 24 << 20), "#{most} bytes of messages waited")

  flooded = work.("flood", "127.0.0.1:1")
  check(flooded["peak"] < LIMIT, "the producer had #{flooded["peak"] >> 20} MB")
  # A quarter of 64 MB, and a megabyte for each other producer; each may exceed its limit by a message.
  first, *, last = flooded["most"]
  check(first.between?(16 << 20, (16 << 20) + 8192), "#{first} bytes waited in the first producer")
  check(last.between?(40 << 20, (40 << 20) + (25 * 8192)), "#{last} bytes waited in all producers")
  equal(0, flooded["left"], "bytes that wait after the end")
  check(flooded["full"].include?("config.memory"), flooded["full"])
ensure
  Dir.rmdir(group) unless group.to_s.empty?
end
