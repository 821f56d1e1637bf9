# frozen_string_literal: true

module Pelton
  class CLI
    module Migrate
      # The lines of the drafted file, while they are written. Blocks indent.
      class Draft
        #: () -> void
        def initialize
          # Finished lines: ["Pelton.routes do", "  topic …"]
          @lines = []
          @depth = 0
          # true inside of `commented`.
          @off = false
        end

        #: Array[String]
        attr_reader :lines

        # One line of code, or several.
        #: (String) -> void
        def code(text)
          text.lines(chomp: true).each { |line| @lines << "#{"  " * @depth}#{"# " if @off}#{line}".rstrip }
        end

        # Work that is left to the user, with the location of the old code.
        #: (String) -> void
        def todo(text) = text.lines(chomp: true).each { |line| @lines << "#{"  " * @depth}# TODO #{line}" }

        # A block of these lines; nothing if there are none.
        #: (String, Array[String]) -> void
        def short_block(head, list)
          return code("#{head} { #{list.first} }") if list.size == 1

          block("#{head} do") { list.each { |line| code(line) } }
        end

        # Adds a pair to a Hash literal that is assigned outside of blocks: merge("config.kafka", "\"acks\" => 1").
        # comment: a line for above it. Returns false if there is none, or if its end is not plain.
        #: (String, String, ?String?) -> bool
        def merge(target, pair, comment = nil)
          first = @lines.index { |line| line.match?(/\A#{Regexp.escape(target)} = \{(.*\})?\z/) } or return false
          last = first
          last += @lines.drop(first).index("}") || (return false) if @lines[first].end_with?("{")
          inner = last > first ? @lines[last - 1] : @lines[first].delete_suffix("}").rstrip
          return false if inner.match?(/#(?!{)/) || inner.end_with?("{") # a comment at its end, or an empty Hash

          add = "#{inner}#{"," unless inner.end_with?(",")}"
          last > first ? @lines[last - 1, 1] = [add, "  #{pair}"] : @lines[first] = "#{add} #{pair} }"
          @lines.insert(first, "# #{comment}") if comment
          true
        end

        # Adds a pair to a Hash: in its literal if `merge` can, otherwise in a line of its own.
        #: (String, String, ?String?) -> void
        def add(target, pair, comment = nil)
          return if merge(target, pair, comment)

          code("# #{comment}") if comment
          code("#{target} = { **#{target}, #{pair} }")
        end

        # `head`, what the block writes, `end`. Nothing if the block writes nothing.
        #: (String) { () -> void } -> void
        def block(head, &body) = branches([[head, body]])

        # The same for several parts: [["if a", -> { … }], ["else", -> { … }]].
        #: (Array[[String, ^() -> void]]) -> void
        def branches(parts)
          bodies = parts.map { |_, body| inside(&body) }
          return if bodies.all?(&:empty?)

          parts.zip(bodies) do |(head, _), lines|
            code(head)
            @lines.concat(lines)
          end
          code("end")
        end

        # The lines that the block writes, one level deeper.
        #: () { () -> void } -> Array[String]
        def inside
          before = @lines
          @lines = []
          @depth += 1
          yield
          @lines
        ensure
          @lines = before
          @depth -= 1
        end

        # Comments out what the block writes.
        #: (bool) { () -> void } -> void
        def commented(off)
          before = @off
          @off ||= off
          yield
        ensure
          @off = before
        end
      end
    end
  end
end
