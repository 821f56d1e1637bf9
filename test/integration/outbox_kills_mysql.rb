# frozen_string_literal: true

# once: this is about MariaDB and Kafka, whatever the Ruby

require "support/outbox_kills"
require "support/mariadb"

# Writers and relays of an outbox on MariaDB are killed (-9) at random moments. Each committed message arrives, none
# that was rolled back, in the order of its key; messages come twice only after a kill, and at most one batch per kill.
#
# PELTON_KILLS is the number of kills; PELTON_SEED repeats the random choices.

Scenario.needs(MariadbServer.missing)

KILLS = Integer(ENV["PELTON_KILLS"] || 4)

Scenario.run(&OutboxKills.scenario(MariadbServer.new.url, kills: KILLS, poll: 0.1))
