# frozen_string_literal: true

require_relative "../test_helper"
require "harness/migrate_apps"
require "stringio"
require "tmpdir"

# The program that tries `pelton migrate` on applications of others.
class MigrateAppsTest < Minitest::Test
  def setup = @folder = Dir.mktmpdir
  def teardown = FileUtils.remove_entry(@folder)

  def write(name, text)
    path = File.join(@folder, name)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
  end

  # [exit code, output without the folder's name]
  def try(folder = @folder)
    out = StringIO.new
    code = MigrateApps.new(folder, out: out).call
    [code, out.string.gsub("#{@folder}/", "")]
  end

  APP = "class A < Karafka::App\n  setup { |config| config.group_id = \"a\" }\n  Karafka.frobnicate\nend\n"

  def test_each_application_is_counted_and_unknown_constructs_are_named
    %w[one two].each { |name| write("#{name}/karafka.rb", APP) }
    File.symlink("#{@folder}/one", "#{@folder}/link")
    code, output = try
    assert_equal 0, code, output
    assert_match(/^one: 1 files, .*, 1 unknown$/, output)
    assert_match(/^  unknown: karafka.rb:3 Karafka/, output)
    assert_match(/^2 applications, \d+ constructs \(.*, 2 unknown\), 0 failures$/, output)
    assert_equal %w[karafka.rb], Dir.children("#{@folder}/one"), "the application is not changed"
  end

  def test_an_application_that_cannot_be_read_is_a_failure
    write("good/karafka.rb", APP)
    write("wrong/karafka.rb", "class A < Karafka::App")
    code, output = try
    assert_equal 1, code
    assert_match(/^wrong: failed: .*karafka\.rb/, output)
    assert_match(/^2 applications, .* 1 failures$/, output)
  end

  def test_a_folder_that_does_not_exist
    assert_equal [2, "missing: no such folder\n"], try("#{@folder}/missing")
  end
end
