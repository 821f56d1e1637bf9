# frozen_string_literal: true

# once: it runs with the second Ruby and another librdkafka

require "support/scenario"
require "support/exactly_once"

# Transactions on a real broker: what readers see, offsets in them, fencing, a coordinator that gave up, aborts that
# overtake their first message.

Scenario.run do
  name = topic(partitions: 2)
  see = ->(isolation = "read_committed") { ExactlyOnce.read(bootstrap, name, 2, isolation).values.flatten.sort }
  # Kafka confirms a transaction, then writes its end into the partitions.
  seen = lambda do |wanted, what|
    eventually(20, -> { "#{what}: expected #{wanted}, got #{see.call}" }) { see.call == wanted }
  end
  transactional = lambda do |id = unique("id"), settings = {}, **options|
    app(kafka: { "transactional.id" => id, **options }, **settings)
  end

  # --- committed or not -------------------------------------------------------------------------------------------
  writer = transactional.call
  deliveries = writer.producer.transaction do |tx|
    Array.new(10) { |number| tx.produce_async(topic: name, payload: "a#{number}", partition: number % 2) }
  end
  check(deliveries.all?(&:delivered?), "every delivery is resolved by the commit")
  raises(ZeroDivisionError) do
    writer.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "never", partition: 0)
      1 / 0
    end
  end
  aborted = writer.producer.transaction do |tx|
    tx.produce_sync(topic: name, payload: "never", partition: 1)
    raise Pelton::AbortTransaction
  end
  equal(nil, aborted, "value of an aborted transaction")
  writer.producer.produce_sync(topic: name, payload: "b", partition: 1)
  writer.producer.produce_many_sync([{ topic: name, payload: "c" }, { topic: name, payload: "d" }])
  wanted = [*Array.new(10) { |number| "a#{number}" }, "b", "c", "d"]
  seen.(wanted, "what is committed")
  equal([*wanted, "never", "never"], see.call("read_uncommitted"), "what was written")
  equal(3, events(writer, "transaction.committed").size, "committed transactions")
  equal(2, events(writer, "transaction.aborted").size, "aborted transactions")

  # --- a killed thread --------------------------------------------------------------------------------------------
  inside = Thread::Queue.new
  thread = Thread.new do
    writer.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "never", partition: 0)
      inside << 1
      Thread.stop
    end
  end
  inside.pop
  thread.kill.join
  writer.producer.produce_sync(topic: name, payload: "e", partition: 0)
  wanted << "e"
  seen.(wanted, "after a killed thread")

  # --- a message that fails makes the transaction fail ---------------------------------------------------------------
  error = raises(Pelton::KafkaError) do
    writer.producer.transaction do |tx|
      tx.produce_async(topic: name, payload: "never", partition: 0)
      tx.produce_async(topic: name, payload: "x" * 2_000_000, partition: 1)
    end
  end
  puts "a message that is too large: #{error.message}"
  writer.producer.produce_sync(topic: name, payload: "f", partition: 0)
  wanted << "f"
  seen.(wanted, "after a failed message")

  # --- a message that the broker refuses costs only its own transaction ---
  small = topic(settings: { "max.message.bytes" => "1000" })
  3.times do
    raises(Pelton::DeliveryError, /MSG_SIZE_TOO_LARGE/) do
      writer.producer.produce_sync(topic: small, payload: "x" * 5000)
    end
    writer.producer.produce_sync(topic: small, payload: "fine")
  end
  equal([], events(writer, "producer.fatal"), "fatal errors by refused messages")

  # --- offsets ------------------------------------------------------------------------------------------------------
  input = topic(partitions: 1)
  writer.producer.produce_many_sync(Array.new(5) { |number| { topic: input, payload: number.to_s } })
  group = unique("group")
  subscription = Pelton::Subscription.new(writer.config, group_id: group)
  subscription.subscribe([input])
  messages = []
  eventually(30, "5 messages") do
    kind, batch = subscription.poll(1)
    messages.concat(batch.messages) if kind == :batch
    messages.size == 5
  end
  writer.producer.transaction do |tx|
    tx.mark_as_consumed(messages.last, subscription)
    raise Pelton::AbortTransaction
  end
  equal([nil], committed(group, input, 1), "offsets of an aborted transaction")
  writer.producer.transaction { |tx| tx.mark_as_consumed(messages.first(3), subscription) }
  equal([3], committed(group, input, 1), "offsets of a committed transaction")
  raises(Pelton::TransactionError) { writer.producer.mark_as_consumed(messages.last, subscription) }

  # --- of a member that the group has thrown out ---------------------------------------------------------------------
  subscription.close(10)
  raises(Pelton::ClosedError) { writer.producer.transaction { |tx| tx.mark_as_consumed(messages.last, subscription) } }
  equal([3], committed(group, input, 1), "offsets of a closed subscription")
  equal(:fine, writer.producer.transaction { :fine }, "the producer afterwards")

  # --- fencing --------------------------------------------------------------------------------------------------------
  id = unique("id")
  old = transactional.call(id)
  old.producer.produce_sync(topic: name, payload: "g", partition: 0)
  raises(Pelton::KafkaError) do
    old.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "never", partition: 0)
      transactional.call(id).producer.produce_sync(topic: name, payload: "h", partition: 0)
    end
  end
  check(raises(Pelton::KafkaError) { old.producer.produce_sync(topic: name, payload: "no") }.fenced?, "it is fenced")
  equal(true, events(old, "producer.fatal").last[:final], "fenced is final")
  equal([], events(old, "producer.reloaded"), "reloads of a fenced producer")
  wanted.push("g", "h")
  seen.(wanted, "after fencing")

  # init_transactions does that, too, and is no transaction: readers go on before the first one of the new producer.
  id = unique("id")
  old = transactional.call(id)
  newer = transactional.call(id)
  error = raises(Pelton::KafkaError) do
    old.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "never", partition: 0)
      writer.producer.produce_sync(topic: name, payload: "h2", partition: 0)
      newer.producer.init_transactions
      eventually(20, "the end of the old transaction") { see.call.include?("h2") }
    end
  end
  check(error.fenced?, "a transaction that init_transactions ended: #{error.message}")
  equal([0, 0], %w[started committed].map { |what| events(newer, "transaction.#{what}").size }, "its transactions")
  newer.producer.produce_sync(topic: name, payload: "h3", partition: 0)
  wanted.push("h2", "h3")
  seen.(wanted, "after init_transactions")

  id = unique("id")
  stubborn = transactional.call(id, { reload_fenced: true, reload_backoff: 0.1 })
  stubborn.producer.produce_sync(topic: name, payload: "i", partition: 0)
  transactional.call(id).producer.produce_sync(topic: name, payload: "j", partition: 0)
  raises(Pelton::KafkaError) { stubborn.producer.produce_sync(topic: name, payload: "never", partition: 0) }
  stubborn.producer.produce_sync(topic: name, payload: "k", partition: 0)
  equal(1, events(stubborn, "producer.reloaded").size, "reloads of one that takes over again")
  wanted.push("i", "j", "k")
  seen.(wanted, "after fencing back")

  # Two that go by one id, with config.on_reload: one of them takes another id, and both go on.
  id = unique("id")
  evasive = transactional.call(id, { reload_fenced: true, reload_backoff: 0.1, on_reload: lambda do |options, reason|
    reason.fenced? ? options.merge("transactional.id" => "#{options["transactional.id"]}-2") : nil
  end })
  evasive.producer.produce_sync(topic: name, payload: "i2", partition: 0)
  stays = transactional.call(id)
  stays.producer.produce_sync(topic: name, payload: "j2", partition: 0)
  raises(Pelton::KafkaError) { evasive.producer.produce_sync(topic: name, payload: "never", partition: 0) }
  2.times do
    evasive.producer.produce_sync(topic: name, payload: "jk", partition: 0)
    stays.producer.produce_sync(topic: name, payload: "jl", partition: 0)
  end
  equal(1, events(evasive, "producer.reloaded").size, "reloads of one that takes another id")
  equal([], events(stays, "producer.fatal"), "fatal errors of the one that keeps it")
  wanted.push("i2", "j2", *%w[jk jl] * 2)
  wanted.sort! # as it is read
  seen.(wanted, "with another id")

  # --- a transaction that outlives transaction.timeout.ms: the coordinator gives it up ------------------------------
  slow = transactional.call(unique("id"), { reload_backoff: 0.1 }, "transaction.timeout.ms" => 4000)
  error = raises(Pelton::KafkaError) do
    slow.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "never", partition: 0)
      # What comes after it in its partition is seen once it is ended.
      writer.producer.produce_sync(topic: name, payload: "k2", partition: 0)
      eventually(20, "the coordinator to abort") { see.call.include?("k2") }
    end
  end
  wanted << "k2"
  check(error.is_a?(Pelton::TransactionTimeout), "a commit that comes too late: #{error.message}")
  equal([false, 4.0], [events(slow, "producer.fatal").last[:final], error.limit], "a transaction that took too long")
  slow.producer.produce_sync(topic: name, payload: "k3", partition: 0)
  wanted << "k3"
  seen.(wanted, "after a transaction that took too long")

  # --- a close in another thread ends what is open, for which readers would wait ten minutes ------------------------
  left = transactional.call(unique("id"), "transaction.timeout.ms" => 600_000)
  held = Thread::Queue.new
  thread = Thread.new do
    left.producer.transaction do |tx|
      tx.produce_sync(topic: name, payload: "never", partition: 0)
      inside << 1
      held.pop
    end
  rescue Pelton::Error => e
    e
  end
  inside.pop
  left.producer.close(timeout: 6 * Guard::PATIENCE) # a quarter of it is the abort's
  writer.producer.produce_sync(topic: name, payload: "k4", partition: 0)
  wanted << "k4"
  seen.(wanted, "what comes behind it")
  held << 1
  check(thread.value.is_a?(Pelton::Error), "the transaction whose producer was closed: #{thread.value.inspect}")

  # --- aborts soon after a commit, with messages for many partitions under way (librdkafka issue 4849) ---------------
  # While Kafka still writes the markers of the commit, the registration of the next transaction's first partition is
  # put off, and an abort overtakes it; requests that it finds unsent are purged, to the next transaction's cost.
  wide = topic(partitions: 8)
  numbers = 0..7
  rounds = { {} => 64, { abort_ack_wait: 0, reload_attempts: 1000, reload_backoff: 0.01 } => 16 }
  fatal = rounds.map do |settings, count|
    hasty = transactional.call(unique("id"), settings)
    count.times do |round|
      hasty.producer.produce_many_sync(numbers.map { |number| { topic: wide, payload: "yes", partition: number } })
      hasty.producer.transaction do |tx|
        numbers.first(1 + (round % 8)).each do |number|
          20.times { tx.produce_async(topic: wide, payload: "never", partition: number) }
        end
        work(0.001) if round.even?
        raise Pelton::AbortTransaction
      end
    end
    events(hasty, "producer.fatal").size
  end
  puts "clients replaced in 64 hasty aborts: #{fatal[0]}; in 16 that wait for no report: #{fatal[1]}"
  equal(0, fatal[0], "clients replaced for hasty aborts")
  found = nil
  eventually(20, -> { "what is committed between aborts: #{found.tally}" }) do
    (found = ExactlyOnce.read(bootstrap, wide, 8).values.flatten) == ["yes"] * 80 * 8
  end
  seen.(wanted, "after hasty aborts")
end
