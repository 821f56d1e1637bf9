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

        # Work that is left to the user, with the place of the old code.
        #: (String) -> void
        def todo(text) = text.lines(chomp: true).each { |line| @lines << "#{"  " * @depth}# TODO #{line}" }

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
