# frozen_string_literal: true

require "support/scenario"

# Seeks and marks from threads that are killed at any time, on a real broker: some take place although nobody waits for
# them. The partition goes on, what comes after the last seek has no gap, and what is committed is its end.
#
# once: what is under way natively has to end as we say, whatever the Ruby

Scenario.run do
  name = topic(name: unique("interrupts"))
  group = unique("interrupts")
  seen = Thread::Queue.new
  born = Thread::Queue.new
  reader = Class.new(Pelton::Consumer) do
    define_method(:assigned) { born << self }
    define_method(:consume) { messages.each { |message| seen << message } }
  end
  app = app(group: group, max_messages: 7) { topic(name, to: reader) }
  app.producer.produce_many_sync(Array.new(200) { |at| { topic: name, payload: at.to_s } })
  app.start
  consumer = take(born, 1).first
  random = Random.new(1)
  message = take(seen, 1).first
  killed = lambda do |&deed|
    thread = Thread.new(&deed)
    random.rand(4).times { Thread.pass }
    thread.kill.join
  end
  40.times do |round|
    killed.call { consumer.seek(random.rand(200)) }
    killed.call { consumer.mark_as_consumed(message, metadata: "word") }
    check(consumer.seek(100 + round), "the next seek finds nothing in its way")
  end
  check(consumer.seek(0), "to the beginning")
  app.producer.produce_sync(topic: name, payload: "last")
  read = []
  read << take(seen, 1).first.offset until read.last == 200
  equal([*0..200], read.last(201), "without a gap")
  check(app.stop, "a stop in order: #{app.server.unfinished_work}")
  equal([201], committed(group, name, 1), "committed")
  equal([], events(app, "error.occurred").map { |event| event[:error] }, "errors")
end
