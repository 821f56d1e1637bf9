# frozen_string_literal: true

require_relative "../command"
require_relative "../completion"

module Pelton
  class CLI
    module Commands
      # `pelton completion`
      class Completion < Command
        details <<~TEXT
          The script completes commands, options and their values. It is made from the tables of this version,
          so print it again after an update.
        TEXT
        example "pelton completion bash > ~/.local/share/bash-completion/completions/pelton"
        example "pelton completion zsh > ~/.zfunc/_pelton", "a folder of fpath"
        example "pelton completion fish > ~/.config/fish/completions/pelton.fish"
        arguments "bash|zsh|fish"
        no_json

        private

        def run
          rows = COMMANDS.map { |name, summary| CLI::Completion::Row.new(name, summary, CLI.load(name).declared) }
          @out.puts CLI::Completion.script(arguments.first, rows)
        end
      end
    end
  end
end
