# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "pelton/cli/commands/groups/group_positions"
require "support/admin_kit"
require "support/fake_groups"

# What `pelton groups` and `pelton top` call lag: offsets that are messages. (With a real transaction:
# test/integration/groups_commands.rb.)
class GroupPositionsTest < Minitest::Test
  include AdminKit

  def setup
    super
    @kafka = Fakes::Groups.new
    @answers.merge!(@kafka.answers)
    app = Pelton::App.new(native: @module)
    @positions = Pelton::CLI::Commands::GroupPositions.new(app, timeout: 30)
    # What was read. Of these partitions, the last message: {["orders", 0] => 41}; elsewhere there is none.
    @reads = []
    @messages = {}
  end

  # The lags of a group, in the order of its partitions.
  def lags(id = "billing")
    read = lambda do |_, ranges|
      @reads << ranges
      ranges.to_h { |place, range| [place, [@messages[place], range.end]] }
    end
    Pelton::Offsets::Markers.stub(:read, read) { @positions.of([id]) }.fetch(id).values.map(&:lag)
  end

  def billing(end_, commit)
    @kafka.logs[["orders", 0]] = 0..end_
    @kafka.commits["billing"] = { ["orders", 0] => [commit, ""] }
  end

  def test_the_end_of_a_transaction_behind_the_commit_is_no_lag
    billing(43, 42)
    assert_equal [[0], [{ ["orders", 0] => 42...43 }]], [lags, @reads]
  end

  def test_a_group_that_may_not_be_described_is_an_error_unless_refusals_are_collected
    refused = Pelton::KafkaError.new(30, :GROUP_AUTHORIZATION_FAILED, "no")
    admin = Object.new
    admin.define_singleton_method(:group_commits) { |id, **| id == "audit" ? raise(refused) : {} }
    admin.define_singleton_method(:offsets) { |*, **| {} }
    @positions.instance_variable_set(:@admin, admin)
    assert_same refused, assert_raises(Pelton::KafkaError) { @positions.of(%w[audit billing]) }
    assert_equal [{ "billing" => {} }, { "audit" => refused }],
                 {}.then { |errors| [@positions.of(%w[audit billing], refused: errors), errors] }
  end

  def test_a_message_behind_the_commit_is_a_lag
    billing(43, 41)
    @messages[["orders", 0]] = 41
    assert_equal [2], lags
  end

  def test_a_large_lag_is_not_read
    billing(63, 42)
    assert_equal [[21], []], [lags, @reads]
  end

  def test_again_and_again_only_a_lag_that_did_not_move_is_read
    billing(43, 43)
    lags
    billing(44, 43)
    assert_equal [[1], [0], [0], 1], [lags, lags, lags, @reads.size]
  end

  def test_more_small_lags_than_are_read_at_a_time
    places = Array.new(150) { |number| ["orders", number] }
    places.each { |place| @kafka.logs[place] = 0..3 }
    @kafka.commits["billing"] = places.to_h { |place| [place, [2, ""]] }
    assert_equal [[0] * 150, [100, 50]], [lags, @reads.map(&:size)]
  end
end
