# frozen_string_literal: true

require_relative "../completion"

module Pelton
  class CLI
    module Completion
      # The script for fish.
      module Fish
        module_function

        #: (Array[Row]) -> String
        def script(rows)
          firsts = Completion.first_words(rows)
          seconds = Completion.second_words(rows).map { |first, more| after([first], more) }
          <<~FISH
            # Completes pelton in fish. Made by `pelton completion fish`.
            # true: the words before the cursor begin with these.
            function __pelton_begins
              set -l words (commandline -opc)
              set -l last (math (count $argv) + 1)
              test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
            end
            # true: these are the words before the cursor.
            function __pelton_is
              set -l words (commandline -opc)[2..-1]
              test "$words" = "$argv"
            end
            complete -c pelton -f
            #{after([], { **firsts, "help" => "print the help of a command" }).join("\n")}
            #{[*after(%w[help], firsts), *seconds].join("\n")}
            #{rows.flat_map { |row| [*arguments(row), *options(row)] }.join("\n")}
          FISH
        end

        # The words that may follow these.
        def after(words, more)
          more.map do |word, text|
            "complete -c pelton -n #{quote(["__pelton_is", *words].join(" "))} -a #{word} -d #{quote(text)}"
          end
        end

        def arguments(row)
          row.words.map { |word| "complete -c pelton -n #{quote("__pelton_is #{row.name}")} -a #{word}" }
        end

        def options(row)
          row.options.flat_map do |option|
            # A short name and a long one are one option; "--log" and "--no-log" are two.
            short, long = option.names.partition { |name| !name.start_with?("--") }
            long.push(nil) if long.empty?
            long.each_with_index.map do |name, index|
              names = [*("-s #{short.first[1..]}" if short.any? && index.zero?), *("-l #{name[2..]}" if name)]
              ["complete -c pelton -n", quote("__pelton_begins #{row.name}"), *names, *value(option), "-d",
               quote(option.text)].join(" ")
            end
          end
        end

        def value(option)
          return unless option.value
          return "-xa #{quote(option.choices.join(" "))}" if option.choices

          option.value == "FILE" ? "-rF" : "-x"
        end

        def quote(text) = "'#{text.gsub(/[\\']/) { |sign| "\\#{sign}" }}'"
        private_class_method :after, :arguments, :options, :value, :quote
      end
    end
  end
end
