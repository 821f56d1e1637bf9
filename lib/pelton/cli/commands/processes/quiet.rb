# frozen_string_literal: true

require_relative "process_command"

module Pelton
  class CLI
    module Commands
      # `pelton processes quiet`
      class ProcessesQuiet < ProcessCommand
        details <<~TEXT
          Starts no new job in these processes. Running jobs finish, and the partitions stay.
          #{ABOUT}
        TEXT
        example "pelton processes quiet web-1:4711 -r ./app.rb"
      end
    end
  end
end
