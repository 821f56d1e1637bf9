# frozen_string_literal: true

module Pelton
  class Schedule
    # Many small pieces of bytes in a few large Strings. As Strings of their own they would be an object each, and leave
    # gaps between them. A position names a piece until `compact`. One thread uses it.
    class Pages
      # Bytes of a page. A larger piece has a page of its own.
      SIZE = 1 << 18
      # In front of each piece: 1 (kept) or 0 (removed), and the number of its bytes.
      HEAD = "CN"
      HEAD_SIZE = 5
      # Pages may have this many bytes of removed pieces, and a quarter of what is kept.
      SPARE = 1 << 20
      private_constant :SIZE, :HEAD, :HEAD_SIZE, :SPARE

      # How many pieces are kept.
      #: (count: Integer)
      attr_reader :count

      def initialize = clear

      # Returns the position of the new piece.
      #: (String) -> Integer
      def add(piece)
        page = page_for(HEAD_SIZE + piece.bytesize)
        position = ((@pages.size - 1) << 32) | page.bytesize
        page << [1, piece.bytesize].pack(HEAD) << piece
        @count += 1
        @kept += piece.bytesize
        position
      end

      #: (Integer) -> String
      def [](position) = unpack1(position, "a#{bytes(position)}")

      # What String#unpack1 finds in a piece, after `skip` of its bytes.
      #: (Integer, String, ?Integer) -> untyped
      def unpack1(position, format, skip = 0)
        page(position).unpack1(format, offset: start(position) + HEAD_SIZE + skip)
      end

      # Is this piece kept, or was it removed?
      #: (Integer) -> bool
      def kept?(position) = page(position).getbyte(start(position)) == 1

      #: (Integer) -> void
      def remove(position)
        page(position).setbyte(start(position), 0)
        @count -= 1
        @kept -= bytes(position)
        @removed += bytes(position)
      end

      # Do removed pieces take too much memory?
      #: () -> bool
      def wasteful? = @removed > SPARE + (@kept / 4)

      # Writes what is kept to new pages, and yields each new position. Frees each old page before it reads the next.
      #: () { (Integer) -> void } -> void
      def compact
        old = @pages
        clear
        while (page = old.shift)
          start = 0
          while start < page.bytesize
            kept, bytes = page.unpack(HEAD, offset: start)
            yield add(page.unpack1("a#{bytes}", offset: start + HEAD_SIZE)) if kept == 1
            start += HEAD_SIZE + bytes
          end
          page.clear
        end
      end

      private

      def clear
        @pages = []
        @count = 0
        # Bytes of all pieces that are kept, and of those that were removed since the pages are as they are.
        @kept = @removed = 0
      end

      def page(position) = @pages[position >> 32]
      def start(position) = position & 0xffff_ffff
      def bytes(position) = unpack1(position, "N", -4)

      def page_for(bytes)
        last = @pages.last
        return last if last && last.bytesize + bytes <= SIZE

        String.new(capacity: [SIZE, bytes].max).tap { |page| @pages << page }
      end
    end
  end
end
