# frozen_string_literal: true

require "json"

# Rows that threads of several processes append to one file, and that one process reads back in their order. A row is
# one write, so rows do not mix and survive a kill.
class Lines
  # The block converts a row for `to_a`.
  def initialize(path, &make)
    @path = path
    @make = make || :itself.to_proc
    @file = nil
    @found = []
    # Bytes read so far.
    @read = 0
  end

  def <<(row)
    (@file ||= File.open(@path, "a")).syswrite("#{JSON.generate(row)}\n")
    self
  end

  # All rows so far. Reads the new ones.
  def to_a
    return @found unless File.exist?(@path)

    File.open(@path) do |file|
      file.seek(@read)
      file.each_line do |line|
        break unless line.end_with?("\n")

        @found << @make.call(JSON.parse(line))
        @read += line.bytesize
      end
    end
    @found
  end
end
