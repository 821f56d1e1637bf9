# frozen_string_literal: true

require_relative "process_command"

module Pelton
  class CLI
    module Commands
      # `pelton processes resume`
      class ProcessesResume < ProcessCommand
        details <<~TEXT
          Starts jobs again in processes that are quiet.
          #{ABOUT}
        TEXT
        example "pelton processes resume web-1:4711 -r ./app.rb"
      end
    end
  end
end
