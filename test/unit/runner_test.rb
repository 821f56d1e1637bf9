# frozen_string_literal: true

require_relative "../test_helper"
require "open3"
require "rbconfig"

# bin/test fails when it has proved nothing.
class RunnerTest < Minitest::Test
  def test_a_run_in_which_everything_is_skipped_fails
    code, output = run_file("skipped")
    assert_equal 1, code
    assert_includes output, "skipped: AllSkipped#test_skipped: it cannot run here"
    assert_equal "0 passed, 1 failed, 1 skipped", output.lines.last.chomp
    assert_includes output, "failed: nothing passed"
  end

  def test_a_test_without_an_assertion_fails
    code, output = run_file("no_assertion")
    assert_equal 1, code
    assert_match(/NoAssertion#test_nothing .*\n.*this test asserts nothing/, output)
    assert_equal "2 passed, 1 failed, 0 skipped", output.lines.last.chomp
  end

  private

  # The exit code and the output of `bin/test test/support/runner/NAME.rb`.
  def run_file(name)
    output, status = Open3.capture2e(RbConfig.ruby, "-W0", "test/run.rb", "test/support/runner/#{name}_test.rb",
                                     chdir: Guard::ROOT)
    [status.exitstatus, output]
  end
end
