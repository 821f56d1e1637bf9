# frozen_string_literal: true

require_relative "call"
require_relative "draft"
require_relative "finding"

module Pelton
  class CLI
    module Migrate
      # Walks through the statements of a block of configuration, and writes them to the draft. Conditions, loops and
      # local variables stay as they are. A subclass translates the calls (`word`).
      class Statements
        #: (CodeFile, Draft, Expressions) -> void
        def initialize(file, draft, expressions)
          @file = file
          @draft = draft
          @expressions = expressions
        end

        #: (Node?) -> void
        def walk(body) = Call.statements(body).each { |statement| statement(statement) }

        private

        attr_reader :file, :draft, :expressions

        # Translates a call. Returns false for one that it does not know.
        def word(_call) = raise(NotImplementedError, "#{self.class}#word")

        def statement(node)
          case node.type
          when :if, :unless then branches(node, node.type)
          when :if_mod, :unless_mod
            condition([[node.type.to_s.delete_suffix("_mod"), *node.children]]) { |body| statement(body) }
          when :assign then assign(node)
          else
            call = Call.of(node)
            return loop_over(call) if call&.block && call&.receiver && %w[each each_with_index
                                                                          times].include?(call.name)

            unknown(node) unless call && word(call)
          end
        end

        # if … elsif … else … end
        def branches(node, keyword)
          parts = []
          while node&.is?(:if, :unless, :elsif)
            parts << [keyword, *node.children.first(2)]
            node = node.children[2]
            keyword = :elsif
          end
          parts << [:else, nil, node.nodes.first] if node
          condition(parts) { |body| walk(body) }
        end

        # parts: [[:if, test, body], …, [:else, nil, body]]
        def condition(parts)
          tests = parts.filter_map { |_, test, _| test }
          why = tests.filter_map { |test| problem(test) }.first
          draft.todo("#{location(tests.first)}: this condition could not be copied, because #{why}") if why
          draft.commented(!why.nil?) do
            draft.branches(parts.map { |word, test, body| ["#{word} #{text(test)}".strip, -> { yield body }] })
          end
        end

        def loop_over(call)
          receiver = file.text(call.receiver)
          names = Call.parameters(call.block)
          why = problem(call.receiver)
          draft.todo("#{location(call.node)}: this loop could not be copied, because #{why}") if why
          draft.commented(!why.nil?) do
            draft.block("#{receiver}.#{call.name} do |#{names.join(", ")}|") do
              expressions.with_locals(names) { walk(call.block) }
            end
          end
        end

        # a = 1
        def assign(node)
          call = Call.of(node)
          return if call && word(call)
          return unknown(node) unless node.children[0].is?(:var_field) && node.children[0].nodes.first.is?(:@ident)

          why = problem(node.children[1])
          return unknown(node, why) if why

          expressions.add_local(node.children[0].nodes.first.token)
          draft.code(text(node))
        end

        # Writes the line unless one of the nodes cannot be in the draft; then it is a comment.
        #   copy(call, :same, "config.client_id = %s" % text(value), value)
        def copy(call, kind, line, *nodes, note: nil)
          why = nodes.compact.filter_map { |node| problem(node) }.first
          kind = :differs if why && kind == :same
          notes = [*note, *("the draft has it as a comment, because #{why}" if why)]
          file.found(call.node, kind, line, (notes.join("; ") if notes.any?))
          return draft.code(line) unless why

          draft.todo("#{location(call.node)}: check this line, because #{why}")
          draft.commented(true) { draft.code(line) }
        end

        # Only tells.
        def tell(call, row)
          file.found(call.node, row.kind, row.pelton, row.note)
          draft.todo("#{location(call.node)}: #{one_line(call.node)}: #{row.note}") unless row.kind == :same
          true
        end

        def unknown(node, why = nil)
          file.found(node, :unknown, nil, why || "look it up, and move it by hand")
          draft.todo("#{location(node)}: unknown, move it by hand: #{one_line(node)}")
        end

        def problem(node) = expressions.problem(file, node)
        def text(node) = file.text(node)
        def seconds(node) = file.seconds(node)
        def name(node) = file.name(node)
        def location(node) = "#{file.path}:#{node.line}"
        def one_line(node) = text(node).lines.first.to_s.strip
      end
    end
  end
end
