# frozen_string_literal: true

# Texts of Rust files, as the architecture test sees them.
module RustSource
  # `impl … { … }`: rustfmt puts the last brace below the first word, or everything on one line.
  IMPL = /^( *)(?:unsafe )?impl\b(?:[^{;]*\{\}$|.*?^\1\}$)/m
  TYPE = /^ *(?:pub(?:\([^)]*\))? )?(?:unsafe )?(%s) (\w+)/
  OWN = Regexp.new(format(TYPE.source, "struct|enum|trait|union"))
  ALIAS = Regexp.new(format(TYPE.source, "type"))
  private_constant :IMPL, :TYPE, :OWN, :ALIAS

  class << self
    # Without its tests and comments.
    def code(text) = text.sub(/^#\[cfg\(test\)\]\s*mod .*/m, "").gsub(%r{//.*}, "")

    # [[line number, code without comment], …] of the lines with unsafe code.
    def unsafe_lines(text)
      text.each_line.with_index(1).filter_map do |line, number|
        code = line.sub(%r{//.*}, "").gsub(/"[^"]*"/, '""')
        [number, code] if code.match?(/\bunsafe\b/) && !code.include?("#[unsafe(")
      end
    end

    # The types that it defines, those of its tests as well: ["Batch", "Limits"]. An impl defines no name: the Item of
    # `type Item = …` is its trait's.
    def types(text) = [text.scan(OWN), text.gsub(IMPL, "").scan(ALIAS)].flatten(1).map(&:last)

    # Modules of its crate that code uses: ["config", "rd"].
    def used_modules(code)
      grouped = code.scan(/\bcrate::\{(.*?)\};/m).flatten.flat_map { |group| top_names(group) }
      (code.scan(/\bcrate::(\w+)/).flatten + grouped).uniq
    end

    private

    # "config::{A, B}, rd, wait::Wait" → ["config", "rd", "wait"]
    def top_names(group)
      nil while group.gsub!(/\{[^{}]*\}/, "")
      group.split(",").filter_map { |item| item[/\w+/] }
    end
  end
end
