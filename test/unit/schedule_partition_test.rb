# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"
require "pelton/schedule/partition"

# What an owner of a partition of the schedule writes after it has read the log; on the fake native side.
class SchedulePartitionTest < Minitest::Test
  include FakeTransactions

  def setup
    super
    @native.prepare = method(:refuse)
    @offset = -1
    @partition = partition(0)
  end

  # log_end: the end of the log when it became the owner.
  def partition(log_end)
    Pelton::Schedule::Partition.new("sched", 2, @config, bus: @bus, native: @module) { log_end }
  end

  def teardown
    @partition.close
    super
  end

  # Kafka's answers to records with these payloads, and to all that are with them in a transaction.
  REFUSALS = { "huge" => Pelton::KafkaError.new(10, :MSG_SIZE_TOO_LARGE, "too large"),
               "theirs" => Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "no right") }.freeze

  def refuse(native)
    native.define_singleton_method(:produce_many) do |rows, timeout|
      refused = rows.filter_map { |row| REFUSALS[row[:payload]] }.first
      refused ? raise(refused) : super(rows, timeout)
    end
  end

  def entry(id, payload, **more)
    Pelton::Schedule::ScheduledMessage.new(**{ id: id, at_ms: 1, topic: "mails", payload: payload,
                                               schedule_partition: 2, **more })
  end

  # Records of the log, in order.
  def read(*rows)
    @partition.take(rows.map do |row|
      Fakes::Message.new("sched", 2, @offset += 1, row[:payload], key: row[:key], headers: row[:headers].to_h)
    end)
  end

  def add(payload, id = "a", **more) = entry(id, payload, **more).record("sched")
  def sent(offset, id = "a") = entry(id, "", offset: offset).tombstone("sched")
  def cancel = { key: "a", payload: nil }

  # Payloads that the next transaction writes; nil is a tombstone.
  def written
    @partition.read_to(@offset + 1)
    @partition.promote
    @native.producers.flat_map(&:committed)
  end

  def test_a_hidden_entry_is_written_again
    read(add("old"), add("new"), sent(0))
    assert_equal ["new"], written
  end

  # As long as Kafka has not compacted the log, each new owner reads all of this.
  def test_an_entry_that_an_earlier_owner_wrote_again_and_sent_is_not_sent_twice
    read(add("old"), add("new"), sent(0), add("new"), sent(3))
    assert_empty written
    assert_nil @partition.next_at
  end

  def test_an_entry_that_was_canceled_before_it_was_written_again_stays_canceled
    read(add("old"), add("new"), sent(0), cancel)
    assert_empty written
  end

  # Its tombstone would end what was scheduled after it.
  def test_a_late_reschedule_does_not_end_a_later_entry
    read(add("old"), sent(0), add("late", moved: 0), add("new"))
    assert_equal ["new", nil], written
  end

  # A log to which others write all the time has no end that a reader reaches.
  def test_a_log_that_never_ends_does_not_hold_messages_back
    @partition.close
    @partition = partition(3)
    read(add("a", "a"), add("b", "b"))
    @partition.promote
    assert_empty @native.producers.flat_map(&:committed), "it may end in the rest of the log"
    read(cancel, add("c", "c"))
    @partition.promote
    assert_equal ["b", nil, "c", nil], @native.producers.flat_map(&:committed)
  end

  # Such a record is no message for a reader.
  def test_a_log_that_ends_with_the_marker_of_a_transaction_is_read_to_its_end
    @partition.close
    @partition = partition(2)
    read(add("a"))
    assert_nil @partition.next_at
    @partition.read_to(2)
    assert_equal 1, @partition.next_at
  end

  def test_a_message_for_a_topic_that_the_app_may_not_write_to_waits_and_stops_no_other
    errors = []
    @bus.subscribe("error.occurred") { |event| errors << event[:error].message }
    read(add("theirs"), add("due", "c"))

    assert_equal ["due", nil], written
    assert_match(/a\b.*mails.*TOPIC_AUTHORIZATION_FAILED.*60/, errors.join)
    assert_operator @partition.next_at, :>, Pelton::Clock.wall * 1000, "it is tried again"
  end

  def test_a_message_that_its_topic_cannot_have_waits_and_stops_no_other
    errors = []
    @bus.subscribe("error.occurred") { |event| errors << event[:error].message }
    missing = Pelton::DeliveryError.new(3, :UNKNOWN_TOPIC_OR_PART, "no such topic", false, false, "gone")
    @native.producers.each { |producer| producer.on_count = ->(topic) { topic == "gone" ? missing : 4 } }
    read(entry("a", "1", topic: "gone").record("sched"), entry("b", "2", partition: 4).record("sched"),
         entry("c", "3", partition: 3).record("sched"))
    assert_equal ["3", nil], written
    assert_match(/a\b.*no such topic/, errors[0])
    assert_match(/b\b.*it is for partition 4, and mails has 4/, errors[1])
    assert_operator @partition.next_at, :>, Pelton::Clock.wall * 1000, "they are tried again"
  end

  # Its delivery says only that the message was dropped with the transaction.
  def test_a_message_whose_commit_is_refused_waits_with_the_reason_of_the_commit
    errors = []
    @bus.subscribe("error.occurred") { |event| errors << event[:error].message }
    dropped = Pelton::DeliveryError.new(-152, :_PURGE_QUEUE, "purged", false, false, "mails")
    @native.producers.each do |producer|
      producer.on_send = ->(_, delivery) { delivery.define_singleton_method(:wait) { |**| raise dropped } }
      producer.on_step = ->(name, _) { raise REFUSALS["huge"] if name == :commit }
    end
    read(add("late"))
    assert_empty written
    assert_match(/a\b.*MSG_SIZE_TOO_LARGE/, errors.join)
    assert_operator @partition.next_at, :>, Pelton::Clock.wall * 1000
  end

  # Somebody wrote to the topic of the schedule.
  def test_a_record_that_is_no_entry_is_reported_with_its_place_and_stops_no_other
    errors = []
    @bus.subscribe("error.occurred") { |event| errors << [event[:error].id, event[:error].message] }
    read({ key: "a", payload: "x" }, add("due", "c"))
    assert_equal [["due", nil], ["a"]], [written, errors.map(&:first)]
    assert_includes errors[0][1], "sched/2 offset 0"
  end

  def test_a_partition_whose_end_is_unknown_leaves_no_producer_open
    error = Pelton::KafkaError.new(-185, :_TIMED_OUT, "late")
    assert_same error, (assert_raises(Pelton::KafkaError) do
      Pelton::Schedule::Partition.new("sched", 3, @config, bus: @bus, native: @module) { raise error }
    end)
    assert_equal [true, false], @native.producers.map(&:connected?)
  end

  def test_a_record_that_is_refused_is_reported_and_stops_no_other
    errors = []
    @bus.subscribe("error.occurred") { |event| errors << event[:error].id }
    read(add("old"), add("huge"), sent(0), add("old", "b"), add("new", "b"), sent(3, "b"),
         add("due", "c"))
    assert_equal [["new", "due", nil], ["a"]], [written, errors]
    assert_nil @partition.next_at
  end
end
