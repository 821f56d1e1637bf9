# frozen_string_literal: true

require_relative "call"

module Pelton
  class CLI
    module Migrate
      # What long_running_job becomes. Pelton has no mode for it. A job that loses its partition may run on for
      # config.revocation_timeout. That has to be shorter than max.poll.interval.ms: see docs/guides/long-jobs.md.
      module LongJobs
        NAME = "max.poll.interval.ms"
        # 60 s above the default revocation_timeout, in milliseconds.
        ENOUGH = 90_000
        ANY = "no mode is needed. When its partition moves, a job has config.revocation_timeout (30 s) to end. Raise " \
              "it for longer jobs: docs/guides/long-jobs.md"
        SHORT = "no mode is needed. When its partition moves, a job has config.revocation_timeout (30 s) to end. For " \
                "that, max.poll.interval.ms (%g s) is too short: set at least 90_000. For jobs of N > 20 s, set " \
                "N + 70 s, and revocation_timeout to N + 10 s: docs/guides/long-jobs.md"
        private_constant :NAME, :ENOUGH, :ANY, :SHORT

        # The values of max.poll.interval.ms that a topic has by its own `kafka`, or by that of the app: ["12000"]
        #: (Call?, KafkaOptions) -> Array[String]
        def self.polls(topic, options)
          kafka = topic&.word("kafka")
          hash = kafka&.args&.first
          own = hash&.is?(:hash) ? Call.pairs(hash) : kafka&.keywords
          value = own && own[NAME]
          value ? [Call.literal(value).to_s] : options.values(NAME)
        end

        #: (Array[String]) -> String
        def self.note(polls)
          poll = polls.filter_map { |text| Integer(text, exception: false) }.min
          return ANY unless poll && poll < ENOUGH

          format(SHORT, poll / 1000.0)
        end
      end
    end
  end
end
