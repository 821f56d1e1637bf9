# frozen_string_literal: true

require "test_helper"
require "support/guides"
require "support/signatures"
require "open3"
require "psych"
begin
  require "rbs" # comes with Ruby, as Debian packs it
rescue LoadError
  warn "no rbs here" if $VERBOSE
end

# sig/ is in step with lib/, says something of all that is public, and says what is so.
class SigTest < Minitest::Test
  ROOT = Signatures::ROOT
  PAGES = [*Guides::PAGES, *Dir.glob("docs/reference/*.md", base: ROOT)].freeze

  def setup
    @signatures = Signatures.new
    @text = @signatures.text
  end

  def test_sig_is_fresh_and_every_public_method_has_a_type
    assert_empty @signatures.missing, "a `#:` line is missing above"
    assert_equal @text, File.read(Signatures::FILE), "run bin/sig"
  end

  def test_every_public_method_has_a_docstring
    bare = @signatures.typed.reject { |_, _, method| documented?(method) }
    assert_empty bare.map(&:first), "a comment is missing above"
  end

  # What Pelton calls itself ("For Pelton: …"), what another docstring says ("See …") and subscriptions need no example.
  def test_docstrings_of_public_methods_show_a_call
    bare = @signatures.typed.reject do |_, _, method|
      comment = comment(method)
      comment.empty? || method.name.start_with?("on_") || comment.first.match?(/# (?:For|See) /) ||
        comment.any?(/\A\s*#   +\S/)
    end
    assert_empty bare.map(&:first), "an example such as `#   producer.close` is missing above"
  end

  # Methods of the extension have no Ruby text but their `#: def` line; YARD reads the `@!method` above it.
  def test_every_native_method_has_a_docstring
    named = Dir.glob("#{ROOT}/lib/**/*.rb").flat_map { |path| File.read(path).scan(/^(.*)\n(.*)\n *#: def (\S+):/) }
    assert_operator named.size, :>, 40
    assert_empty named.reject { |above| above.first(2).join.match?(/#   \S/) }.map(&:last), "a comment is missing above"
  end

  def test_names_in_the_guides_have_signatures
    named = PAGES.flat_map { |page| File.read(File.join(ROOT, page)).scan(/\bPelton(?:::[A-Z]\w*)+/) }.uniq
    classes = @signatures.classes.map(&:name)
    assert_operator named.size, :>, 15
    assert_empty named - classes, "what PROJECT_RULES.md calls public (PUBLIC in test/support/signatures.rb) lacks"
  end

  def test_rbs_finds_nothing_wrong
    skip "no rbs for this Ruby" unless defined?(RBS)
    needed = Psych.load_file(File.join(ROOT, "sig/manifest.yaml")).fetch("dependencies")
    libraries = needed.flat_map { |library| ["-r", library.fetch("name")] }
    program = "RBS::CLI.new(stdout: $stdout, stderr: $stderr).run(ARGV)"
    said, status = Open3.capture2e(RbConfig.ruby, "-W0", "-rrbs", "-rrbs/cli", "-e", program,
                                   *libraries, "-I", File.join(ROOT, "sig"), "validate", "--silent")
    assert status.success?, said.lines.first
  end

  # A type that has other arguments than its method is of an older one.
  def test_types_have_their_methods_arguments
    skip "no rbs for this Ruby" unless defined?(RBS)
    assert_operator @signatures.typed.size, :>, 300
    assert_empty(@signatures.typed.filter_map do |label, type, method|
      found = difference(overloads(type).map { |overload| RBS::Parser.parse_method_type(overload) }, method)
      "#{label} #{method.parameters.inspect} is no #{type}: #{found}" if found
    rescue RBS::BaseError => e
      "#{label} #{type}: #{e.message}"
    end)
  end

  private

  # Attributes are explained by their class, settings and events by their tables, a method by the one that it overrides.
  def documented?(method)
    file, line = method.source_location
    return true if !file&.start_with?(ROOT) || method.name == :initialize || method.super_method

    lines = File.readlines(file, chomp: true).first(line)
    !lines.last.match?(/\bdef /) || comment(method).any?
  end

  # The lines of text above a method of ours: ["  # Closes it.", "  #   producer.close"]
  def comment(method)
    file, line = method.source_location
    return [] if !file&.start_with?(ROOT) || method.name == :initialize || method.super_method

    lines = File.readlines(file, chomp: true).first(line)
    return [] unless lines.last.match?(/\bdef /)

    lines[0..-2].reverse.take_while { |text| text.match?(/\A\s*#/) }.grep(/\A\s*# (?!rubocop:)/).reverse
  end

  # "() { (Message) -> void } -> self | () -> Enumerator[Message, self]" is two.
  def overloads(type)
    depth = 0
    type.each_char.slice_when do |before, after|
      depth += { "[" => 1, "(" => 1, "{" => 1, "]" => -1, ")" => -1, "}" => -1 }.fetch(before, 0)
      after == "|" && depth.zero?
    end.map { |chars| chars.join.delete_prefix("| ") }
  end

  def difference(types, method)
    given = method.parameters.group_by(&:first).transform_values { |all| all.map(&:last) }
    written = method.source_location&.first.to_s.start_with?(ROOT)
    return if !written || given[:rest] == [:*] || given[:unnamed] # not here; `(...)`; attr_writer

    types.filter_map { |type| positions(type.type, given) || keywords(type.type, given) }.first ||
      ("a block" if given[:block] && types.none?(&:block))
  end

  def positions(type, given)
    return "required arguments" unless given.fetch(:req, []).size == type.required_positionals.size
    return "optional arguments" unless given.fetch(:opt, []).size == type.optional_positionals.size

    "a rest" unless given.key?(:rest) == !type.rest_positionals.nil?
  end

  def keywords(type, given)
    required = type.required_keywords.keys
    optional = type.optional_keywords.keys
    return "required keywords" unless (given.fetch(:keyreq, []) - required).empty?

    unknown = required + optional - given.values_at(:keyreq, :key).flatten
    return "keywords of the type" unless given[:keyrest] || unknown.empty?

    "keywords of the method" unless type.rest_keywords || (given.fetch(:key, []) - optional).empty?
  end
end
