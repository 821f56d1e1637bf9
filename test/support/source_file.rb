# frozen_string_literal: true

require "ripper"

# A Ruby file as the architecture test sees it: what it requires, defines and names. Comments and strings do not count.
class SourceFile
  attr_reader :path

  # `path` is relative to the project's folder: "lib/pelton/runtime/clock.rb".
  def initialize(root, path)
    @root = root
    @path = path
    @text = File.read(File.join(root, path))
  end

  def lines = @text.count("\n")

  # Files of lib/ that this one loads: ["lib/pelton/errors.rb"].
  def requires
    @text.each_line.filter_map do |line|
      case line
      when /\A\s*require_relative\s+["']([^"'#]+)["']/
        inside(File.expand_path($1, File.join(@root, File.dirname(path))))
      when %r{\A\s*(?:require|autoload\s+:\w+,)\s*["'](pelton(?:/[^"'#]+)?)["']}
        inside(File.join(@root, "lib", $1))
      end
    end
  end

  # Classes and modules that it defines (or reopens): ["Pelton", "Clock"].
  def defines
    @defines ||= tokens.each_cons(3).flat_map do |before, space, name|
      next [] unless before.text.match?(/\A(class|module)\z/) && before.event == :on_kw && space.event == :on_sp

      name.event == :on_const ? [definition(name)] : []
    end.uniq
  end

  # Constants that it names: {"Clock" => line of the first use}.
  def constants
    tokens.each_with_object({}) { |token, found| found[token.text] ||= token.line if token.event == :on_const }
  end

  # Lines that use a plain word as a call or name.
  def lines_with_word(word)
    tokens.filter_map { |token| token.line if token.event == :on_ident && token.text == word }
  end

  # Lines with `receiver.method`, for a method that matches.
  def lines_with_call(receiver, method)
    significant.each_cons(3).filter_map do |first, dot, second|
      first.line if first.text == receiver && %w[. :: &.].include?(dot.text) &&
                    second.event == :on_ident && second.text.match?(method)
    end
  end

  private

  Token = Struct.new(:line, :event, :text)
  SILENT = %i[on_comment on_embdoc on_embdoc_beg on_embdoc_end on_tstring_content].freeze
  private_constant :Token, :SILENT

  def tokens
    @tokens ||= Ripper.lex(@text).filter_map do |(line, _), event, text|
      Token.new(line, event, text) unless SILENT.include?(event)
    end
  end

  def significant = @significant ||= tokens.reject { |token| %i[on_sp on_nl on_ignored_nl].include?(token.event) }

  # The last name of `class Pelton::Web::Page`.
  def definition(name)
    index = tokens.index { |token| token.equal?(name) }
    index += 2 while tokens[index + 1]&.text == "::" && tokens[index + 2]&.event == :on_const
    tokens[index].text
  end

  def inside(full)
    full = "#{full}.rb" unless full.end_with?(".rb")
    full.delete_prefix("#{@root}/") if full.start_with?("#{@root}/lib/")
  end
end
