# frozen_string_literal: true

require "ripper"

module Pelton
  class CLI
    module Migrate
      # A part of a Ruby file: its kind in Ripper's words (:call, :lambda, :list, :@ident …), its parts, the bytes that
      # it covers and the line where it begins. Without bytes, as an empty list, start is nil.
      Node = Struct.new(:type, :children, :start, :stop, :line) do
        #: () -> Array[Node]
        def nodes = children.grep(Node)

        # Yields the node and everything below it.
        #: () { (Node) -> void } -> void
        def each_node(&block)
          yield self
          nodes.each { |node| node.each_node(&block) }
        end

        # The text of a token.
        #: () -> String
        def token = children.first
        #: (*Symbol) -> bool
        def is?(*types) = types.include?(type)
      end

      # Ruby code as a tree of Nodes. It is parsed, and never run.
      #   Source.read("karafka.rb", text).root
      class Source < Ripper
        OPENING = %i[lparen lbracket lbrace embexpr_beg tlambeg tstring_beg regexp_beg qwords_beg words_beg symbols_beg
                     qsymbols_beg].freeze
        CLOSING = %i[rparen rbracket rbrace embexpr_end tstring_end regexp_end label_end].freeze
        # Nodes that end with the last token, and begin where its opening token is.
        ENCLOSED = %i[array hash paren arg_paren brace_block string_literal regexp_literal].freeze
        # Nodes that begin with an operator.
        PREFIXED = %i[unary splat block_pass assoc_splat].freeze
        # What is in front of the first part: `:` and `::`.
        COLONS = { symbol: 1, top_const_ref: 2 }.freeze
        # Nodes that end with the keyword `end`.
        ENDED = %i[do_block def class module begin if unless case while until for].freeze
        private_constant :OPENING, :CLOSING, :ENCLOSED, :PREFIXED, :COLONS, :ENDED

        # Code that is not Ruby.
        class Invalid < StandardError; end

        # Raises Invalid, whose message names file and line.
        #: (String, String) -> Source
        def self.read(path, text) = new(text, path).tap(&:tree)

        #: Node
        attr_reader :root

        #: (String, String) -> void
        def initialize(text, path)
          super
          @path = path
          @text = text
          @starts = [0] # bytes before each line
          text.each_line { |line| @starts << (@starts.last + line.bytesize) }
          # Opening tokens that are not closed yet: [[type, start], …]; then {stop => start} and {start => stop}.
          @open = []
          @openings = {}
          @closings = {}
          # Starts of `->` whose lambda is not complete.
          @lambdas = []
          # The end of the last token; starts of operators and of heredocs.
          @last = 0
          @operators = []
          @heredocs = []
        end

        #: () -> void
        def tree
          @root = parse
          raise Invalid, "#{@path}:#{@wrong || lineno}: syntax error" if error? || @wrong
        end

        # The code of a node.
        #: (Node) -> String
        def text(node) = node.start ? @text.byteslice(node.start...node.stop) : ""

        # Its first line, shortened, to show it.
        #: (Node) -> String
        def excerpt(node)
          line = text(node).lines.first.to_s.strip.squeeze(" ")
          line.size > 80 ? "#{line[0, 79]}…" : line
        end

        # Does the code stand alone? Not if it has a heredoc, whose text is elsewhere.
        #: (Node) -> bool
        def whole?(node)
          @heredocs.none? { |at| at.between?(node.start, node.stop) } &&
            !Ripper.sexp("x(#{text(node)}\n)").nil?
        end

        SCANNER_EVENTS.each do |event|
          define_method(:"on_#{event}") { |token| scanned(event, token) }
        end

        PARSER_EVENTS.each do |event|
          define_method(:"on_#{event}") { |*parts| event.end_with?("_error") ? wrong : made(event, parts) }
        end

        private

        def wrong
          @wrong ||= lineno
          nil
        end

        def scanned(type, token)
          start = @starts[lineno - 1] + column
          stop = start + token.bytesize
          opened(type, token, start)
          closed(type, stop)
          @heredocs << start if type == :heredoc_beg
          @operators << start if type == :op
          @last = stop
          Node.new(:"@#{type}", [token], start, stop, lineno)
        end

        def opened(type, token, start)
          @lambdas << start if type == :tlambda
          @open << start if OPENING.include?(type) || (type == :symbeg && token.size > 1) || type == :backtick
        end

        def closed(type, stop)
          return unless CLOSING.include?(type) && (start = @open.pop)

          @openings[stop] = start
          @closings[start] = stop
        end

        def made(type, parts)
          case type.to_s
          when /_new\z/ then return list([]) unless type == :assoc_new
          when /_add\z/ then return list([*parts[0].children, parts[1]])
          when "args_add_block" then return list(parts[0].children + (parts[1] ? [node(:block_pass, [parts[1]])] : []))
          when "args_add_star" then return list([*parts[0].children, node(:splat, [parts[1]])])
          end
          node(type, parts)
        end

        def list(parts) = node(:list, parts)

        def node(type, parts)
          known = parts.flatten.grep(Node).select(&:start)
          first = known.min_by(&:start)
          start, stop = bounds(type, first&.start, known.map(&:stop).max)
          Node.new(type, parts.flat_map { |part| part.is_a?(Array) ? part : [part] }, start, stop,
                   start ? line_of(start) : lineno)
        end

        def bounds(type, start, stop)
          if ENCLOSED.include?(type) then [@openings.fetch(@last, start), @last]
          elsif type == :lambda then [@lambdas.pop || start, @last]
          elsif ENDED.include?(type) then [start, @last]
          elsif %i[aref aref_field].include?(type) then [start, closing_after(start, stop)]
          elsif type == :dyna_symbol && start then quoted(stop)
          elsif PREFIXED.include?(type) && start then [prefix(start), stop]
          else [start && (start - COLONS.fetch(type, 0)), stop]
          end
        end

        # The end of `[…]` behind a receiver.
        def closing_after(start, stop)
          @closings.select { |opening, closing| opening > start && closing > stop }.values.min || stop
        end

        # :"a b", or the key of { "a b": 1 }
        def quoted(stop)
          closing = @openings.keys.select { |position| position > stop }.min
          [@openings[closing], closing]
        end

        # The operator before a value.
        def prefix(start) = @operators.reverse.find { |at| at < start } || start
        def line_of(start) = @starts.bsearch_index { |at| at > start } || @starts.size
      end
    end
  end
end
