# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"
require "support/fake_messages"
require "pelton/schedule"

# The entries of the schedule, as the records of its topic say. Each message is sent once, in whatever order its
# records, cancels and reschedules come.
class ScheduleIndexTest < Minitest::Test
  def setup
    @index = Pelton::Schedule::Index.new
    @offset = -1
  end

  def entry(id, at_ms, **more)
    Pelton::Schedule::ScheduledMessage.new(id: id, at_ms: at_ms, topic: "mails", payload: "p",
                                           schedule_partition: 2, **more)
  end

  # Takes a record that a producer would send, at the next offset. Returns what its log needs.
  def read(row)
    headers = row[:headers].to_h
    @index.read(Fakes::Message.new("sched", 2, @offset += 1, row[:payload], key: row[:key], headers: headers))
  end

  def add(id, at_ms, **more) = read(entry(id, at_ms, **more).record("sched"))
  def cancel(id) = read({ key: id, payload: nil })
  def sent(id, offset) = read(entry(id, 0, offset: offset).tombstone("sched"))
  def move(id, at_ms, from) = add(id, at_ms, moved: from)

  def take_all(now = 10**15)
    found = []
    while (entry = @index.take(now))
      found << entry.id
      @index.delete(entry.id)
    end
    found
  end

  def test_entries_are_due_in_order_of_time_then_of_scheduling
    numbers = Array.new(2_000) { rand(1..300) }
    numbers.each_with_index { |at, number| add("id#{number}", at) }
    expected = numbers.each_with_index.sort_by { |at, number| [at, number] }.map { |_, number| "id#{number}" }
    assert_equal 2_000, @index.size
    assert_equal numbers.min, @index.next_at
    assert_equal expected, take_all
    assert_nil @index.next_at
  end

  def test_nothing_is_taken_before_its_time
    add("a", 1_000)
    assert_nil @index.take(999)
    assert_equal "a", @index.take(1_000).id
  end

  def test_an_entry_comes_back_with_all_its_values
    values = { payload: "\xFF\x00".b, key: "k\xC3\xA9", headers: { "a" => "1", "b" => ["2", nil] }, partition: 7,
               partition_key: "x" }
    row = entry("idé", 1_795_000_000_123, **values).record("sched")
    read(row)
    found = @index["idé"]
    assert_equal values, found.to_h.slice(*values.keys)
    assert_equal [0, 2, 1_795_000_000_123], [found.offset, row[:partition], found.at_ms]
    assert_equal Time.at(1_795_000_000, 123, :millisecond), found.at
    assert_equal ["idé"], take_all
  end

  def test_an_entry_may_have_no_payload_or_an_empty_one
    add("none", 1, payload: nil)
    add("empty", 2, payload: "")
    assert_equal [nil, ""], [@index.take(5).message[:payload], @index.take(5).message[:payload]]
  end

  def test_a_sent_message_names_its_entry_and_keeps_its_headers
    message = entry("a", 1_000, headers: { "trace" => "42" }, key: "7").message
    headers = { "trace" => "42", "pelton-scheduled-id" => "a", "pelton-scheduled-at" => "1000" }
    assert_equal({ topic: "mails", key: "7", payload: "p", headers: headers }, message)
  end

  def test_canceled_entry_is_gone
    add("a", 1)
    add("b", 2)
    assert_nil cancel("a")
    assert_equal ["b"], take_all
  end

  def test_entry_with_a_known_id_replaces_the_first
    add("a", 1)
    add("a", 9)
    assert_equal 9, @index.next_at
    assert_equal ["a"], take_all
  end

  def test_rescheduled_entry_is_due_once
    add("a", 1)
    assert_nil move("a", 7, 0)
    assert_equal 7, @index.next_at
    assert_equal ["a"], take_all
  end

  # The server sent the message, then it read the reschedule, which was written before the tombstone.
  def test_a_reschedule_that_came_too_late_does_not_send_twice
    @index.loaded
    add("a", 1)
    assert_equal ["a"], take_all
    assert_equal :end, move("a", 9, 0).first
    assert_nil sent("a", 0)
    assert_empty take_all
  end

  # The reschedule was written after the tombstone.
  def test_a_reschedule_after_the_sending_does_not_send_twice
    @index.loaded
    add("a", 1)
    take_all
    sent("a", 0)
    assert_equal [:end, 2], move("a", 9, 0).then { |needed, entry| [needed, entry.offset] }
    assert_empty take_all
  end

  def test_a_new_server_finds_both_races_in_the_log
    add("a", 1)
    move("a", 9, 0)
    sent("a", 0)
    add("b", 1)
    sent("b", 3)
    assert_equal :end, move("b", 9, 3).first
    assert_empty take_all
  end

  def test_a_reschedule_whose_first_record_was_compacted_away_counts
    assert_nil move("a", 9, 0)
    assert_equal ["a"], take_all
  end

  # A new entry with the id of one that was sent at this moment: the tombstone is after it and would hide it for ever.
  def test_a_new_entry_is_not_lost_to_the_tombstone_of_the_one_before
    @index.loaded
    add("a", 1)
    take_all
    add("a", 9)
    needed, again = sent("a", 0)
    assert_equal [:again, "a", 9], [needed, again.id, again.at_ms]
    assert_empty take_all, "it waits until its new record is read"
    assert_nil read(again.record("sched"))
    assert_equal ["a"], take_all
  end

  # The reschedule was written after the tombstone, and before the entry was written again.
  def test_a_reschedule_of_an_entry_that_waits_to_be_written_again_counts
    @index.loaded
    add("a", 1)
    take_all
    add("a", 9)
    assert_equal :again, sent("a", 0).first
    assert_nil move("a", 12, 1)
    assert_equal 12, @index.next_at
    assert_equal ["a"], take_all
  end

  def test_a_user_cancels_whatever_waits
    add("a", 1)
    move("a", 5, 0)
    cancel("a")
    assert_empty take_all
  end

  def test_a_foreign_record_is_named
    foreign = [{ key: nil, payload: "x" }, { key: "k", payload: "x" },
               { key: "k", payload: "x", headers: { "pelton-schedule-at" => "soon", "pelton-schedule-topic" => "t" } },
               { key: "k", payload: "x", headers: { "pelton-schedule-at" => "12" } }]
    [{ "at" => "-1" }, { "at" => (2**64).to_s }, { "at" => %w[1 2] }, { "partition" => %w[1 2] }].each do |own|
      headers = { "at" => "5", "topic" => "t", **own }.transform_keys { |name| "pelton-schedule-#{name}" }
      foreign << { key: "k", payload: "x", headers: headers }
    end
    assert_equal [:foreign] * 8, foreign.map { |row| read(row) }
    assert_equal 0, @index.size
  end

  def test_deferred_entry_keeps_its_time
    add("a", 1)
    add("b", 2)
    @index.defer(@index.take(1), 50)
    assert_equal "b", @index.take(40).id
    @index.delete("b")
    assert_nil @index.take(49)
    assert_equal 1, @index.take(50).at_ms
  end

  def test_an_entry_that_was_taken_is_not_taken_again_while_others_are_deferred
    add("a", 1)
    add("b", 2, payload: "x" * 1_000)
    assert_equal "a", @index.take(5).id
    taken = Array.new(1_200) { @index.take(5).tap { |entry| @index.defer(entry, 3) }.id }
    assert_equal ["b"], taken.uniq
  end

  def test_entries_whose_ids_have_one_hash_stay_apart
    same = Class.new(Pelton::Schedule::PackedEntries) { define_method(:hash_of) { |_| 1 } }
    @index.instance_variable_set(:@entries, same.new)
    %w[a b c].each_with_index { |id, number| add(id, number) }
    cancel("b")
    add("c", 0)
    assert_equal [0, nil, 0, nil], %w[a b c d].map { |id| @index[id]&.at_ms }
    assert_equal %w[a c], @index.map(&:id)
    assert_equal %w[a c], take_all
    assert_equal 0, @index.size
  end
end
