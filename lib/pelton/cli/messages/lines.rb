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
        while (chunk = read)
          stop = chunk.rindex("\n") or next rest << chunk
          lines = (rest << chunk.byteslice(0, stop)).split("\n", -1)
          rest = chunk.byteslice(stop + 1, SIZE)
          yield lines.empty? ? [""] : lines # "".split returns no line
        end
        yield [rest] unless rest.empty?
      end

      private

      # What has arrived; nil at the end. An EOFError of the block is none of the input.
      def read
        @input.readpartial(SIZE).b
      rescue EOFError
        nil
      end
    end
  end
end
