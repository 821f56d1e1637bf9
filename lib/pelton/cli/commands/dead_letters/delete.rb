# frozen_string_literal: true

require_relative "command"

module Pelton
  class CLI
    module Commands
      # `pelton dead-letters delete`
      class DeadLettersDelete < DeadLettersCommand
        details <<~TEXT
          Deleted letters are neither listed nor redriven any more. Their bytes stay in the topic until its
          retention is over. It asks for confirmation, unless you name letters by --id.
        TEXT
        example "pelton dead-letters delete orders.dead --id 9f86d081884c7d65"
        example "pelton dead-letters delete orders.dead --until 30d --yes", "those that failed 30 days ago or earlier"
        arguments "[TOPIC...]"
        limits
        status "which letters"
        confirms
        connects

        private

        def run
          handle("deleted", ask: options[:ids].empty?) { |topic, filters, &block| topic.delete(**filters, &block) }
        end
      end
    end
  end
end
