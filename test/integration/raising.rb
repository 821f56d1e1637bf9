# frozen_string_literal: true

require "support/scenario"

# What users give raises, throws or ends its thread: the hooks of a consumer, the subscribers of all events. No worker
# is lost for good, nothing stalls, everything is processed and told, and the stop is graceful.

# What is done in place of returning.
DEEDS = {
  "raise" => -> { raise IOError, "on purpose" },
  "exception" => -> { raise Exception, "on purpose" }, # rubocop:disable Lint/RaiseException
  "missing" => -> { raise NotImplementedError, "on purpose" },
  "throw" => -> { throw :nowhere },
  "stack" => -> { (again = -> { again.call + 1 }).call }
}.freeze

Scenario.run do
  name = topic(partitions: 4)
  deed = -> {}
  seen = Thread::Queue.new
  ends = Thread::Queue.new
  book = ledger
  reader = consumer do
    messages.each do |message|
      book.processed(object_id.to_s, partition.to_s, message.offset)
      seen << [partition, message.offset]
    end
  end
  reader.define_method(:assigned) { deed.call }
  %i[revoked shutdown].each do |word|
    reader.define_method(word) do
      ends << [word, partition]
      deed.call
    end
  end
  group = unique("group")
  at = 0
  sent = lambda do |writer|
    rows = (0...40).map { |index| { topic: name, partition: index % 4, payload: "x" } }
    writer.producer.produce_many_sync(rows)
    expected = (0...4).to_a.product((at...(at += 10)).to_a)
    equal(expected, take(seen, 40).sort, "messages")
  end
  workers = -> { Pelton::Threads.list.map(&:name).grep(/\Apelton\.worker#/).sort }
  serve = lambda do |word, kafka: {}, deeds: [], &prepare|
    server = app(group: group, concurrency: 3, kafka: kafka) { topic(name, to: reader) }
    prepare&.call(server)
    server.start
    sent.(server)
    eventually(10, "#{word}: three workers, not #{workers.call}") { workers.call.size == 3 }
    deeds.each(&:call)
    sent.(server)
    equal(true, server.stop, "#{word}: stop")
    equal((0...4).map { |partition| [:shutdown, partition] }, take(ends, ends.size).sort, "#{word}: shutdown")
    equal([at] * 4, committed(group, name, 4), "#{word}: committed")
    server
  end

  # --- hooks -------------------------------------------------------------------------------------------------------
  DEEDS.each do |word, what|
    deed = what
    server = serve.(word)
    told = events(server, "error.occurred").map { |event| event[:source] }.tally
    equal({ "consumer.assigned" => 4, "consumer.shutdown" => 4 }, told, "#{word} in hooks: errors that are told")
  end
  { "kill" => -> { Thread.current.kill }, "thread exit" => -> { Thread.exit } }.each do |word, what|
    deed = what
    server = serve.(word)
    check(events(server, "worker.replaced").size >= 4, "#{word} in hooks: workers were replaced")
  end
  deed = -> {}

  # --- subscribers -------------------------------------------------------------------------------------------------
  quiet = ["kafka.log", "events.delayed"] # they need not come
  # A bare Exception goes through the bus: such are Timeout's and Async's own, which end what is around the publisher.
  DEEDS.except("exception").each do |word, what|
    raised = {}
    told = -> { eventually(20, "statistics") { raised["statistics.emitted"] } }
    server = serve.("#{word} in subscribers", kafka: { "statistics.interval.ms" => 50 }, deeds: [told]) do |app|
      (Pelton::Events::TABLE.keys - quiet - ["error.occurred"]).each do |event|
        app.subscribe(event) do
          raised[event] = true
          what.call
        end
      end
    end
    names = -> { raised.keys }
    sources = -> { events(server, "error.occurred").map { |event| event[:source] }.uniq }
    # The app goes on, and with it events that are not told of yet.
    eventually(20, -> { "#{word} in subscribers: errors that are told, #{sources.call} of #{names.call}" }) do
      names.call.map { |event_name| "subscriber of #{event_name}" }.sort == sources.call.sort
    end
    missing = %w[consumer.consumed partition.assigned app.running statistics.emitted] - names.call
    check(missing.empty?, names.call.inspect)
  end

  # A subscriber of errors raises. Another one unsubscribes itself while it is called.
  server = serve.("subscribers of errors") do |app|
    deed = DEEDS["raise"]
    app.subscribe("error.occurred") { raise "on purpose, too" }
    2.times do
      leaving = app.subscribe("consumer.consumed") { app.notifications.unsubscribe(leaving) }
    end
  end
  equal(8, events(server, "error.occurred").size, "errors that are told to the others")
  in_order(book, (0...4).to_h { |partition| [partition, at] })
end
