# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# The broker is killed during a redrive and starts again: the redrive goes on, and each letter is sent once, in order.

COUNT = 300

Scenario.run do
  broker = TestBroker.start
  self.bootstrap = broker.bootstrap
  input = topic(partitions: 2)
  dead = topic
  app.producer.produce_many_sync(Array.new(COUNT) do |number|
    origin = { "topic" => input, "partition" => number % 2, "offset" => number, "attempts" => 1 }
    { topic: dead, key: "k", payload: number.to_s,
      headers: origin.to_h { |name, value| ["pelton.#{name}", value.to_s] } }
  end)

  letters = app.dead_letters(dead)
  done = Thread::Queue.new
  redrive = Thread.new { letters.redrive(rate: 30) { |letter, _| done << letter.place } }
  redrive.report_on_exception = false
  eventually(60, "the first letters") { done.size > 20 }
  broker.kill(:KILL)
  broker.restart
  eventually(120, -> { "the end, #{done.size} letters so far" }) { !redrive.alive? }
  equal([COUNT, {}, nil], redrive.value.to_a, "redriven")
  places = Array.new(done.size) { done.pop }
  equal(Array.new(COUNT) { |number| "0/#{number}" }, places, "reported once, in order")
  equal(0, letters.redrive.handled, "nothing is left")
  found = app.each(input).map { |message| [message.partition, message.raw_payload.to_i] }
  2.times do |partition|
    numbers = found.select { |row| row.first == partition }.map(&:last)
    equal((partition...COUNT).step(2).to_a, numbers, "partition #{partition}")
  end
end
