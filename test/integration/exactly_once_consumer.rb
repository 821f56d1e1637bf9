# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "support/scenario"
require "support/exactly_once"

# A consumer that produces and marks in transactions is killed (-9) a dozen times at random moments and started again.
# Whoever reads with read_committed finds each copy exactly once and in order; a poison of each partition is in the
# dead letters exactly once, by a transaction, too.
#
# PELTON_SEED repeats a run's random choices (the moments of the kernel's own it cannot).

KILLS = 12
PARTITIONS = 3
MESSAGES = 6_000
POISON = "-70"

Scenario.run do
  seed = Integer(ENV["PELTON_SEED"] || rand(1_000_000))
  random = Random.new(seed)
  puts "seed #{seed}"
  input = topic(partitions: PARTITIONS, name: unique("input"))
  output = topic(partitions: PARTITIONS, name: unique("output"))
  dead = topic(partitions: PARTITIONS, name: unique("dead"))
  group = unique("group")
  ExactlyOnce.fill(app.producer, input, PARTITIONS, MESSAGES)

  job = ExactlyOnce::Job.new(program: "exactly_once_server", bootstrap: bootstrap, group: group, input: input,
                             output: output, dead: dead, poison: POISON, id: unique("transactional"))
  @children << job # destroyed with the others
  stages = Array.new(KILLS) do
    job.start
    # So many steps into its life, and a moment more.
    job.advance(random.rand(3..60), 60)
    work(random.rand * 0.02) if random.rand < 0.7
    job.kill
  end
  puts "killed after: #{stages.tally.sort.map { |stage, count| "#{stage} #{count}" }.join(", ")}"
  before = ExactlyOnce.read(bootstrap, output, PARTITIONS).sum { |_, payloads| payloads.size }
  check(before < MESSAGES - PARTITIONS, "all was done before the last kill: nothing was tested")
  job.start
  eventually(90, -> { "the rest of the work\n#{job.output}" }) do
    job.drain
    committed(group, input, PARTITIONS).compact.sum == MESSAGES
  end
  job.stop

  [output, dead].each { |name| no_transaction(name, PARTITIONS) }
  wanted = ExactlyOnce.wanted(PARTITIONS, MESSAGES).transform_values { |list| list.grep_v(/#{POISON}\z/o) }
  equal([], ExactlyOnce.problems(wanted, ExactlyOnce.read(bootstrap, output, PARTITIONS)), "what is wrong")
  letters = ExactlyOnce.wanted(PARTITIONS, MESSAGES).transform_values { |list| list.grep(/#{POISON}\z/o) }
  equal(letters, ExactlyOnce.read(bootstrap, dead, PARTITIONS), "dead letters")

  # The same look at everything that was ever written must find the work of the dead: else it would not see a duplicate.
  all = ExactlyOnce.read(bootstrap, output, PARTITIONS, "read_uncommitted")
  extra = all.sum { |_, payloads| payloads.size } - MESSAGES + PARTITIONS
  puts "#{before} of #{MESSAGES} were done at the last kill; #{extra} messages of killed transactions"
  check(extra.positive?, "no transaction was cut short")
end
