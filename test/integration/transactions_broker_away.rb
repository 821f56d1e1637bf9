# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/exactly_once"

# The broker freezes and is killed, again and again, while a pool's producers commit. What a transaction said of itself
# is what readers see: committed is there once and whole, refused is not there; only of what nobody could know either
# may be true.

PARTITIONS = 3
WRITERS = 3

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  name = topic(partitions: PARTITIONS)
  # A broker that is away for longer than transaction.timeout.ms has ended the transaction, which looks like fencing;
  # nobody else has these ids.
  app = app(transaction_timeout: 8, reload_backoff: 0.2, reload_attempts: 100, reload_fenced: true)
  pool = app.producer_pool(size: WRITERS, timeout: 60, kafka: { "transactional.id" => unique("id"),
                                                                "transaction.timeout.ms" => 10_000,
                                                                "reconnect.backoff.max.ms" => 500 })
  outcomes = {} # {"writer-number" => :committed, :refused or :unknown}
  lock = Mutex.new
  busy = true
  errors = Hash.new(0)
  write = lambda do |text|
    pool.transaction do |tx|
      PARTITIONS.times { |partition| tx.produce_async(topic: name, payload: text, partition: partition) }
    end
    :committed
  rescue Pelton::Error => e
    lock.synchronize { errors["#{e.class} #{e.respond_to?(:name) ? e.name : e.message[0, 60]}"] += 1 }
    unknown = e.is_a?(Pelton::TransactionError) || (e.is_a?(Pelton::KafkaError) && e.fatal?)
    unknown ? :unknown : :refused
  end
  writers = Array.new(WRITERS) do |writer|
    Thread.new do
      number = 0
      while busy
        text = "#{writer}-#{number += 1}"
        outcome = write.call(text)
        lock.synchronize { outcomes[text] = outcome }
      end
    end
  end
  committed = -> { lock.synchronize { outcomes.each_value.count(:committed) } }
  progress = lambda do |what|
    before = committed.call
    eventually(60, "commits #{what}") { committed.call > before + 20 }
  end

  progress.call("at the start")
  3.times do |round|
    broker.kill(:STOP)
    work(round)
    broker.kill(:CONT)
    progress.call("after a frozen broker")
    broker.kill(:KILL)
    work(round * 4) # the last time longer than a step may take
    broker.restart
    progress.call("after a killed broker")
  end
  busy = false
  writers.each(&:value)
  equal(0, pool.close(timeout: 30 * Guard::PATIENCE), "undelivered")

  puts "outcomes: #{outcomes.each_value.tally}", "errors: #{errors}"
  # Kafka confirms a transaction, then writes its end into the partitions.
  found = nil
  sure = outcomes.select { |_, outcome| outcome == :committed }.keys
  whole = -> { found.values_at(*0...PARTITIONS).map(&:sort).uniq.size == 1 }
  missing = -> { found.transform_values { |texts| (sure - texts).size } }
  eventually(20, -> { "what was committed: #{missing.call} missing, transactions are whole: #{whole.call}" }) do
    found = ExactlyOnce.read(bootstrap, name, PARTITIONS)
    PARTITIONS.times.all? { |partition| (sure - found[partition]).empty? } && whole.call
  end
  PARTITIONS.times do |partition|
    times = found[partition].tally
    equal({}, times.select { |_, count| count > 1 }, "messages that are there twice")
    wrong = outcomes.select { |text, outcome| outcome == :refused && times.key?(text) }
    equal({}, wrong, "transactions that lied")
  end
  broker.stop
end
