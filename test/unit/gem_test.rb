# frozen_string_literal: true

require "test_helper"

# The gem has all that it is compiled of, and all that Ruby requires of it.
class GemTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  GEM = Dir.chdir(ROOT) { Gem::Specification.load("pelton.gemspec") }
  FILES = GEM.files

  def test_files_that_cargo_reads_are_shipped
    sources = Dir.glob(["Cargo.*", ".cargo/*", "ext/**/*.{rs,rb,toml}", "ext/openssl/*"], base: ROOT)
    assert_operator sources.size, :>, 100
    assert_empty sources - FILES
  end

  def test_files_that_ruby_requires_are_shipped
    FILES.grep(/\.rb\z/).each do |file|
      wanted = File.read("#{ROOT}/#{file}").scan(/^\s*require_relative "([^"#]+)"/).flatten
      paths = wanted.map { |path| "#{File.expand_path(path, "/#{File.dirname(file)}").delete_prefix("/")}.rb" }
      assert_empty paths - FILES, "required by #{file}"
    end
  end

  def test_licenses_of_linked_libraries_and_the_security_policy_are_shipped
    assert_empty %w[LICENSE THIRD_PARTY_LICENSES.txt SECURITY.md] - FILES
  end

  def test_a_vulnerability_is_reported_to_the_repository_of_the_gem
    addresses = File.read(File.join(ROOT, "SECURITY.md")).scan(%r{<(https://[^>]+)>}).flatten
    assert_equal ["#{GEM.homepage}/security/advisories/new"], addresses
    assert_equal GEM.homepage, GEM.metadata["source_code_uri"]
  end

  def test_files_that_rails_and_puma_load_are_shipped
    files = Dir.glob("lib/{generators,puma,pelton/railtie}/**/*.*", base: ROOT)
    assert_operator files.size, :>, 8
    assert_empty files - FILES
  end

  def test_guides_reference_and_signatures_are_shipped
    pages = Dir.glob(["docs/{guides,reference}/**/*.md", "sig/*.rbs"], base: ROOT)
    assert_operator pages.size, :>, 30
    assert_empty pages - FILES
  end

  def test_build_outputs_and_tests_are_not_shipped
    assert_empty FILES.grep(/\.so\z|\Atest|\Abench|\Adocs.api/)
  end
end
