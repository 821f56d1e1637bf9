# frozen_string_literal: true

require "test_helper"
require "support/ledger"
require "tempfile"

# The checker behind the fault scenarios, with made-up stories.
class LedgerTest < Minitest::Test
  # story: "a0 a1 b1": owner a processed 0 and 1, then owner b 1 again; all of one key.
  def report(count, story)
    Tempfile.create("ledger") do |file|
      ledger = Ledger.new(file.path)
      story.scan(/([a-z])(\d+)/) { |owner, number| ledger.processed(owner, "k", Integer(number)) }
      ledger.report("k" => count)
    end
  end

  def assert_right(count, story, duplicates: 0, again: 0)
    found = report(count, story)
    assert_equal [[], duplicates, again], [found.problems, found.duplicates, found.again], story
  end

  def assert_wrong(problems, count, story) = assert_equal(problems, report(count, story).problems, story)

  def test_each_once_in_order
    assert_right 3, "a0 a1 a2"
    assert_right 3, "a0 b1 a2"
    assert_right 0, ""
    assert_equal "3 messages, 3 times processed, 0 of them again (0 times gone back), 0 problems",
                 report(3, "a0 a1 a2").to_s
  end

  def test_repetitions_are_counted
    assert_right 3, "a0 a1 a0 a1 a2", duplicates: 2, again: 1
    assert_right 3, "a0 a0 a0 a1 a2", duplicates: 2, again: 2
    assert_right 4, "a0 a1 a2 b1 b2 b3", duplicates: 2, again: 1
    # One that was frozen goes on beside its successor.
    assert_right 5, "a0 a1 b0 b1 b2 b3 a2 b4 a3", duplicates: 4, again: 1
    assert_right 5, "a0 b1 b2 a3 a4"
  end

  def test_losses
    assert_wrong ["k: lost 2"], 3, "a0 a1"
    assert_wrong ["k: lost 0..4"], 5, ""
    assert_wrong ["k: a did 2 before 1", "k: lost 1"], 3, "a0 a2"
    assert_wrong ["k: b did 3 before 2", "k: lost 2, 4..5"], 6, "a0 a1 b3"
  end

  def test_disorder
    assert_wrong ["k: a did 2 before 1"], 3, "a0 a2 a1"
    assert_wrong ["k: b did 1 before 0"], 2, "b1 a0"
    assert_wrong ["k: b did 2 before 1"], 3, "a0 b2 b1"
  end

  def test_rewind_counts_everything_as_repeated
    assert_wrong ["k: a did 3 before 2"], 4, "a0 a1 a2 a1 a3"
    assert_wrong ["k: b did 2 before 1"], 3, "a0 a1 a2 b0 b2"
  end

  def test_consumed_message_that_was_never_produced_is_reported
    assert_wrong ["k: 3 was never produced"], 3, "a0 a1 a2 a3"
    Tempfile.create("ledger") do |file|
      ledger = Ledger.new(file.path)
      ledger.processed("a", "other", 0)
      assert_equal ["other: 0 was never produced"], ledger.report({}).problems
    end
  end

  def test_keys_are_stories_of_their_own
    Tempfile.create("ledger") do |file|
      ledger = Ledger.new(file.path)
      [["a", "x", 0], ["a", "y", 0], ["b", "x", 1], ["a", "y", 1]].each { |row| ledger.processed(*row) }
      assert_empty ledger.report("x" => 2, "y" => 2).problems
      assert_equal ["x: lost 2", "z: lost 0"], ledger.report("x" => 3, "y" => 2, "z" => 1).problems
    end
  end

  # A process that is killed in the middle of a line, and rows of several processes.
  def test_only_whole_lines_count
    Tempfile.create("ledger") do |file|
      ledger = Ledger.new(file.path)
      pids = Array.new(2) do |index|
        fork do
          Ledger.new(file.path).then { |mine| 200.times { |number| mine.processed("c#{index}", "k#{index}", number) } }
          exit!(0)
        end
      end
      pids.each { |pid| Process.wait(pid) }
      File.write(file.path, '["a","k0",2', mode: "a")
      assert_empty ledger.report("k0" => 200, "k1" => 200).problems
      File.write(file.path, "00]\n", mode: "a")
      assert_empty ledger.report("k0" => 201, "k1" => 200).problems
    end
  end
end
