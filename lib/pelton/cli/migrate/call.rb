# frozen_string_literal: true

require_relative "source"

module Pelton
  class CLI
    module Migrate
      # A method call, however it is written: `a.b(c) { … }`, `b c do … end`, `b`. An assignment `a.b = c` is a call of
      # "b=". receiver, block: a Node or nil. args: Nodes, without keywords. keywords: {"topic" => Node}.
      Call = Struct.new(:name, :receiver, :args, :keywords, :block, :node) do
        # nil: the node is none.
        #: (Node) -> Call?
        def self.of(node)
          case node.type
          when :vcall, :fcall then with(node.nodes.first, nil, nil, node)
          when :command then with(node.children[0], nil, node.children[1], node)
          when :call, :command_call then with(node.children[2], node.children[0], node.children[3], node)
          when :method_add_arg then of(node.children[0])&.add(node, node.children[1])
          when :method_add_block then of(node.children[0])&.add_block(node)
          when :assign then of_assignment(node)
          end
        end

        def self.of_assignment(node)
          target, value = node.children
          case target.type
          when :field then new("#{target.children[2].token}=", target.children[0], [value], {}, nil, node)
          when :aref_field
            new("[]=", target.children[0], [*target.children[1]&.children, value], {}, nil, node)
          end
        end

        # `a.()` has no name.
        def self.with(name, receiver, list, node)
          new(name.is_a?(Node) ? name.token : "call", receiver, [], {}, nil, node).add(node, list)
        end
        private_class_method :of_assignment, :with

        # The statements of a body, a block or a list.
        #: (Node?) -> Array[Node]
        def self.statements(node)
          return [] unless node
          return node.children.grep(Node).reject { |child| child.is?(:void_stmt) } if node.is?(:list)

          statements(node.nodes.find { |child| child.is?(:bodystmt, :list) })
        end

        # The names of a block's or lambda's parameters: ["config"].
        #: (Node?) -> Array[String]
        def self.parameters(block)
          variables = block&.nodes&.find { |child| child.is?(:block_var, :paren, :params) }
          names = []
          variables&.each_node { |descendant| names << descendant.token if descendant.is?(:@ident) }
          names
        end

        # The literal value of a node: a String, Symbol, number, true, false or nil; otherwise `other`.
        #: (Node?, ?untyped) -> untyped
        def self.literal(node, other = nil)
          case node&.type
          when :symbol_literal, :dyna_symbol then symbol(node) || other
          when :string_literal then plain(node.nodes.first.children, other)
          when :@int then Integer(node.token)
          when :@float then Float(node.token)
          when :var_ref then { "true" => true, "false" => false }.fetch(node.nodes.first.token, other)
          when :binary then arithmetic(node, other)
          when :paren then literal(statements(node).first || node.nodes.first, other)
          else other
          end
        end

        def self.plain(parts, other)
          parts.all? { |part| part.is_a?(Node) && part.is?(:@tstring_content) } ? parts.map(&:token).join : other
        end

        # :a or :"a b"
        def self.symbol(node)
          first = node.nodes.first
          text = node.is?(:dyna_symbol) ? plain(first.children, nil) : first.nodes.first.token
          text&.to_sym
        end

        # 60 * 1000
        def self.arithmetic(node, other)
          left, operator, right = node.children
          values = [literal(left), literal(right)]
          return other unless values.all?(Numeric) && %i[+ - *].include?(operator)

          values.reduce(operator)
        end
        private_class_method :plain, :symbol, :arithmetic

        #: (Node, Node?) -> self
        def add(whole, list)
          list = list.nodes.first if list&.is?(:arg_paren)
          given = list&.is?(:list) ? list.nodes : [list].compact
          given.each do |argument|
            argument.is?(:bare_assoc_hash) ? keywords.merge!(Call.pairs(argument)) : args << argument
          end
          self.node = whole
          self
        end

        #: (Node) -> self
        def add_block(whole)
          self.node = whole
          self.block = whole.children[1]
          self
        end

        # {"topic" => Node} of a Hash or of keywords. A key that is no name is its text; `**x` has the key "**".
        #: (Node) -> Hash[String, Node]
        def self.pairs(hash)
          found = {}
          list = hash.nodes.flat_map { |child| child.is?(:assoclist_from_args, :list) ? child.nodes : [child] }
          list = list.flat_map { |child| child.is?(:list) ? child.nodes : [child] }
          list.each do |pair|
            key, value = pair.is?(:assoc_new) ? pair.children : ["**", pair.nodes.first]
            found[key_name(key)] = value || key
          end
          found
        end

        def self.key_name(key)
          return key unless key.is_a?(Node)
          return key.token.delete_suffix(":") if key.is?(:@label)

          if key.is?(:dyna_symbol)
            return key.nodes.flat_map { |child| child.is?(:list) ? child.nodes : [child] }.map(&:token).join
          end

          literal(key).to_s
        end
        private_class_method :key_name

        #: () -> Integer
        def line = node.line

        # The call of this name, without a receiver, in the block: `consumer X` of a topic. Otherwise nil.
        #: (String) -> Call?
        def word(name)
          calls = Call.statements(block).filter_map { |statement| Call.of(statement) }
          calls.find { |call| call.name == name && call.receiver.nil? }
        end
      end
    end
  end
end
