# frozen_string_literal: true

# once: this is about Kafka, whatever the Ruby

require "harness/chaos"

# A little of what bin/chaos does: members of a group that keeps order per key, producers and the broker are killed and
# stopped, and nothing is lost or out of order. PELTON_SEED repeats a run's choices.

seed = Integer(ENV["PELTON_SEED"] || rand(1_000_000))
exit Chaos.new(seed: seed, kills: 5, seconds: 30).call ? 0 : 1
