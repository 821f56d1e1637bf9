# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "timeout"

# Whatever consume does instead of returning: it is contained, its messages run again in order, the others go on,
# however many keys wait for a retry; an exit stops the server in order.

# What goes wrong in consume, a partition each.
FAILURES = {
  "exception" => -> { raise IOError, "on purpose" },
  "throw" => -> { throw :nowhere },
  "kill" => -> { Thread.current.kill },
  "thread exit" => -> { Thread.exit },
  "missing" => -> { raise NotImplementedError, "on purpose" },
  "bare exception" => -> { raise Exception, "on purpose" }, # rubocop:disable Lint/RaiseException
  "stack" => -> { (again = -> { again.call + 1 }).call },
  "timeout" => -> { Timeout.timeout(0.01) { IO.select(nil, nil, nil, 5) } },
  "load error" => -> { require "no/such/file" },
  "healthy" => -> {}
}.freeze
KINDS = [IOError, UncaughtThrowError, Pelton::WorkerKilled, Pelton::WorkerKilled, NotImplementedError, Exception,
         SystemStackError, Timeout::Error, LoadError].freeze

# Loaded by a server that ends by what its consumer does at offset 7.
CRITICAL = <<~RUBY
  require "pelton"
  class CriticalConsumer < Pelton::Consumer
    def consume
      messages.each do |message|
        eval(ENV["PELTON_DEED"]) if message.offset == 7 && partition.zero?
        puts "did \#{partition}/\#{message.offset}"
        mark_as_consumed(message)
      end
      IO.select(nil, nil, nil, 0.1)
    end
    def shutdown = puts("shutdown \#{partition}")
  end
  Pelton.configure do |config|
    config.kafka = { "bootstrap.servers" => ENV["PELTON_BOOTSTRAP"] }
    config.group_id = ENV["PELTON_GROUP"]
    config.max_messages = 5
  end
  Pelton.routes { topic ENV["PELTON_IN"], to: CriticalConsumer }
RUBY

Scenario.run do
  name = topic(partitions: FAILURES.size)
  rows = Array.new(FAILURES.size * 20) do |number|
    { topic: name, partition: number % FAILURES.size, payload: (number / FAILURES.size).to_s }
  end
  app.producer.produce_many_sync(rows)

  done = Thread::Queue.new
  deeds = FAILURES.values
  failed = Hash.new(0)
  # Fails at message 13 of each partition, twice; what is before it is marked.
  failing = consumer do
    messages.each do |message|
      if message.offset == 13 && failed[partition] < 2
        failed[partition] += 1
        deeds[partition].call
      end
      done << [partition, message.offset]
      mark_as_consumed(message)
    end
  end
  server = app(group: unique("group"), concurrency: 3) { topic(name, to: failing) { backoff 0.05..0.2 } }
  server.start
  all = take(done, FAILURES.size * 20)
  equal(true, server.stop, "stop")
  check(done.empty?, "marked messages ran again")
  FAILURES.each_key.with_index do |what, partition|
    mine = all.select { |row| row[0] == partition }.map(&:last)
    equal((0..19).to_a, mine, "#{what}: messages in order, marked ones once")
  end
  KINDS.each_with_index do |kind, partition|
    errors = events(server, "error.occurred").select { |event| event.payload[:partition] == partition }
    equal([kind] * 2, errors.map { |event| event[:error].class }, "errors of #{FAILURES.keys[partition]}")
    equal(["consumer.consume"] * 2, errors.map { |event| event[:source] }, "where #{FAILURES.keys[partition]} happened")
    retries = events(server, "consumer.retrying").select { |event| event[:partition] == partition }
    equal([13, 13], retries.map { |event| event[:offset] }, "where #{FAILURES.keys[partition]} runs again")
  end
  equal(4, events(server, "worker.replaced").size, "workers replaced")

  # Messages that come one by one, two of each key: all but the last key fail, until the provider is up again.
  keys = topic
  up = false
  tried = Thread::Queue.new
  done = Thread::Queue.new
  paying = Class.new(Pelton::Consumer) do
    define_method(:process) do |message|
      tried << message.offset
      raise IOError, "the provider is down" unless up || message.key == "healthy"

      done << [message.key, message.offset]
    end
  end
  server = app(group: unique("keys"), concurrency: 3) { topic(keys, to: paying) { concurrency(4) && backoff(5..5) } }
  server.start
  50.times do |number|
    2.times { server.producer.produce_sync(topic: keys, key: "k#{number}", payload: "x") }
    eventually(30, "the attempt of k#{number}") { tried.size > number }
  end
  server.producer.produce_sync(topic: keys, key: "healthy", payload: "x")
  equal([["healthy", 100]], take(done, 1), "what is done beside 50 keys that wait")
  up = true
  paid = take(done, 100).group_by(&:first).transform_values { |times| times.map(&:last) }
  equal(Array.new(50) { |number| ["k#{number}", [2 * number, (2 * number) + 1]] }.to_h, paid, "each key in its order")
  equal(true, server.stop, "stop")
  equal([101], committed(server.config.group_id, keys, 1), "what is committed")

  # What ends the whole server: in order, and nothing is lost by it.
  folder = Dir.mktmpdir("pelton-failures")
  at_exit { FileUtils.rm_rf(folder) }
  file = File.join(folder, "app.rb")
  File.write(file, CRITICAL)
  [["exit 3", 3, nil], ["exit", 0, nil],
   ["raise NoMemoryError, 'on purpose'", 1, "stopped by NoMemoryError: on purpose"],
   ["raise Interrupt", 1, "stopped by Interrupt"]].each do |deed, code, text|
    group = unique("group")
    child = pelton("server", "-r", file, env: { "PELTON_DEED" => deed, "PELTON_GROUP" => group, "PELTON_IN" => name })
    equal(code, exit_code(child), "exit code after #{deed}\n#{child.output}")
    check(child.output.include?(text), "#{deed}: #{child.output}") if text
    did = child.output.scan(%r{^did (\d+)/(\d+)}).map { |row| row.map(&:to_i) }.group_by(&:first)
    did.transform_values! { |list| list.map(&:last) }
    equal((0..6).to_a, did[0], "#{deed}: what was done in partition 0")
    ends = Array.new(FAILURES.size) { |partition| did[partition] && (did[partition].max + 1) }
    equal(ends, committed(group, name, FAILURES.size), "#{deed}: what is committed")
    check(child.output.scan(/^shutdown \d/).uniq.size >= did.size,
          "#{deed}: each consumer's shutdown ran: #{child.output}")
  end
end
