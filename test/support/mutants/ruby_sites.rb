# frozen_string_literal: true

require "ripper"
require_relative "site"

module Mutants
  # The changes that could be made to a Ruby file, found in its tokens.
  class RubySites
    COMPARE = { "<" => "<=", "<=" => "<", ">" => ">=", ">=" => ">", "==" => "!=", "!=" => "==" }.freeze
    LOGIC = { "&&" => "||", "||" => "&&" }.freeze
    ARITHMETIC = { "+" => "-", "-" => "+" }.freeze
    CONDITION = { "if" => "unless", "unless" => "if" }.freeze
    BOOLEAN = { "true" => "false", "false" => "true" }.freeze
    OPPOSITES = %w[min max first last shift pop unshift push any? none? select reject floor ceil keys values
                   positive? zero? start_with? end_with?].freeze
    METHOD = OPPOSITES.each_slice(2).flat_map { |name, opposite| [[name, opposite], [opposite, name]] }.to_h.freeze
    # A statement that begins with one of these is not dropped.
    KEPT = %w[def class module end else elsif when in rescue ensure begin do then require require_relative private
              attr_reader attr_writer attr_accessor private_constant include extend prepend using alias alias_method
              if unless while until case super undef nil].freeze

    # path: relative to the project; text: what is in it.
    #: (String, String) -> void
    def initialize(path, text)
      @path = path
      @text = text
      @tokens = Ripper.lex(text).map { |(line, column), type, word, state| Token.new(line, column, type, word, state) }
      @starts = text.each_line.inject([0]) { |list, line| list << (list.last + line.bytesize) }
    end

    Token = Struct.new(:line, :column, :type, :word, :state) do
      def space? = %i[on_sp on_ignored_nl on_comment].include?(type)
    end
    private_constant :Token

    #: () -> Array[Site]
    def to_a = (one_token + two_arguments + statements).compact

    private

    # --- a token -----------------------------------------------------------------------------------------------------

    def one_token
      @tokens.each_with_index.map do |token, index|
        case token.type
        when :on_op then operator(token, index)
        when :on_kw then keyword(token, index)
        when :on_int, :on_float then number(token)
        when :on_ident then method(token, index)
        end
      end
    end

    def operator(token, index)
      return site(:negation, token, "") if token.word == "!" && !@tokens[index + 1].space?
      return unless spaced?(index) && !@text.lines[token.line - 1].match?(/^\s*(class|def) \S*\s*</)

      if COMPARE[token.word] then site(:compare, token, COMPARE[token.word])
      elsif LOGIC[token.word] then site(:logic, token, LOGIC[token.word])
      elsif ARITHMETIC[token.word] then site(:arithmetic, token, ARITHMETIC[token.word])
      end
    end

    def keyword(token, index)
      return if [".", "&."].include?(@tokens[index - 1]&.word) || @tokens[index - 1]&.type == :on_symbeg

      if CONDITION[token.word] then site(:condition, token, CONDITION[token.word])
      elsif BOOLEAN[token.word] then site(:boolean, token, BOOLEAN[token.word])
      end
    end

    def number(token)
      value = token.word.delete("_")
      return unless value.match?(/\A\d+(\.\d+)?\z/)
      return site(:number, token, (Float(value).zero? ? 1.0 : Float(value) * 2).to_s) if value.include?(".")

      value = Integer(value, 10)
      site(:number, token, (value >= 10 ? value * 2 : value + 1).to_s)
    end

    def method(token, index)
      return unless METHOD[token.word] && [".", "&."].include?(@tokens[index - 1].word)

      site(:method, token, METHOD[token.word])
    end

    def spaced?(index) = @tokens[index - 1].space? && @tokens[index + 1].space?

    # --- f(a, b) → f(b, a) -------------------------------------------------------------------------------------------

    def two_arguments
      @tokens.each_index.map do |index|
        next unless @tokens[index].type == :on_lparen && @tokens[index - 1].type == :on_ident
        next if @tokens[0...index].last(5).any? { |token| token.word == "def" } # def self.add(a, b)

        arguments = split(index + 1)
        next unless arguments&.size == 2 && arguments.all? { |list| plain?(list) }

        first, second = arguments.map { |list| list.map(&:word).join.strip }
        list = arguments.flatten
        site(:swap, list.first, "#{second}, #{first}", "#{first}, #{second}") unless first == second
      end
    end

    # The tokens of each argument; nil where there is more than words, numbers, dots and calls.
    def split(index)
      depth = 0
      arguments = [[]]
      @tokens[index..].each do |token|
        case token.type
        when :on_lparen then depth += 1
        when :on_rparen then return arguments if (depth -= 1).negative?
        when :on_comma then next arguments << [] if depth.zero?
        when :on_ident, :on_ivar, :on_const, :on_int, :on_float, :on_period, :on_sp, :on_kw then nil
        else return nil
        end
        arguments.last << token
      end
    end

    def plain?(list) = list.any? { |token| !token.space? } && list.none? { |token| token.line != list[0].line }

    # --- statements --------------------------------------------------------------------------------------------------

    # A line that is a statement by itself, within a method: nothing in its place.
    def statements
      lines = @tokens.group_by(&:line)
      methods.flat_map do |range|
        range.filter_map { |number| statement(lines[number], number) if begins?(number, lines) }
      end
    end

    def statement(tokens, number)
      tokens = tokens&.reject { |token| token.type == :on_sp || token.type == :on_comment }
      return unless tokens&.last&.type == :on_nl && tokens.size > 1 && droppable?(tokens)

      code = @text.lines[number - 1]
      start = code[/\A\s*/].bytesize
      old = code.chomp.byteslice(start..).sub(/\s+#(?!\{)[^"'`]*\z/, "")
      Site.new(operator: :drop, path: @path, line: number, before: @starts[number - 1] + start, old: old, new: "")
    end

    def droppable?(tokens)
      words = tokens.map(&:word)
      return false if KEPT.include?(words.first) || words.first.start_with?("#", "}", ")", "]", "|")
      return false unless %i[on_ident on_ivar on_const on_kw].include?(tokens.first.type)
      return false if tokens.first.type == :on_ident && local?(words) # without it what follows cannot run

      balanced?(tokens)
    end

    # `a = 1`, `a, b = two`, or only `a`: what is a method's value.
    def local?(words) = words.size == 2 || [",", "="].include?(words[1])

    def balanced?(tokens)
      opened = tokens.count { |token| token.type.match?(/(lparen|lbracket|lbrace|embexpr_beg|tlambeg)\z/) }
      closed = tokens.count { |token| token.type.match?(/(rparen|rbracket|rbrace|embexpr_end)\z/) }
      opened == closed && tokens.none? { |token| token.type == :on_kw && %w[do end begin case].include?(token.word) } &&
        tokens.none? { |token| token.type == :on_heredoc_beg }
    end

    # Does the line before it end a statement, or open a block?
    def begins?(number, lines)
      before = (number - 1).downto(1).lazy.filter_map { |line| lines[line] }
                           .map { |list| list.reject { |token| %i[on_sp on_comment].include?(token.type) } }
                           .find { |list| list.any? { |token| token.type != :on_ignored_nl } }
      return false unless before

      before.last.type == :on_nl || before.first.word == "def" ||
        %w[do then else begin ensure { |].include?(before.reject { |token| token.type == :on_ignored_nl }.last.word)
    end

    # Ranges of lines between `def` and its end, found by their indentation.
    def methods
      indent = first = nil
      @text.lines.each_with_index.filter_map do |code, index|
        if first
          next unless code.match?(/^#{indent}end\b/)

          range = first..index
          first = nil
          range
        elsif (found = code.match(/^(\s*)def (?!initialize|.* = )/)) # without what is set up nothing runs at all
          indent = found[1]
          first = index + 2
          nil
        end
      end
    end

    def site(operator, token, new, old = token.word)
      before = @starts[token.line - 1] + token.column
      Site.new(operator: operator, path: @path, line: token.line, before: before, old: old, new: new)
    end
  end
end
