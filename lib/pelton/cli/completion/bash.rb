# frozen_string_literal: true

require_relative "../completion"

module Pelton
  class CLI
    module Completion
      # The script for bash.
      module Bash
        module_function

        #: (Array[Row]) -> String
        def script(rows)
          seconds = Completion.second_words(rows)
          <<~BASH
            # Completes pelton in bash. Made by `pelton completion bash`.
            _pelton() {
              local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words=""
              local command=${COMP_WORDS[1]} length=1
              case "$command" in
                #{[*seconds.keys, "help"].join("|")}) command="$command ${COMP_WORDS[2]}" length=2 ;;
              esac
              if [[ $COMP_CWORD -eq 1 ]]; then
                words="#{[*Completion.first_words(rows).keys, "help", "--help", "--version"].join(" ")}"
              elif [[ $COMP_CWORD -le $length ]]; then
                case "${COMP_WORDS[1]}" in
                  help) words="#{Completion.first_words(rows).keys.join(" ")}" ;;
            #{lines(seconds.map { |first, more| "#{first}) words=\"#{more.keys.join(" ")} --help\" ;;" })}
                esac
              else
                [[ $previous == "=" ]] && previous=${COMP_WORDS[COMP_CWORD-2]}
                [[ $current == "=" ]] && current=""
                case "$command:$previous" in
            #{lines(rows.flat_map { |row| values(row) })}
                esac
                case "$command" in
            #{lines(rows.map { |row| words(row) })}
                esac
              fi
              COMPREPLY=($(compgen -W "$words" -- "$current"))
            }
            complete -F _pelton pelton
          BASH
        end

        def lines(texts) = texts.map { |text| "      #{text}" }.join("\n")

        def words(row) = "\"#{row.name}\") words=\"#{[*row.words, *row.options.flat_map(&:names)].join(" ")}\" ;;"

        # After an option with a value: files, one of its choices, or anything.
        def values(row)
          row.options.select(&:value).map do |option|
            patterns = option.names.map { |name| "\"#{row.name}:#{name}\"" }.join("|")
            "#{patterns}) #{reply(option)}; return ;;"
          end
        end

        def reply(option)
          return "COMPREPLY=($(compgen -W \"#{option.choices.join(" ")}\" -- \"$current\"))" if option.choices
          return "COMPREPLY=()" unless option.value == "FILE"

          "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$current\")"
        end
        private_class_method :lines, :words, :values, :reply
      end
    end
  end
end
