# frozen_string_literal: true

# once: this is about PostgreSQL and Kafka, whatever the Ruby

require "support/outbox_kills"
require "support/postgres"

# Writers and relays of an outbox on PostgreSQL are killed (-9) at random moments, and the relay's connection to the
# database is cut. Each committed message arrives, none that was rolled back, in the order of its key. Messages come
# twice only after a kill or a cut, and at most one batch each.
#
# The relays look at the table once an hour: what they send in between, NOTIFY told them.
#
# PELTON_KILLS is the number of kills; PELTON_SEED repeats the random choices.

Scenario.needs(PostgresServer.missing)

KILLS = Integer(ENV["PELTON_KILLS"] || 10)

CUT = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"

Scenario.run(&OutboxKills.scenario(PostgresServer.new.url, kills: KILLS, poll: 3600, cut: CUT))
