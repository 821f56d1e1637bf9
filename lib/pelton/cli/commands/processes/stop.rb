# frozen_string_literal: true

require_relative "process_command"

module Pelton
  class CLI
    module Commands
      # `pelton processes stop`
      class ProcessesStop < ProcessCommand
        details <<~TEXT
          Stops these processes as TERM does: running jobs finish, and they leave their groups. With --processes,
          the parent replaces a child that was stopped.
          #{ABOUT}
        TEXT
        example "pelton processes stop web-1:4711 -r ./app.rb"
      end
    end
  end
end
