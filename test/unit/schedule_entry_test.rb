# frozen_string_literal: true

require_relative "../test_helper"
require "date"
require "pelton/schedule"

# When entries are due, and their ids.
class ScheduleEntryTest < Minitest::Test
  ScheduledMessage = Pelton::Schedule::ScheduledMessage
  Ids = Pelton::Schedule::Ids

  # The producer's numbers of partitions: a key's first byte chooses.
  class Partitions
    def choose(_partitioner, _topic, key, _timeout) = key.getbyte(0) % 3
  end

  def refused(key, &block)
    error = assert_raises(Pelton::InvalidMessageError, &block)
    assert_equal key, error.key
    error.message
  end

  def test_due_time_is_rounded_up_to_milliseconds
    assert_equal 1_001, ScheduledMessage.due(Time.at(1, 300, :microsecond), nil)
    assert_equal 1_000, ScheduledMessage.due(Time.at(1), nil)
    assert_equal 86_400_000, ScheduledMessage.due(DateTime.new(1970, 1, 2), nil)
    now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
    assert_includes (now + 1_500)..(now + 60_000), ScheduledMessage.due(nil, 1.5)
    assert_operator ScheduledMessage.due(nil, 0), :>=, now
  end

  def test_times_that_are_no_times_are_refused
    far = Time.now + (11 * 366 * 86_400)
    [nil, 5, "tomorrow", far, Time.at(-5), Time.at(0)].each do |at|
      assert_includes refused("at") { ScheduledMessage.due(at, nil) }, "expected a Time"
    end
    [-1, "5", Float::NAN, Float::INFINITY, 1_795_000_000_000, Complex(1, 1)].each do |seconds|
      assert_includes refused("in") { ScheduledMessage.due(nil, seconds) }, "expected a number of seconds"
    end
    assert_includes refused("at") { ScheduledMessage.due(Time.now, 5) }, "`in` is given"
  end

  def test_ids_of_one_key_name_one_partition
    ids = Array.new(20) { Ids.assign(nil, { topic: "t", key: "b" }, Partitions.new, "sched", 1) }
    assert_equal [98 % 3], ids.map(&:last).uniq
    assert_equal 20, ids.map(&:first).uniq.size
    ids.each { |id, place| assert_equal place, Ids.partition(id, Partitions.new, "sched", 1) }
    assert_equal [99 % 3, 116 % 3],
                 [{ key: "b", partition_key: "c" }, { partition: 4 }]
                   .map { |options| Ids.assign(nil, { topic: "t", **options }, Partitions.new, "sched", 1).last }
  end

  def test_partition_in_an_id_counts_also_after_the_topic_grew
    assert_equal 17, Ids.partition("@17.abc", Partitions.new, "sched", 1)
    assert_equal "a".ord % 3, Ids.partition("a@17.abc", Partitions.new, "sched", 1)
  end

  def test_ids_that_users_may_not_choose
    ["", "@x", "x" * 201, 7, :a, "\xFF"].each { |id| refused("id") { Ids.check(id) } }
    assert_equal "é", Ids.check("é".encode(Encoding::ISO_8859_1))
  end
end
