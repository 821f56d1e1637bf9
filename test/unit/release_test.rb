# frozen_string_literal: true

require "test_helper"
require "support/gems/release"
require "tmpdir"

# What bin/release refuses, and what it runs.
class ReleaseTest < Minitest::Test
  def setup
    @root = Dir.mktmpdir("pelton-release")
    write("lib/pelton/version.rb", "VERSION = \"0.2.0\"\n")
    write("Cargo.toml", "version = \"0.2.0\"\n")
    write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.2.0\n\n- New.\n")
    write(".gitignore", "target/\n")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", "commit", "-qm", "Start")
    write(Gems::Release::TESTED, git("rev-parse", "HEAD"))
  end

  def teardown = FileUtils.rm_rf(@root)

  def test_a_clean_and_tested_commit_has_no_problem
    assert_empty problems
  end

  def test_uncommitted_changes_are_a_problem
    write("new.rb", "")

    assert_equal ["The working copy has changes that are not committed: new.rb."], problems
  end

  def test_a_version_that_has_a_tag_is_a_problem
    git("tag", "v0.2.0")

    assert_match(/\AThe tag v0\.2\.0 exists/, problems.join)
  end

  def test_another_version_in_cargo_toml_is_a_problem
    write("Cargo.toml", "version = \"0.1.0\"\n")

    assert_includes problems, "Cargo.toml has version 0.1.0, and lib/pelton/version.rb has 0.2.0."
  end

  def test_a_changelog_without_the_version_is_a_problem
    write("CHANGELOG.md", "## Unreleased\n\n## 0.2.00\n")

    assert_includes problems, "CHANGELOG.md has no section \"## 0.2.0\"."
  end

  def test_unreleased_changes_in_the_changelog_are_a_problem
    write("CHANGELOG.md", "## Unreleased\n\n- More.\n\n## 0.2.0\n")

    assert_match(/under "Unreleased"/, problems.join)
  end

  def test_a_commit_without_a_recorded_run_of_the_tests_is_a_problem
    write(Gems::Release::TESTED, "0123abc\n")

    assert_match(%r{\ANo successful run of \.ci/run is recorded for commit \h{10}}, problems.join)
  end

  def test_the_tag_is_pushed_before_the_gems
    commands = release.commands(["pkg/pelton-0.2.0.gem"]).map { |command| command.join(" ") }

    assert_equal ["git tag -a v0.2.0 -m Pelton 0.2.0", "git push origin v0.2.0", "gem push pkg/pelton-0.2.0.gem"],
                 commands
  end

  private

  def release = Gems::Release.new(@root)
  def problems = release.problems

  def write(path, text)
    FileUtils.mkdir_p(File.dirname("#{@root}/#{path}"))
    File.write("#{@root}/#{path}", text)
  end

  def git(*arguments)
    output, status = Open3.capture2e("git", *arguments, chdir: @root)
    assert_predicate status, :success?, output
    output
  end
end
