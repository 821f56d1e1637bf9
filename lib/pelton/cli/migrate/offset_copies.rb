# frozen_string_literal: true

require_relative "call"

module Pelton
  class CLI
    module Migrate
      # The commands that copy the offsets of a topic to its new group, for Routes: `pelton groups copy …`.
      module OffsetCopies
        SERVERS = %w[bootstrap.servers metadata.broker.list].freeze
        # Options that a command needs to connect.
        SECURITY = /\A(security|sasl|ssl|enable\.ssl|enable\.sasl)\./
        private_constant :SERVERS, :SECURITY

        private

        # --topic takes names only.
        def copy_offsets(kafka, owner, group, topic)
          pattern = topic.start_with?("/")
          connection, notes = connection(kafka)
          notes.unshift("with a --topic for each topic that #{topic} matches") if pattern
          command = ["pelton groups copy #{unquoted(owner)} #{group} --topic #{pattern ? "…" : unquoted(topic)}",
                     *connection, "--apply"].join(" ")
          draft.todo("#{location(kafka.node)}: a new group. Once Karafka has stopped, copy the offsets to it: " \
                     "#{[command, *notes].join(", ")}")
        end

        # How a command reaches the cluster of a topic, which may not be that of config.kafka: an option, and notes.
        #   ["--bootstrap other:9092", []]
        def connection(kafka)
          hash = kafka.args.first
          options = hash&.is?(:hash) ? Call.pairs(hash) : kafka.keywords
          servers = options.values_at(*SERVERS).compact.first
          hidden = options.key?("**") || (hash && !hash.is?(:hash)) # in a variable
          return [("-r ./pelton.rb" unless expressions.rails?), []] unless servers || hidden

          address = Call.literal(servers)
          secrets = options.keys.grep(SECURITY)
          [address ? "--bootstrap #{address}" : "--bootstrap HOST:PORT",
           [("with the address of #{text(servers || kafka.node)}" unless address),
            ("with -X NAME=VALUE for #{secrets.join(", ")}" if secrets.any?)].compact]
        end
      end
    end
  end
end
