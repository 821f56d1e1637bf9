# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing"
require "support/sqlite_tables"

# The inbox on SQLite: what counts as the same place, what is rolled back, and what is forgotten.
class InboxTest < Minitest::Test
  include SqliteTables

  # What was done.
  class Work < ActiveRecord::Base; end if defined?(ActiveRecord::Base)

  def setup
    open_tables("inbox")
    ActiveRecord::Base.connection.create_table(:works) { |t| t.string :text }
    Work.reset_column_information
  end

  def teardown = close_tables

  def place(topic: "orders", partition: 0, offset: 7, headers: {})
    Pelton::Testing::Message.new(topic, partition, offset, nil, nil, headers, 0)
  end

  def once(message, text = "done", group: "billing", &block)
    block ||= -> { Work.create!(text: text) }
    Pelton::Inbox.processed_once(message, group: group, &block)
  end

  def done = Work.order(:id).pluck(:text)

  def test_a_message_is_processed_once_per_group
    assert_equal [true, false, true], [once(place), once(place), once(place, group: "audit")]
    assert_equal 2, done.size
  end

  def test_other_messages_are_others
    [place, place(offset: 8), place(partition: 1), place(topic: "paid")].each { |message| assert once(message) }
  end

  def test_an_error_rolls_back_the_work_and_the_memory
    assert_raises(KeyError) { once(place) { Work.create!(text: "half") && raise(KeyError) } }
    assert_empty done
    assert once(place)
  end

  def test_a_rollback_is_neither_done_nor_remembered
    assert_nil(once(place) { Work.create!(text: "half") && raise(ActiveRecord::Rollback) })
    assert_equal [true, ["done"]], [once(place), done]
  end

  def test_the_memory_joins_an_open_transaction
    Work.transaction do
      assert once(place)
      raise ActiveRecord::Rollback
    end
    assert_empty done
    assert once(place)
  end

  def test_in_an_open_transaction_what_the_block_rolls_back_is_not_remembered
    Work.transaction do
      assert_nil(once(place) { Work.create!(text: "half") && raise(ActiveRecord::Rollback) })
      assert_raises(KeyError) { once(place(offset: 8)) { Work.create!(text: "half") && raise(KeyError) } }
    end
    assert_equal [true, true], [once(place), once(place(offset: 8))]
    assert_equal %w[done done], done
  end

  def test_a_message_sent_twice_by_the_outbox_is_the_same
    twice = Array.new(2) { |i| place(offset: i, headers: { "pelton.id" => "a-b-c" }) }
    assert_equal [true, false], twice.map { |message| once(message) }
    assert once(place(topic: "elsewhere", headers: { "pelton.id" => "a-b-c" })), "forwarded to another topic"
  end

  def test_a_copy_from_a_retry_topic_or_the_dead_letters_is_the_same
    copied = { "pelton.topic" => "orders", "pelton.partition" => "0", "pelton.offset" => "7", "pelton.attempts" => "1" }
    assert once(place)
    refute once(place(topic: "orders.retry.60", offset: 99, headers: copied))
  end

  def test_any_id_fits_into_the_table
    ["\xFF\x00".b, "x" * 10_000, "a\nb", "", ["first", "second"]].each_with_index do |id, i|
      message = place(offset: i, headers: { "pelton.id" => id })
      assert_equal [true, false], [once(message), once(message)], id.inspect
    end
    longest = place(topic: "t" * 249, partition: (2**31) - 1, offset: (2**63) - 1)
    assert_operator Pelton::Inbox::Row.identity(longest).size, :<=, 320
  end

  # MySQL may compare without case, accents and spaces at the end; and an id is no place.
  def test_ids_that_a_database_may_confuse_differ
    ids = ["a", "A", "a ", "\u00e1", "0/7"].map do |id|
      Pelton::Inbox::Row.identity(place(headers: { "pelton.id" => id }))
    end
    assert_equal 5, ids.uniq(&:downcase).size
    assert_equal "orders/a", ids.first
    refute_equal Pelton::Inbox::Row.identity(place), ids.last
    ids.each { |id| assert_match(%r{\Aorders/[a-z0-9]+\z}, id) }
  end

  # The seconds that a server waits before each pruning, and how many rows there are then. It stops in the fourth wait.
  def waits_of_a_server(older_than: 60)
    app = Object.new
    options = work = nil
    app.define_singleton_method(:background) do |*, **given, &block|
      options = given
      work = block
    end
    Pelton::Inbox.prune_with_server(app: app, older_than: older_than)
    assert_equal({ restart: true }, options)
    waits = []
    stop = Object.new
    stop.define_singleton_method(:wait) { |seconds| (waits << [seconds, Pelton::Inbox::Row.count]).size > 3 }
    work.call(stop)
    waits
  end

  def test_a_server_forgets_old_messages_soon_after_its_start_and_each_hour_until_it_stops
    2.times { |offset| once(place(offset: offset)) }
    Pelton::Inbox::Row.order(:id).first.update!(created_at: Time.now.utc - 61)
    waits = waits_of_a_server
    assert_includes 60..300, waits[0][0]
    assert_equal [3600] * 3, waits.drop(1).map(&:first)
    assert_equal [2, 1, 1, 1], waits.map(&:last)
  end

  # So many servers that start together do not delete the same rows at once.
  def test_servers_that_start_together_begin_to_forget_at_different_times
    firsts = Array.new(5) { waits_of_a_server[0][0] }
    assert_equal firsts, firsts.uniq
  end

  def test_a_block_is_needed
    error = assert_raises(Pelton::ConfigError) { Pelton::Inbox.processed_once(place, group: "billing") }
    assert_equal "processed_once", error.key
  end

  def test_pruning_deletes_what_is_older
    3.times { |i| once(place(offset: i)) }
    Pelton::Inbox::Row.order(:id).limit(2).update_all(created_at: Time.now.utc - 3600)
    assert_equal [0, 2, 1], [Pelton::Inbox.prune(older_than: 7200), Pelton::Inbox.prune(older_than: 1800),
                             Pelton::Inbox::Row.count]
    assert_equal [true, false], [once(place(offset: 0)), once(place(offset: 2))]
  end

  def test_a_wrong_age_is_refused
    [0, -1, "long", nil].each do |wrong|
      error = assert_raises(Pelton::ConfigError) { Pelton::Inbox.prune(older_than: wrong) }
      assert_equal "older_than", error.key
      assert_raises(Pelton::ConfigError) { Pelton::Inbox.prune_with_server(older_than: wrong) }
    end
  end
end
