# frozen_string_literal: true

require "optparse"
require_relative "../errors"

module Pelton
  class CLI
    # Parses the arguments of one command by its Declarations. Raises ConfigError, which names what is wrong and what
    # would be right.
    class Arguments
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
      rescue OptionParser::AmbiguousOption => e
        raise ConfigError.new(e.args.first, nil, "is short for several options: see pelton #{@name} --help")
      rescue OptionParser::InvalidOption => e
        raise ConfigError.unknown(e.args.first, @options.flat_map(&:names), what: "option")
      rescue OptionParser::MissingArgument => e
        raise ConfigError.new(e.args.first, nil, "needs a value: see pelton #{@name} --help")
      rescue OptionParser::InvalidArgument => e
        raise refused(*e.args)
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
            parser.on(*option.switches, *[option.choices || option.type].compact) do |value|
              values[option.name] = option.accept(value, values[option.name])
            end
          end
        end
      end

      def refused(switch, value = nil)
        option = @options.find { |one| one.names.include?(switch) }
        expected = option&.choices&.join(", ") || { Integer => "an Integer", Float => "a number" }[option&.type]
        ConfigError.new(switch, value, "expected #{expected || "another value: see pelton #{@name} --help"}")
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
