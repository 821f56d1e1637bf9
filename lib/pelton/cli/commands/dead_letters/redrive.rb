# frozen_string_literal: true

require_relative "command"

module Pelton
  class CLI
    module Commands
      # `pelton dead-letters redrive`
      class DeadLettersRedrive < DeadLettersCommand
        details <<~TEXT
          Sends letters to the topic and partition where they were first, so that all groups get them again.
          --retry-topic sends them to a retry topic instead, where only the group in which they failed gets
          them. Their attempts count from 1. Letters without an origin need --to.
        TEXT
        details <<~TEXT
          Each letter is sent once: a second run sends it not again, also after a kill. If another redrive of
          the topic begins, this one ends. Ctrl-C stops between two letters and says where.
        TEXT
        details <<~TEXT
          To repair a letter, write its payload to a file (pelton dead-letters show TOPIC ID --raw), change
          the file, and name it with --payload. The key and the headers stay.
        TEXT
        example "pelton dead-letters redrive orders.dead --dry-run", "how many?"
        example "pelton dead-letters redrive orders.dead --error Timeout::Error --rate 100/s"
        example "pelton dead-letters redrive orders.dead --id 0/42 --payload order.json", "repaired"
        example "pelton dead-letters redrive -r ./app.rb --group billing --retry-topic 60", "via orders.retry.60"
        arguments "[TOPIC...]"
        limits
        option :to, "--to TOPIC", "send them to this topic"
        option :retry_topic, "--retry-topic SECONDS", "send them to the retry topic with this delay", type: Float
        option :payload, "--payload FILE", "send the bytes of this file as the payload of the letter with --id"
        status "which letters; others than open ones are sent again"
        connects

        private

        def run
          where = { **options.slice(:to, :retry_topic), payload: payload }
          handle("redriven") { |topic, filters, &block| topic.redrive(**where, **filters, &block) }
        end

        def payload
          file = options[:payload] or return
          raise ConfigError.new("--payload", file, "needs one --id and one TOPIC") if
            options[:ids].size != 1 || arguments.size != 1

          bytes = File.binread(file)
          ->(_letter) { bytes }
        rescue SystemCallError => e
          raise ConfigError.new("--payload", file, "cannot be read: #{e.class.new.message}")
        end
      end
    end
  end
end
