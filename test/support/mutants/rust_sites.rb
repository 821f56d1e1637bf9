# frozen_string_literal: true

require_relative "rust_functions"
require_relative "site"

module Mutants
  # The changes that could be made to the functions of a Rust file, found line by line: rustfmt has formatted it.
  class RustSites
    def self.number(value) = (value >= 10 ? value * 2 : value + 1).to_s

    # {operator => [[pattern (its first group is replaced), replacement], …]}
    PATTERNS = {
      compare: [[/ (<|<=|>|>=|==|!=) /,
                 { "<" => "<=", "<=" => "<", ">" => ">=", ">=" => ">", "==" => "!=", "!=" => "==" }]],
      logic: [[/ (&&|\|\|) /, { "&&" => "||", "||" => "&&" }]],
      arithmetic: [[/ (\+|-|\+=|-=) /, { "+" => "-", "-" => "+", "+=" => "-=", "-=" => "+=" }]],
      condition: [[/\bif (!)/, { "!" => "" }], [/\bif ((?!let\b)[^!{][^{&|]*?) \{/, ->(code) { "!(#{code})" }]],
      boolean: [[/\b(true|false)\b/, { "true" => "false", "false" => "true" }]],
      number: [[/(?<![\w."])(\d[\d_]*)(?![\w.]*\w)/, ->(code) { number(Integer(code.delete("_"), 10)) }]],
      method: [[/\.(min|max|any|all|is_some|is_none|first|last|is_ok|is_err)\(/,
                %w[min max any all is_some is_none first last is_ok is_err]
                  .each_slice(2).flat_map { |name, opposite| [[name, opposite], [opposite, name]] }.to_h]],
      swap: [[/\b[a-z]\w*\(([a-z]\w*, [a-z]\w*)\)/, ->(code) { code.split(", ").reverse.join(", ") }]],
      drop: [[/^\s*((?:[a-z_]+\([^;{}]*?\)|self|[a-z_]+)(?:[.:]+\w+(?:\([^;{}]*?\))?)*(?: [-+|]?= [^;{}]*)?;)$/,
              ->(_) { "();" }]]
    }.freeze

    #: (String, String) -> void
    def initialize(path, text)
      @path = path
      @text = text
    end

    #: () -> Array[Site]
    def to_a
      start = 0
      code = @text[/\A.*?(?=^mod tests \{|\z)/m]
      bodies = RustFunctions.new(@text).bodies
      bare = RustFunctions.bare(@text)
      sites = code.each_line.with_index(1).flat_map do |line, number|
        start += line.bytesize
        of_line(line, bare.byteslice(start - line.bytesize, line.bytesize), number, start - line.bytesize)
      end
      sites.select { |site| bodies.any? { |body| body.include?(site.before) } }
    end

    private

    def of_line(code, bare, line, start)
      return [] if code.match?(%r{^\s*(//|#|use |pub use |fn |pub fn |pub\(.*fn |impl|mod |struct|enum|type )})

      PATTERNS.flat_map do |operator, rows|
        rows.flat_map do |pattern, change|
          bare.to_enum(:scan, pattern).map do
            found = Regexp.last_match
            old = code.byteslice(found.begin(1), found[1].bytesize)
            made(operator, line, start + found.begin(1), old, change)
          end
        end
      end.compact
    end

    def made(operator, line, before, old, change)
      new = change.respond_to?(:fetch) ? change.fetch(old) : change.call(old)
      Site.new(operator: operator, path: @path, line: line, before: before, old: old, new: new)
    end
  end
end
