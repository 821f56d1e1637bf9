# frozen_string_literal: true

module Pelton
  class CLI
    # The texts of --help, made from tables. docs/reference/command-line.md is made from the same texts.
    module Help
      WIDTH = 32
      # Columns of a terminal that are left for a text.
      TEXT = 80 - WIDTH - 5
      private_constant :WIDTH, :TEXT

      module_function

      # title: "Commands"; table: {"server" => "consume messages"}
      #: (String, Hash[untyped, String]) -> String
      def section(title, table)
        rows = table.flat_map do |name, text|
          first, *rest = text.scan(/\S.{0,#{TEXT - 1}}(?= |\z)|\S+/)
          ["    #{name.to_s.ljust(WIDTH)} #{first}".rstrip, *rest.map { |line| "#{" " * (WIDTH + 5)}#{line}" }]
        end
        "#{title}:\n#{rows.join("\n")}"
      end

      # The help of one command. declared: see Declarations#declared.
      #: (String, String, Hash[Symbol, Array[untyped]]) -> String
      def command(name, summary, declared)
        usage = "Usage: #{Arguments.new(name, declared).usage}\n\n#{summary[0].upcase}#{summary[1..]}."
        options = declared[:options].group_by(&:section).sort_by { |title, _| title == "Options" ? 0 : 1 }
        sections = options.map { |title, rows| section(title, rows.to_h { |row| [switches(row), row.help] }) }
        [usage, *declared[:details], *sections, *examples(declared[:examples])].join("\n\n")
      end

      # "    pelton info --offline   # versions only"
      def examples(examples)
        return if examples.empty?

        width = examples.map { |call, _| call.size }.max
        lines = examples.map { |call, why| why ? "    #{call.ljust(width)}  # #{why}" : "    #{call}" }
        ["Examples:", *lines].join("\n")
      end
      private_class_method :examples

      # "-g, --group NAME"; "    --json" for an option without a short name.
      def switches(option)
        text = option.switches.join(", ")
        text.start_with?("--") ? "    #{text}" : text
      end
      private_class_method :switches
    end
  end
end
