# frozen_string_literal: true

require_relative "statements"

module Pelton
  class CLI
    module Migrate
      # Writes the lines of Pelton.topics: what `config` says in the block of a topic and in `defaults`.
      class DeclaredTopics < Statements
        # The `config` of the `defaults`, a Call.
        #: Call?
        attr_writer :default

        # Its own `config`, otherwise that of the `defaults`. Karafka evaluates the topic's block before the defaults,
        # and its first `config` counts as a whole: nothing is merged. A pattern is not declared.
        #: (Call) -> Call?
        def config(call)
          call.word("config") || (@default unless call.args.any? { |argument| argument.is?(:regexp_literal) })
        end

        # config(partitions: 4, "retention.ms": 1) → Pelton.topics { topic "orders", partitions: 4, … }. topic: the code
        # of the name.
        #: (Call, ?String) -> void
        def declare(call, topic = name(call.args.first))
          own = config(call) or return
          return file.found(own.node, :same, nil, "it is off: nothing to do") if off?(own)

          words = own.keywords.except("active")
          write(call, own, "topic #{topic}#{options(words)}",
                merged(words["**"]) || hidden([call.args.first, *words.values]))
        end

        private

        # ", partitions: 4, config: { "retention.ms" => 1 }"
        def options(words)
          partitions, replication = words.values_at("partitions", "replication_factor")
          others = words.except("partitions", "replication_factor")
          config = others.map { |key, node| key == "**" ? "**#{text(node)}" : "#{key.inspect} => #{text(node)}" }
          [(", partitions: #{text(partitions)}" if partitions),
           (", replication: #{text(replication)}" if replication),
           (", config: { #{config.join(", ")} }" if config.any?)].join
        end

        def merged(node) = ("#{one_line(node)} may also have partitions and replication_factor" if node)
        def hidden(nodes) = expressions.without_locals { nodes.filter_map { |node| problem(node) }.first }

        # What the call leaves to Karafka, which then takes 1; nil: nothing.
        def unnamed(call)
          names = { "partitions" => "partitions", "replication_factor" => "replication" }.except(*call.keywords.keys)
          "#{names.values.join(" and ")} of a new topic: the broker's default, where Karafka takes 1" if names.any?
        end

        def off?(call) = [call.args.first, call.keywords["active"]].any? { |node| Call.literal(node) == false }

        # why: the line cannot be taken as it is, because of this; nil: it can.
        def write(call, own, line, why)
          note = why || unnamed(own)
          file.found(own.node, note ? :differs : :same, "Pelton.topics { #{line} }", note)
          file.found(call.node, :same, "Pelton.topics { #{line} }") unless call.word("consumer")
          return if draft.lines.include?(line)

          draft.todo("#{location(call.node)}: check this line, because #{why}") if why
          draft.commented(!why.nil?) { draft.code(line) }
        end
      end
    end
  end
end
