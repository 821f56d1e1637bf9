# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/exactly_once"

# Consume, transform, produce, in transactions; the process is killed (-9) fifty times at random moments of its work and
# started again each time. Whoever reads with read_committed finds each input's output exactly once, in order.
#
# PELTON_SEED repeats a run's random choices (the moments of the kernel's own it cannot).

KILLS = 50
PARTITIONS = 3
MESSAGES = 9_000

Scenario.run do
  seed = Integer(ENV["PELTON_SEED"] || rand(1_000_000))
  random = Random.new(seed)
  puts "seed #{seed}"
  input = topic(partitions: PARTITIONS, name: unique("input"))
  output = topic(partitions: PARTITIONS, name: unique("output"))
  group = unique("group")
  ExactlyOnce.fill(app.producer, input, PARTITIONS, MESSAGES)

  job = ExactlyOnce::Job.new(bootstrap: bootstrap, group: group, input: input, output: output,
                             id: unique("transactional"))
  @children << job # destroyed with the others
  stages = Array.new(KILLS) do
    job.start
    # So many steps into its life, and a moment more.
    job.advance(random.rand(1..30), 30)
    work(random.rand * 0.02) if random.rand < 0.7
    job.kill
  end
  puts "killed after: #{stages.tally.sort.map { |stage, count| "#{stage} #{count}" }.join(", ")}"
  check(stages.count { |stage| ExactlyOnce::INSIDE.include?(stage) } >= KILLS / 4, "too few kills in a transaction")

  before = ExactlyOnce.read(bootstrap, output, PARTITIONS).sum { |_, payloads| payloads.size }
  check(before < MESSAGES, "all was done before the last kill: nothing was tested")
  job.start
  eventually(90, "the rest of the work\n#{job.output}") do
    job.drain
    committed(group, input, PARTITIONS).compact.sum == MESSAGES
  end
  job.stop

  no_transaction(output, PARTITIONS)
  wanted = ExactlyOnce.wanted(PARTITIONS, MESSAGES)
  found = ExactlyOnce.read(bootstrap, output, PARTITIONS)
  equal([], ExactlyOnce.problems(wanted, found), "what is wrong with the output")

  # The same look at everything that was ever written must find the work of the dead: else it would not see a duplicate.
  all = ExactlyOnce.read(bootstrap, output, PARTITIONS, "read_uncommitted")
  extra = all.sum { |_, payloads| payloads.size } - MESSAGES
  puts "#{before} of #{MESSAGES} were done at the last kill; #{extra} messages of killed transactions"
  check(extra.positive?, "no transaction was cut short")
  check(ExactlyOnce.problems(wanted, all).any?, "the check sees no duplicate")
end
