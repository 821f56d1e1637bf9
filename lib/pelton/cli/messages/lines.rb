# frozen_string_literal: true

module Pelton
  class CLI
    # The lines of an input, in the groups in which they arrive: a line that was typed comes at once, and a file comes
    # in large groups.
    #   Lines.new($stdin).each { |lines| send(lines) } # lines: ["first", "second"], binary, without line ends
    class Lines
      # Bytes read at once.
      SIZE = 256 << 10
      private_constant :SIZE

      #: (IO) -> void
      def initialize(input)
        @input = input
      end

      # Yields Arrays of lines, until the input ends. The last line needs no line end.
      #: () { (Array[String]) -> void } -> void
      def each
        rest = "".b
        loop do
          chunk = @input.readpartial(SIZE).b
          stop = chunk.rindex("\n") or next rest << chunk
          lines = (rest << chunk.byteslice(0, stop)).split("\n", -1)
          rest = chunk.byteslice(stop + 1, SIZE)
          yield lines.empty? ? [""] : lines # "".split returns no line
        rescue EOFError
          break
        end
        yield [rest] unless rest.empty?
      end
    end
  end
end
