# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "pelton/app"
require "pelton/web"

# Lags that are none, because only ends of transactions follow the commit: those of the dashboard here, those of the
# command line in groups_commands_test.rb. test/integration/web.rb reads real ones.
class MarkersTest < Minitest::Test
  Web = Pelton::Web
  PLACE = ["orders", 0].freeze

  def setup
    # What was read, and what the next reads find: {["orders", 0] => [last message, offset up to which it was read]}
    @reads = []
    @found = { PLACE => [nil, 43] }
    markers = Pelton::Offsets::Markers.new do |ranges|
      @reads << ranges
      @found.is_a?(Exception) ? raise(@found) : @found
    end
    @history = Web.const_get(:History).new(markers: markers) { :admin }
  end

  # A look at a partition of a group, or of several: {"billing" => 42}.
  def look(last, commits)
    commits = { "billing" => commits } unless commits.is_a?(Hash)
    groups = commits.to_h do |id, _|
      [id, Pelton::Admin::GroupDescription.new(id: id, state: :stable, type: :classic, assignor: "range",
                                               coordinator: 1, members: [])]
    end
    now = Web::Observation.new(cluster: nil, topics: {}, ends: { PLACE => last }, groups: groups,
                               commits: commits.transform_values { |commit| { PLACE => commit } })
    Web::Observation.stub(:take, now) { @history.look }
  end

  def seen = @history.instance_variable_get(:@observation)
  def lag(group = "billing") = seen.lag(group)

  def test_lags_of_one_to_twenty_messages_are_small_enough_to_be_read
    places = Array.new(5) { |number| ["orders", number] }
    ends = places.zip([42, 43, 62, 63, nil]).to_h.compact
    assert_equal [[places[1], 42, 43], [places[2], 42, 62]],
                 Pelton::Offsets::Markers.spans(places.to_h { |place| [place, 42] }, ends)
  end

  def test_a_marker_behind_the_commit_is_no_lag_and_is_read_once
    5.times do
      look(43, 42)
      assert_equal({ PLACE => 0 }, seen.lags("billing"), "from the first look on")
    end
    assert_equal 0, lag
    assert_equal [{ PLACE => 42...43 }], @reads
    assert_empty seen.problems
  end

  def test_a_lag_that_moved_since_the_last_look_is_not_read
    look(42, 42)
    look(43, 42)
    assert_equal [1, []], [lag, @reads], "it may move"
    look(43, 42)
    assert_equal [0, [{ PLACE => 42...43 }]], [lag, @reads]
  end

  def test_the_lag_is_back_when_a_message_follows_and_the_marker_counts_again
    2.times { look(43, 42) }
    look(44, 42)
    assert_equal 2, lag
    @found = { PLACE => [43, 44] }
    3.times { look(44, 42) }
    assert_equal 2, lag
  end

  def test_a_message_is_a_lag
    @found = { PLACE => [42, 43] }
    3.times { look(43, 42) }
    assert_equal 1, lag
    assert_equal 1, @reads.size
  end

  def test_each_group_has_its_own_commit
    @found = { PLACE => [41, 43] }
    2.times { look(43, "billing" => 42, "audit" => 40, "done" => 43) }

    assert_equal [0, 3, 0], %w[billing audit done].map { |group| lag(group) }
    assert_equal [{ PLACE => 40...43 }], @reads
  end

  # A follower may know less of the log, and time may run out.
  def test_a_log_that_was_not_read_to_the_known_end_keeps_its_lag
    [42, 43].each_with_index do |reached, index|
      @found = { PLACE => [nil, reached] }
      2.times { look(43 + index, 42 + index) }
      assert_equal 1, lag
    end
  end

  def test_a_partition_that_may_not_be_read_keeps_its_lag_and_is_not_read_again
    @found = Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED)
    3.times { look(43, 42) }
    assert_equal [1, 1], [lag, @reads.size]
  end

  def test_a_large_lag_is_not_read
    @found = { PLACE => [nil, 63] }
    2.times { look(63, 42) }
    assert_equal [21, []], [lag, @reads]
    2.times { look(63, 43) }
    assert_equal 0, lag
  end
end
