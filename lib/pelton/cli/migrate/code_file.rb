# frozen_string_literal: true

require_relative "call"
require_relative "finding"

module Pelton
  class CLI
    module Migrate
      # A file of the application with its tree, and what was found in it.
      class CodeFile
        # Path to print, relative to the folder that is read.
        #: String
        attr_reader :path
        #: Array[Finding]
        attr_reader :findings
        #: Node
        attr_reader :root

        # Raises Source::Invalid.
        #: (String, String) -> void
        def initialize(path, text)
          @path = path
          @source = Source.read(path, text)
          @root = @source.root
          @findings = []
          # Nodes that something has reported: {start => true}
          @seen = {}
        end

        # The code of a node, without the indentation of its first line.
        #: (Node?) -> String
        def text(node)
          first, *others = node ? @source.text(node).lines : []
          depth = others.reject { |line| line.strip.empty? }.map { |line| line[/\A */].size }.min
          [first, *others.map { |line| line.sub(/\A {0,#{depth}}/, "") }].join
        end

        # Milliseconds as the code of seconds: 60_000 → "60", TIMEOUT → "TIMEOUT / 1000.0".
        #: (Node) -> String
        def seconds(node)
          value = Call.literal(node)
          return "#{text(node).match?(/\A\w+\z/) ? text(node) : "(#{text(node)})"} / 1000.0" unless value.is_a?(Numeric)

          in_seconds(value)
        end

        # 60_000 → "60"
        #: (Numeric) -> String
        def in_seconds(value) = ((value % 1000).zero? ? (value / 1000).to_i : value / 1000.0).to_s

        # A name as the code of a String: :orders → "\"orders\"", name → "name.to_s".
        #: (Node) -> String
        def name(node)
          value = Call.literal(node)
          return value.to_s.inspect if value.is_a?(String) || value.is_a?(Symbol)

          node.is?(:string_literal) ? text(node) : "#{text(node)}.to_s"
        end

        #: (Node) -> bool
        def whole?(node) = @source.whole?(node)

        # Reports a construct, once per location.
        #: (Node, Symbol, ?String?, ?String?) -> void
        def found(node, kind, pelton = nil, note = nil)
          return if @seen[node.start]

          @seen[node.start] = true
          @findings << Finding.new(file: @path, line: node.line, code: excerpt(node), kind: kind,
                                   pelton: pelton, note: note)
        end

        def excerpt(node)
          word = node.type if node.is?(:class, :def)
          [*word, @source.excerpt(node)].join(" ")
        end
        private :excerpt

        # The full name of a constant: "A::B"; nil for another node.
        #: (Node?) -> String?
        def constant(node)
          case node&.type
          when :var_ref, :const_ref then node.nodes.first.is?(:@const) ? node.nodes.first.token : nil
          when :top_const_ref then node.nodes.first.token
          when :const_path_ref
            left = constant(node.children[0])
            left && "#{left}::#{node.children[1].token}"
          end
        end
      end
    end
  end
end
