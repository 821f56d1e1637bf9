# frozen_string_literal: true

require "support/scenario"
require "support/footprint"

# 1,000 producers are opened, used and closed, some of them by several threads at once and every tenth by the garbage
# collector: Ruby's threads, native threads, descriptors and memory are as before, and each message is there.

Scenario.run do
  name = topic(partitions: 2)
  all = app
  bus = Pelton::Notifications.new # the app's own records everything, which takes memory too
  lost = 0
  unclosed = [] # what each of the forgotten ones could not deliver
  bus.subscribe("producer.unclosed") { |event| unclosed << event[:undelivered] }
  use = lambda do |number|
    producer = Pelton::Producer.new(all.config, bus: bus)
    5.times { producer.produce_async(topic: name, payload: "x" * 100, partition: number % 2) }
    producer.produce_sync(topic: name, payload: "y", partition: number % 2) if (number % 3).zero?
    next if (number % 10).zero? # forgotten: it delivers all the same

    lost += producer.close
  end
  run = lambda do |numbers|
    numbers.each_slice(20) do |slice|
      slice.each_slice(5).map { |part| Thread.new { part.each { |number| use.(number) } } }.each(&:join)
      GC.start if (slice.first % 100).zero?
    end
  end
  run.(0...100) # allocators, caches and lasting threads come to their size
  settled = lambda do |forgotten|
    eventually(40, -> { "#{unclosed.size} of #{forgotten} unclosed producers ended" }) do
      GC.start
      unclosed.size == forgotten
    end
  end
  settled.(10)
  before = Footprint.new
  run.(100...1_100)
  settled.(110)
  after = nil
  # A kilobyte a producer would be too much: of 1,000 hardly 0.1 is left on average, whatever the allocator does.
  eventually(20, -> { "before: #{before}; after: #{after}" }) { (after = Footprint.new).within?(before, 1_000) }
  puts "before: #{before}", "after:  #{after}"
  equal(0, lost, "undelivered by closed producers")
  equal([0], unclosed.uniq, "undelivered by forgotten ones")
  sent = (0...1_100).sum { |number| (number % 3).zero? ? 6 : 5 }
  ends = Array.new(2) { |number| all.producer.produce_sync(topic: name, payload: "end", partition: number).offset }
  equal(sent, ends.sum, "messages in the log")
end
