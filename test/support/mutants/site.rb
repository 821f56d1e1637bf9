# frozen_string_literal: true

module Mutants
  # One small change of a file: the text at a place, and its replacement. It may span lines. operator: :compare, :drop,
  # …; before: where it begins in the file's bytes.
  Site = Struct.new(:operator, :path, :line, :before, :old, :new, keyword_init: true) do
    # The text of the file with the change.
    def apply(text)
      bytes = text.b
      bytes[before, old.bytesize] == old.b or raise "#{self} is not in #{path}"
      bytes[before, old.bytesize] = new.b
      bytes.force_encoding(text.encoding)
    end

    # "lib/pelton/runtime/clock.rb:12 compare: `<` → `<=`"
    def to_s = "#{path}:#{line} #{operator}: `#{short(old)}` → `#{short(new)}`"

    # The changed line, before and after.
    def diff(text)
      changed = apply(text)
      "  - #{text.lines[line - 1].strip}\n  + #{changed.lines[line - 1].strip}"
    end

    private

    def short(code) = code.gsub(/\s+/, " ")[0, 70]
  end
end
