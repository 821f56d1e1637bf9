# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"

# Four processes redrive the same letters at once, from the creation of the status topic on. All of them are killed,
# again and again: each letter is sent once, in the order of its key.

COUNT = 1_000
ROUNDS = 3
PROGRAM = File.expand_path("../support/redrive_program.rb", __dir__)

Scenario.run do
  input = topic(partitions: 3)
  dead = topic(partitions: 2)
  app.producer.produce_many_sync(Array.new(COUNT) do |number|
    origin = { "topic" => input, "partition" => number % 3, "offset" => number, "attempts" => 1, "group" => "g" }
    { topic: dead, partition: number % 2, key: "k#{number % 6}", payload: number.to_s,
      headers: origin.to_h { |name, value| ["pelton.#{name}", value.to_s] } }
  end)
  letters = app.dead_letters(dead)

  ROUNDS.times do |round|
    children = Array.new(4) { ruby(PROGRAM, dead, "40", "0") }
    done = letters.each(status: :redriven).count
    eventually(60, "a step of round #{round}") { letters.each(status: :redriven).count > done + (20 * round) }
    children.each { |child| child.kill(:KILL) unless child.code }
    puts "round #{round}: #{children.map { |child| exit_code(child) }}, #{letters.each.count} open"
  end
  children = Array.new(4) { ruby(PROGRAM, dead, "0", "0") }
  codes = children.map { |child| exit_code(child, 60) }
  check(codes.include?(0) && (codes - [0, 3]).empty?, "exit codes #{codes}\n#{children.map(&:output).join}")
  equal([0, {}, nil], letters.redrive.to_a, "what is left")

  found = app.each(input, kafka: { "isolation.level" => "read_committed" })
             .map { |message| [message.partition, message.key, message.raw_payload.to_i] }
  equal((0...COUNT).to_a, found.map(&:last).sort, "each letter once")
  found.group_by { |row| row.first(2) }.each do |place, list|
    numbers = list.map(&:last)
    equal(numbers.sort, numbers, "order of #{place}")
  end
  equal(6, found.map { |row| row.first(2) }.uniq.size, "partitions of 6 keys")
end
