# frozen_string_literal: true

require "strscan"
require "time" # and with it Date
require_relative "../errors"
require_relative "../routing/where"

module Pelton
  class CLI
    # Reads a condition in the words of `where` in routes. It knows these words only, and evaluates no Ruby.
    #   WhereText.new("--where", 'where("total").gt(100).or(where.key.starts_with("pl-"))').tree
    #   # => [:all, [:any, [:is, [:field, "total"], :gt, 100], [:is, [:key], :starts_with, "pl-"]]]
    # Conditions are combined with .and, .or, .not, &, |, ! and parentheses. Times and dates are written as in Ruby, by
    # one of MOMENTS.
    class WhereText
      # Methods of a condition's subject, with the number of their arguments.
      CHECKS = { eq: 1, not_eq: 1, in: 1.., not_in: 1.., gt: 1, gteq: 1, lt: 1, lteq: 1, starts_with: 1, matches: 1,
                 exists: 0 }.freeze
      # Calls that make a Time or a Date.
      MOMENTS = { "Time.utc" => Time.method(:utc), "Time.at" => Time.method(:at),
                  "Time.iso8601" => Time.method(:iso8601), "Date.new" => Date.method(:new),
                  "Date.iso8601" => Date.method(:iso8601) }.freeze
      # How deep parentheses and `!` may be nested.
      LEVELS = 100
      SPACE = /\s+/
      STRING = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/m
      PATTERN = %r{/((?:[^/\\]|\\.)*)/([imx]*)}m
      NUMBER = /-?\d[\d_]*(\.\d+)?([eE][+-]?\d+)?(?!\w)/
      WORDS = { "true" => true, "false" => false, "nil" => nil, "null" => nil }.freeze
      ESCAPES = { "n" => "\n", "t" => "\t", "r" => "\r", "e" => "\e", "s" => " ", "a" => "\a", "b" => "\b", "v" => "\v",
                  "f" => "\f" }.freeze
      # Ruby's other escapes, of which some make bytes that are not UTF-8.
      REFUSED = /\A([1-7]|0[0-7]|x|u\z|[cCM])/
      OPTIONS = { "i" => Regexp::IGNORECASE, "m" => Regexp::MULTILINE, "x" => Regexp::EXTENDED }.freeze
      # What other languages write, and what is written here.
      OTHERS = { /=~/ => "use .matches(/…/)", /==?/ => "use .eq(…)", /!=/ => "use .not_eq(…)",
                 /[<>]=?/ => "use .gt(…), .gteq(…), .lt(…) or .lteq(…)" }.freeze
      EXAMPLE = 'where("total").gt(100), where.key.eq("7") or where.header("source").exists'
      private_constant :EXAMPLE, :SPACE, :STRING, :PATTERN, :NUMBER, :WORDS, :ESCAPES, :REFUSED, :OPTIONS, :OTHERS

      # option: the name of the option, for errors.
      #: (String, String) -> void
      def initialize(option, text)
        @option = option
        @text = text.dup.force_encoding(Encoding::UTF_8)
        raise ConfigError.new(option, text, "expected valid UTF-8") unless @text.valid_encoding?

        @scanner = StringScanner.new(@text)
        # The conditions that are not a part of another one: Where::Clause.
        @list = []
        @level = 0
      end

      # The condition as Routing::Condition takes it. Raises ConfigError, which names the column.
      #: () -> Array[untyped]
      def tree
        alternatives
        refuse("expected .and, .or, &, | or the end") unless space.eos?
        [:all, *@list.map(&:tree)].freeze
      end

      private

      # one | another
      def alternatives
        found = conjunction
        found |= conjunction while operator("|")
        found
      end

      # one & another
      def conjunction
        found = negation
        found &= negation while operator("&")
        found
      end

      def negation
        return suffixed(primary) unless token("!")

        nested { !negation }
      end

      def primary
        return condition unless token("(")

        nested { alternatives.tap { expect(")") } }
      end

      def nested
        refuse("nests deeper than #{LEVELS} levels") if @level >= LEVELS
        @level += 1
        yield.tap { @level -= 1 }
      end

      # A condition with .and(…), .or(…) or .not behind it.
      def suffixed(found)
        while token(".")
          name = word
          case name
          when "and", "or" then found = found.public_send(name, nested { parenthesized { alternatives } })
          when "not" then found = !found
          else unknown(name, %w[and or not], "word after a condition")
          end
        end
        found
      end

      # where("total").gt(100)
      def condition
        refuse("expected a condition, such as #{EXAMPLE}") unless word == "where"
        where = Routing::Where.new(@option, @list, space.check(/\(/) ? arguments : [])
        loop do
          refuse("incomplete condition: add .eq(…), .in(…), .gt(…), .matches(/…/), .exists, …") if space.eos?
          expect(".")
          name = word
          case name
          when "key" then where = where.key
          when "header" then where = where.header(only(arguments, name))
          else return check(where, name)
          end
        end
      end

      def check(where, name)
        count = CHECKS.fetch(name&.to_sym) { unknown(name, [*CHECKS.keys, :key, :header], "condition") }
        values = space.check(/\(/) ? arguments : []
        unless count === values.size # rubocop:disable Style/CaseEquality -- a number or a Range
          refuse("#{name} takes #{{ 0 => "no value", 1 => "one value" }.fetch(count, "one value or more")}")
        end
        where.public_send(name, *values)
      end

      def only(values, name) = values.size == 1 ? values.first : refuse("#{name} takes one value")

      # ("customer", 0)
      def arguments = parenthesized { list(")") }

      def parenthesized
        expect("(")
        yield.tap { expect(")") }
      end

      # Values up to this character.
      def list(closing)
        values = []
        until space.check(/#{Regexp.escape(closing)}/)
          expect(",") unless values.empty?
          values << value
        end
        values
      end

      def value
        space
        return nested { list("]").tap { expect("]") } } if token("[")
        return string(@scanner.matched) if @scanner.scan(STRING)
        return pattern(@scanner[1], @scanner[2]) if @scanner.scan(PATTERN)
        return number(@scanner.matched, @scanner[1] || @scanner[2]) if @scanner.scan(NUMBER)
        return moment(@scanner.matched) if @scanner.scan(/[A-Z]\w*(\.\w+)?/)

        name = word
        WORDS.fetch(name) { refuse("expected a value: \"text\", 12.5, true, false, nil, /pattern/ or a time") }
      end

      # Time.utc(2026, 1, 1)
      def moment(call)
        maker = MOMENTS.fetch(call) { refuse("expected one of #{MOMENTS.keys.join(", ")}") }
        values = arguments
        begin
          maker.call(*values)
        rescue ArgumentError, TypeError, RangeError, NoMethodError => e
          refuse("#{call}: #{e.message}")
        end
      end

      def string(quoted)
        inner = quoted[1..-2]
        return inner.gsub(/\\([\\'])/, '\1') if quoted.start_with?("'")

        inner.gsub(/\\(u\h{4}|u\{\h{1,6}\}|[0-7]{1,3}|.)/m) { escaped(Regexp.last_match(1)) }
      end

      def escaped(code)
        refuse("a String has UTF-8 text: use \\u00E9 instead of \\#{code}") if REFUSED.match?(code)
        return "\0" if code == "0"

        code.size > 1 ? [code.delete("u{}").hex].pack("U") : ESCAPES.fetch(code, code)
      rescue RangeError
        refuse("\\#{code} is no character")
      end

      def pattern(source, options)
        Regexp.new(source.gsub("\\/", "/"), options.chars.uniq.sum { |letter| OPTIONS.fetch(letter) })
      rescue RegexpError => e
        refuse("wrong pattern: #{e.message}")
      end

      def number(text, fraction) = fraction ? Float(text.delete("_")) : Integer(text.delete("_"), 10)

      def space
        @scanner.skip(SPACE)
        @scanner
      end

      def token(text) = space.skip(/#{Regexp.escape(text)}/)

      # `&` or `|`; `&&` and `||` mean the same here.
      def operator(text) = space.skip(/#{Regexp.escape(text)}{1,2}/)

      def word = space.scan(/[a-z_]\w*/)

      def expect(text)
        return if token(text)

        other = OTHERS.find { |symbol, _| @scanner.check(symbol) }
        refuse("expected #{text}#{"; #{other.last}" if other}")
      end

      def unknown(name, known, what)
        refuse("expected one of #{known.join(", ")}") unless name
        refuse(ConfigError.unknown(name, known, what: what).message)
      end

      def refuse(reason)
        raise ConfigError.new(@option, @text, "column #{@text.byteslice(0, @scanner.pos).size + 1}: #{reason}")
      end
    end
  end
end
