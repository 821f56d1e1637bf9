# frozen_string_literal: true

module Mutants
  # The bodies of a Rust file's functions.
  class RustFunctions
    # The bytes of its braces.
    Body = Struct.new(:opening, :closing) do
      def include?(position) = position.between?(opening, closing)
    end

    # Replaces strings, also those of several lines, characters and comments by as many blanks.
    #: (String) -> String
    def self.bare(code)
      words = %r{r(#+)".*?"\1|"(?:\\.|[^"\\])*"|b?'(?:\\.|[^'\\])'|//[^\n]*}m
      code.gsub(words) { |text| text.b.gsub(/[^\n]/n, " ") }.b
    end

    #: (String) -> void
    def initialize(text)
      @bare = RustFunctions.bare(text)
    end

    # Without those that stand in another function, and those that the compiler runs (`const fn`).
    #: () -> Array[Body]
    def bodies
      ends = -1
      @bare.to_enum(:scan, /^(.*)\bfn \w+/).filter_map do
        found = Regexp.last_match
        next if found.begin(0) < ends

        body = body(found.end(0)) or next
        ends = body.closing
        body unless found[1].match?(/\bconst\b/)
      end
    end

    private

    # From there on. A declaration ends with a semicolon, without a body.
    def body(position)
      depth = 0
      while (position = @bare.index(/[(\[)\];{]/n, position))
        case @bare[position]
        when "(", "[" then depth += 1
        when ")", "]" then depth -= 1
        when "{" then return Body.new(position, closing(position)) if depth.zero?
        else return if depth.zero?
        end
        position += 1
      end
    end

    def closing(place)
      depth = 0
      loop do
        place = @bare.index(/[{}]/n, place)
        depth += @bare[place] == "{" ? 1 : -1
        return place if depth.zero?

        place += 1
      end
    end
  end
end
