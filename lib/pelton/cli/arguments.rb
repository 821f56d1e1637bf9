# frozen_string_literal: true

require "optparse"
require_relative "../errors"

module Pelton
  class CLI
    # Parses the arguments of one command by its Declarations. Raises ConfigError, which names what is wrong and what
    # would be right.
    class Arguments
      # OptionParser's Integer takes 010 for 8.
      TYPES = { Integer => OptionParser::DecimalInteger }.freeze
      NUMBER = "a number >= 0"
      private_constant :TYPES, :NUMBER

      # name: "topics list". declared: see Declarations#declared.
      #: (String, Hash[Symbol, Array[untyped]]) -> void
      def initialize(name, declared)
        @name = name
        @options = declared[:options]
        @names = declared[:arguments]
      end

      # Returns the options and the other arguments: [{ json: true }, ["orders"]].
      #: (Array[String]) -> [Hash[Symbol, untyped], Array[String]]
      def parse(arguments)
        values = @options.to_h { |option| [option.name, option.many ? [] : option.default] }
        rest = parser(values).permute(arguments)
        check(rest) unless values[:help]
        [values, rest]
      rescue OptionParser::ParseError => e
        raise refused(e)
      end

      # "pelton topics show TOPIC [options]"
      #: () -> String
      def usage = ["pelton", @name, *@names, "[options]"].join(" ")

      private

      def parser(values)
        OptionParser.new do |parser|
          # OptionParser's own would end the process.
          parser.on("-v", "--version") { raise OptionParser::InvalidOption, "--version" }
          @options.each do |option|
            parser.on(*option.switches, *[option.choices || TYPES.fetch(option.type, option.type)].compact) do |value|
              check_number(option, value) if option.type == Float
              values[option.name] = option.accept(value, values[option.name])
            end
          end
        end
      end

      # error.args: ["--max", "x"], ["--max=x"] or ["-mx"]
      def refused(error)
        text, value = error.args
        switch = text.start_with?("--") ? text[/\A[^=]+/] : text[0, 2]
        case error
        when OptionParser::AmbiguousOption then ConfigError.new(switch, nil, "is short for several options: #{seek}")
        when OptionParser::InvalidOption then ConfigError.unknown(switch, @options.flat_map(&:names), what: "option")
        when OptionParser::MissingArgument then ConfigError.new(switch, nil, "needs a value: #{seek}")
        when OptionParser::NeedlessArgument then ConfigError.new(switch, nil, "takes no value")
        else ConfigError.new(switch, value || text.delete_prefix(switch).delete_prefix("="), expected(switch))
        end
      end

      def seek = "see pelton #{@name} --help"

      def expected(switch)
        option = @options.find { |candidate| candidate.names.any? { |name| name.start_with?(switch) } }
        words = option&.choices&.join(", ") || { Integer => "an Integer", Float => NUMBER }[option&.type]
        "expected #{words || "another value: #{seek}"}"
      end

      def check_number(option, value)
        raise ConfigError.new(option.names.last, value, "expected #{NUMBER}") if value&.negative? || value&.infinite?
      end

      def check(given)
        required = @names.reject { |name| name.start_with?("[") }
        missing = required[given.size] and
          raise ConfigError.new(missing.delete_suffix("..."), nil, "is missing: #{usage}")
        @names.zip(given) { |name, text| check_word(name, text) if name.include?("|") && text }
        return if given.size <= @names.size || @names.last&.match?(/\.\.\.\]?\z/)

        extra = given[@names.size]
        hint = extra.end_with?(".rb") ? "use -r to load a file" : usage
        raise ConfigError.new("unknown argument #{extra}", nil, hint)
      end

      def check_word(name, text)
        words = name.delete("[]").split("|")
        raise ConfigError.unknown(text, words, what: "argument") unless words.include?(text)
      end
    end
  end
end
