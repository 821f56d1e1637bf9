# frozen_string_literal: true

require_relative "../completion"

module Pelton
  class CLI
    module Completion
      # The script for zsh.
      module Zsh
        module_function

        #: (Array[Row]) -> String
        def script(rows)
          <<~ZSH
            #compdef pelton
            # Completes pelton in zsh. Made by `pelton completion zsh`.
            _pelton() {
              local command=$words[2]
              local -a found
              if (( CURRENT == 2 )); then
                found=(#{described(Completion.first_words(rows))} 'help:print the help of a command')
                _describe -t commands command found
                return
              fi
              case $command in
                help)
                  found=(#{described(Completion.first_words(rows))})
                  _describe -t commands command found
                  return ;;
            #{Completion.second_words(rows).map { |first, more| second(first, more) }.join("\n")}
              esac
              shift words
              (( CURRENT-- ))
              case $command in
            #{rows.map { |row| command(row) }.join("\n")}
              esac
            }
            if [[ $funcstack[1] == _pelton ]]; then _pelton "$@"; else compdef _pelton pelton; fi
          ZSH
        end

        # 'server:consume messages'
        def described(words) = words.map { |word, text| quote("#{word}:#{text}") }.join(" ")

        def second(first, more)
          <<-ZSH.chomp
    #{first})
      if (( CURRENT == 3 )); then
        found=(#{described(more)})
        _describe -t commands command found
        return
      fi
      command="$command $words[3]"
      shift words
      (( CURRENT-- )) ;;
          ZSH
        end

        def command(row) = "    '#{row.name}') _arguments -s #{[*arguments(row), *options(row)].join(" ")} ;;"
        # The last part allows any arguments; without one, zsh completes no option after an argument. With an empty
        # action in place of `()`, zsh would only list an option instead of inserting it.
        def arguments(row) = [*("'1:argument:(#{row.words.join(" ")})'" if row.words.any?), "'*:argument:()'"]

        # '*--max=[at most]:N:' for each name of each option.
        def options(row)
          row.options.flat_map do |option|
            alone = option.many ? "*" : "(#{option.names.join(" ")})"
            value = ":#{option.value.gsub(":", '\:')}:#{action(option)}" if option.value
            text = option.text.gsub(/[\[\]]/) { |bracket| "\\#{bracket}" }
            option.names.map do |name|
              sign = "=" if value && name.start_with?("--")
              quote("#{alone}#{name}#{sign}[#{text}]#{value}")
            end
          end
        end

        def action(option)
          return "(#{option.choices.join(" ")})" if option.choices

          "_files" if option.value == "FILE"
        end

        def quote(text) = "'#{text.gsub("'") { "'\\''" }}'"
        private_class_method :described, :second, :command, :arguments, :options, :action, :quote
      end
    end
  end
end
