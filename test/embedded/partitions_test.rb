# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"

# `partitions` in routes: read without the group's coordination.
class PartitionsTest < Minitest::Test
  include EmbeddedApp

  def test_servers_with_chosen_partitions_read_only_those_and_continue_after_a_restart
    name = topic(4)
    4.times { |partition| produce(app, name, %w[a b c], partition: partition) }
    seen = collector
    first = app(group: "told") { topic(name, to: seen) { partitions 0..1 } }
    second = app(group: "told") { topic(name, to: seen) { partitions [3] } }
    [first, second].each(&:start)
    assert_equal [0, 1, 3].product([0, 1, 2]), take(9).map { |partition, offset,| [partition, offset] }.sort
    assert_equal [[name, 0], [name, 1], [name, 3]], assigned.sort
    assert_equal [true, true], [first, second].map(&:stop)
    again = app(group: "told") { topic(name, to: seen) { partitions 1..3 } }
    again.start
    assert_equal [[2, 0], [2, 1], [2, 2]], take(3).map { |partition, offset,| [partition, offset] }
    produce(again, name, %w[d], partition: 1)
    assert_equal [1, 3, "d"], take(1).first
    assert_equal true, again.stop
    assert_empty @seen
    assert_empty happened("partition.revoked")
    assert_empty errors
  end

  def test_missing_chosen_partition_is_reported
    name = topic
    produce(app, name, %w[a])
    seen = collector
    app { topic(name, to: seen) { partitions [0, 7] } }.start
    assert_equal [0, 0, "a"], take(1).first
    # librdkafka tells of it in its own words, before or after ours.
    text = "topic #{name}: partitions = [7]: does not exist, there are 0 to 0"
    eventually(20) { errors.any? { |error| error.message.include?(text) } }
  end

  private

  def assigned = happened("partition.assigned").map { |payload| payload.values_at(:topic, :partition) }
end
