# frozen_string_literal: true

module Pelton
  class CLI
    # Scripts that complete the arguments of pelton in a shell, made from the tables of commands and options.
    module Completion
      # One command. name: "topics list"; declared: see Declarations#declared.
      Row = Struct.new(:name, :summary, :declared) do
        #: () -> Array[Declarations::Option]
        def options = declared[:options]

        # Words that it takes as arguments: ["bash", "zsh", "fish"].
        #: () -> Array[String]
        def words
          declared[:arguments].select { |name| name.include?("|") }.flat_map { |name| name.delete("[]").split("|") }
        end
      end

      module_function

      # The script for "bash", "zsh" or "fish".
      #: (String, Array[Row]) -> String
      def script(shell, rows)
        require_relative "completion/#{shell}"
        const_get(shell.capitalize).script(rows)
      end

      # What may be the first word: {"topics" => "topics list, topics show", "server" => "consume messages"}.
      #: (Array[Row]) -> Hash[String, String]
      def first_words(rows)
        words = rows.group_by { |row| row.name[/\S+/] }
        words.transform_values { |all| all.one? ? all.first.summary : all.map(&:name).join(", ") }
      end

      # What may follow it: {"topics" => { "list" => "list topics" }}.
      #: (Array[Row]) -> Hash[String, Hash[String, String]]
      def second_words(rows)
        rows.select { |row| row.name.include?(" ") }.group_by { |row| row.name[/\S+/] }
            .transform_values { |all| all.to_h { |row| [row.name[/\S+\z/], row.summary] } }
      end
    end
  end
end
