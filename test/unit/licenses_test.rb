# frozen_string_literal: true

require "test_helper"
require "support/licenses"

# Everything that is linked into the extension is named with its license.
class LicensesTest < Minitest::Test
  TEXT = File.read(File.join(Licenses::ROOT, Licenses::FILE))

  def test_the_file_names_every_crate_that_is_linked
    skip "no cargo" unless system("cargo", "--version", out: File::NULL, err: File::NULL)

    crates = Licenses.new.crates.map { |crate| "- #{crate["name"]} #{crate["version"]}: #{crate["license"]}" }
    assert_operator crates.size, :>, 10
    assert_empty crates - TEXT.lines(chomp: true), "run bin/licenses"
  end

  def test_the_file_names_every_c_library_that_a_crate_brings
    Licenses::LIBRARIES.values.flatten(1).each do |name, license, _|
      assert_match(/^- #{Regexp.escape(name)}.*: #{license}$/, TEXT)
    end
  end

  # jemalloc was missing, when only its crate was named.
  def test_each_crate_that_brings_a_c_library_has_it_in_the_list
    skip "no cargo" unless system("cargo", "--version", out: File::NULL, err: File::NULL)

    crates = Licenses.new.crates.map { |crate| crate["name"] }.grep(/-sys\z/) - %w[rb-sys] # Ruby's own is not linked
    assert_empty crates.map { |name| name.sub("openssl-sys", "openssl-src") } - Licenses::LIBRARIES.keys
  end

  # The versions that Cargo.lock has: also where there is no cargo.
  def test_the_versions_are_those_of_the_lock_file
    locked = File.read(File.join(Licenses::ROOT, "Cargo.lock")).scan(/^name = "(.+)"\nversion = "(.+)"/)
    told = TEXT.scan(/^- ([a-z][\w-]+) (\d\S*): /)
    assert_operator told.size, :>, 10
    libraries = Licenses::LIBRARIES.values.flatten(1).map(&:first)
    assert_empty (told - locked).map(&:first) - libraries, "run bin/licenses"
  end
end
