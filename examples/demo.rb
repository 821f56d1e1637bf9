# frozen_string_literal: true

# `bin/demo`: produces order events, runs examples/orders.rb on them, shows how it goes, and checks that every message
# was seen. See bin/demo for the options.

$LOAD_PATH.unshift(*%w[lib test/support bench/support].map { |folder| File.expand_path("../#{folder}", __dir__) })
require "optparse"
require "pelton"
require "orders"
require "securerandom"

# Runs the demo on some cluster.
class Demo
  # Its own name, like the group's: the cluster may have a topic "orders" already.
  TOPIC = "pelton-demo-#{SecureRandom.hex(4)}".freeze
  PARTITIONS = 4
  POISON = '{"id":"o-poison","type":"order.paid","total":' # cut off: no JSON
  # Different events; they are sent again and again.
  VARIETY = 20_000
  # Seconds without a message after which it is given up.
  PATIENCE = 30
  # The embedded cluster keeps 5 MB a partition and drops the oldest: no more than this is on its way.
  WINDOW_BYTES = 3_500_000
  # Messages sent at once, and their bytes, of which one may have all.
  BATCH = 500
  BATCH_BYTES = 1_000_000

  def initialize(events, count, window:)
    @events = events
    @count = count
    @window = window
    @lock = Mutex.new
    @progress = ConditionVariable.new
    # Per partition: messages and bytes produced, and seen; the bytes of each message, by offset.
    @out = Array.new(PARTITIONS) { [0, 0] }
    @in = Array.new(PARTITIONS) { [0, 0] }
    @sizes = Array.new(PARTITIONS) { [] }
    # Offsets seen, per partition; and those seen again.
    @offsets = Array.new(PARTITIONS) { {} }
    @again = @retries = @skipped = @built = 0
    @errors = Hash.new(0)
  end

  # Returns whether every message was seen.
  def run(kafka)
    Pelton.configure do |config|
      config.kafka = kafka
      config.group_id = TOPIC
    end
    watch
    @started = now
    Pelton.start
    producing = Thread.new { produce }
    producing.report_on_exception = false
    show until finished?(producing)
    @ended = now
    threads = [Thread.list.size, status("Threads").to_i]
    memory = status("VmRSS").to_i / 1024
    producing.value
    clean = Pelton.stop
    report(threads, memory)
    clean && complete?
  ensure
    Pelton.close
  end

  private

  # What the consumer saw is counted where it says that it is done with it.
  def watch
    demo = self
    OrdersConsumer.prepend(Module.new do
      define_method(:consume) do
        super()
        demo.seen(partition, messages)
      end
    end)
    Pelton.subscribe("consumer.retrying") { |event| count_retry(event[:error]) }
    Pelton.subscribe("message.skipped") { |event| skipped(event[:partition], event[:offset]) }
  end

  def produce
    batches.each.with_index do |payloads, number|
      partition = number % PARTITIONS
      wait_for_room(partition, payloads.map(&:bytesize))
      Pelton.producer.produce_many_async(payloads.map { |payload| message(payload, partition) })
    end
    raise "not everything could be sent" unless Pelton.producer.flush(timeout: 60)

    @sent = now
  end

  # With the poison in the middle of the stream.
  def batches
    count = bytes = 0
    events = @events.cycle.lazy.take(@count).with_index.map { |event, index| index == @count / 2 ? POISON : event }
    events.eager.slice_before do |event|
      full = count == BATCH || bytes + event.bytesize > BATCH_BYTES
      count = bytes = 0 if full
      count += 1
      bytes += event.bytesize
      full
    end
  end

  def message(payload, partition) = { topic: TOPIC, partition: partition, payload: payload }

  def wait_for_room(partition, sizes)
    @lock.synchronize do
      while @window && @out[partition][1] + sizes.sum - @in[partition][1] > @window
        @progress.wait(@lock, PATIENCE) || raise("no progress for #{PATIENCE} s")
      end
      @out[partition][0] += sizes.size
      @out[partition][1] += sizes.sum
      @sizes[partition].concat(sizes)
    end
  end

  public

  # From a worker's thread, after consume.
  def seen(partition, messages)
    @lock.synchronize { messages.each { |message| note(partition, message.offset) } }
  end

  private

  def skipped(partition, offset)
    @lock.synchronize do
      @skipped += 1
      note(partition, offset)
    end
  end

  def note(partition, offset)
    return @again += 1 if @offsets[partition].key?(offset)

    @offsets[partition][offset] = true
    @in[partition][0] += 1
    @in[partition][1] += @sizes[partition].fetch(offset)
    @last = now
    @progress.broadcast
  end

  def count_retry(error)
    @lock.synchronize do
      @retries += 1
      @errors[error.class.name] += 1
    end
  end

  def total = @in.sum(&:first)

  # Waits up to half a second for the end.
  def finished?(producing)
    @lock.synchronize do
      @progress.wait(@lock, 0.5) if producing.alive? || total < @count
      !producing.alive? && (total >= @count || producing.status.nil? || now - [@last, @sent].compact.max > PATIENCE)
    end
  end

  def show
    return if @shown && now - @shown < 0.5

    @shown = now
    out = @out.sum(&:first)
    line = format("%<out>9d out  %<in>9d in  %<memory>5d MB", out: out, in: total, memory: status("VmRSS").to_i / 1024)
    $stdout.print($stdout.tty? ? "\r#{line}" : "#{line}\n")
  end

  def complete? = total == @count && @offsets.all? { |offsets| (offsets.keys.max || -1) + 1 == offsets.size }

  def report(threads, memory)
    built = OrdersConsumer::BOOKS.each_value.sum(&:size)
    rows = {
      "messages out" => "#{@out.sum(&:first)}  #{rate(@count, @sent - @started)}",
      "messages in" => "#{total}  #{rate(total, @ended - @started)}",
      "seen again" => @again,
      "decoded natively" => total - @skipped, "filtered out before Ruby built them" => total - @skipped - built,
      "built as Ruby objects" => built,
      "consume retried" => "#{@retries} (#{@errors.map { |name, count| "#{count} #{name}" }.join(", ")})",
      "skipped after the last attempt" => @skipped,
      "threads" => "#{threads[0]} Ruby, #{threads[1]} in all", "memory" => "#{memory} MB",
      "every message seen" => complete? ? "yes" : "NO"
    }
    puts "", *rows.map { |name, value| format("%-36<name>s %<value>s", name: name, value: value) }
  end

  def rate(count, seconds) = format("%<rate>d msg/s", rate: count / seconds)
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  # Of this process, from Linux; nil elsewhere.
  def status(field) = File.exist?("/proc/self/status") ? File.read("/proc/self/status")[/^#{field}:\s+(\d+)/, 1] : nil
end

count = 200_000
input = bootstrap = nil
kafka = false
begin
  OptionParser.new do |options|
    options.banner = "bin/demo [--count N] [--input FILE.jsonl] [--kafka | --bootstrap HOST:PORT]"
    options.on("--count N", Integer) { |number| count = number }
    options.on("--input FILE") { |path| input = path }
    options.on("--kafka") { kafka = true }
    options.on("--bootstrap SERVERS") { |servers| bootstrap = servers }
  end.parse!
  raise OptionParser::InvalidArgument, "--count #{count}: at least #{Demo::BATCH}" if count < Demo::BATCH
rescue OptionParser::ParseError => e
  abort "demo: #{e.message}"
end

ENV["TOPIC"] = Demo::TOPIC
require_relative "orders"
orders = Orders.new(bytes: 1_000)
made = Array.new([Demo::VARIETY, count].min) { orders.next } unless input
begin
  events = made || File.readlines(input, chomp: true, mode: "rb").reject { |line| line.strip.empty? }
rescue SystemCallError => e
  abort "demo: #{e.message}"
end
abort "demo: #{input} holds no events" if events.empty?
if (large = events.find { |event| event.bytesize > Demo::BATCH_BYTES })
  abort "demo: #{large[0, 60]}… of #{input} has #{large.bytesize} bytes, at most #{Demo::BATCH_BYTES} can be sent"
end

seen =
  if kafka || bootstrap
    require "broker"
    broker = TestBroker.start if kafka
    servers = bootstrap || broker.bootstrap
    app = Pelton::App.new.configure { |config| config.kafka = { "bootstrap.servers" => servers } }
    begin
      app.admin.create_topic(Demo::TOPIC, partitions: Demo::PARTITIONS, timeout: 10)
      begin
        Demo.new(events, count, window: nil).run("bootstrap.servers" => servers)
      ensure
        app.admin.delete_topic(Demo::TOPIC) unless broker
      end
    rescue Pelton::KafkaError => e
      abort "demo: #{servers}: #{e.message}"
    ensure
      app.close
      broker&.stop
    end
  else
    Pelton::EmbeddedCluster.start(topics: { Demo::TOPIC => Demo::PARTITIONS }) do |cluster|
      # Unlike Kafka, the mock cluster lets a fetch that finds nothing wait its full time, whatever comes meanwhile.
      kafka = { "bootstrap.servers" => cluster.bootstrap_servers, "fetch.wait.max.ms" => 10 }
      Demo.new(events, count, window: Demo::WINDOW_BYTES).run(kafka)
    end
  end
exit(seen ? 0 : 1)
