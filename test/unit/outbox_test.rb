# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing"
require "support/sqlite_tables"

# The outbox on SQLite, with a producer that sends nothing: what is written, sent, refused, held back and tried again.
class OutboxTest < Minitest::Test
  include SqliteTables

  # Answers as Kafka would: {id of a row's header or topic => error} of what it refuses.
  class Session
    attr_reader :batches

    def initialize(&refuses)
      @refuses = refuses
      @batches = []
    end

    def publish(rows)
      messages = rows.map(&:message)
      refused = rows.zip(messages).to_h { |row, message| [row, @refuses&.call(message, rows)] }.compact
      @batches << messages if refused.empty?
      refused
    end

    def payloads = @batches.flatten.map { |message| message[:payload] }
    def close = nil
  end

  def setup
    open_tables(timeout: 5_000)
    @before = Pelton.app
    @app = Pelton.app = Pelton::App.new
    @app.config.logger = nil
    @producer = @app.producer = Pelton::Testing::BufferedProducer.new
    @events = []
    Pelton::Events::TABLE.each_key do |name|
      @app.subscribe(name) { |event| @events << event } if name.start_with?("outbox.")
    end
  end

  def teardown
    return unless @folder

    Pelton.app = @before
    @producer.close
    close_tables
  end

  def row = Pelton::Outbox::Row
  def transaction(&block) = ActiveRecord::Base.transaction(&block)
  def write(**message) = transaction { Pelton::Outbox.produce(topic: "orders", payload: "x", **message) }
  def events(name) = @events.select { |event| event.name == "outbox.#{name}" }

  # Passes of the relay with this session, until it finds nothing to do.
  def relay(session, batch: 500)
    relay = Pelton::Outbox::Relay.new(@app, batch: batch, poll: 0.1)
    200.times { return if relay.send(:pass, session).zero? }
    flunk "the relay does not come to an end"
  end

  def refusal(name = :UNKNOWN_TOPIC_OR_PART) = Pelton::DeliveryError.new(3, name, "refused", false, false, "orders", 0)

  # --- writing ---

  def test_a_message_is_written_as_it_would_be_sent
    time = Time.at(1_700_000_000)
    headers = { "trace" => "42", "tags" => ["a", "\xFF".b], "empty" => "" }
    write(key: "\x00\xFF".b, payload: "\xFE\x00".b, headers: headers, timestamp: time, partition: 3)
    message = row.first.message
    assert_equal ["orders", "\x00\xFF".b, "\xFE\x00".b, 3, 1_700_000_000_000],
                 message.values_at(:topic, :key, :payload, :partition, :timestamp)
    assert_equal headers, message[:headers].except("pelton.id")
    assert_match(/\A\h{8}-/, message[:headers].fetch("pelton.id"))
  end

  def test_a_tombstone_keeps_its_nil
    write(key: "7", payload: nil)
    assert_nil row.first.message[:payload]
  end

  def test_the_timestamp_is_that_of_the_call
    before = (Time.now.to_f * 1000).floor
    write
    assert_includes before..(Time.now.to_f * 1000).ceil, row.first.message[:timestamp]
  end

  def test_a_rolled_back_transaction_leaves_no_row
    transaction do
      Pelton::Outbox.produce(topic: "orders", payload: "x")
      raise ActiveRecord::Rollback
    end
    assert_equal 0, row.count
  end

  def test_outside_of_a_transaction_nothing_is_written
    error = assert_raises(Pelton::OutboxTransactionError) { Pelton::Outbox.produce(topic: "orders", payload: "x") }
    assert_includes error.message, "Outbox.produce to orders was called outside of a database transaction"
    assert_equal ["orders", 0], [error.topic, row.count]
  end

  {
    { topic: "no spaces" } => "topic", { payload: 7 } => "payload", { key: :seven } => "key",
    { partition: -3 } => "partition", { partition_key: "" } => "partition_key", { headers: [] } => "headers",
    { timestamp: "now" } => "timestamp", { label: 1 } => "label", { colour: "red" } => "message"
  }.each do |wrong, key|
    define_method("test_a_wrong_#{wrong.keys.first}_is_refused_at_once") do
      error = assert_raises(Pelton::InvalidMessageError) { write(**wrong) }
      assert_equal key, error.key
      assert_equal 0, row.count
    end
  end

  def test_of_a_batch_with_a_wrong_message_none_is_written
    assert_raises(Pelton::InvalidMessageError) do
      transaction { Pelton::Outbox.produce_many([{ topic: "orders", payload: "a" }, { topic: "orders", payload: 1 }]) }
    end
    assert_equal 0, row.count
  end

  def test_keys_and_headers_keep_their_bytes
    bytes = "a\0\xFF#{"p" * 300}".b
    write(key: bytes, partition_key: bytes, headers: { "trace" => bytes })
    message = row.first.message
    assert_equal [bytes] * 3, [message[:key], message[:partition_key], message[:headers]["trace"]]
  end

  def test_middleware_runs_when_the_message_is_written
    @producer.middleware.append(->(message) { message.merge(headers: { "trace" => "7" }) })
    write
    assert_equal "7", row.first.message[:headers]["trace"]
  end

  # --- sending ---

  def test_rows_are_sent_in_order_with_their_ids_and_deleted
    transaction { Pelton::Outbox.produce_many(Array.new(5) { |i| { topic: "orders", key: "k", payload: i.to_s } }) }
    relay(session = Session.new, batch: 2)
    assert_equal %w[0 1 2 3 4], session.payloads
    assert_equal 5, session.batches.flatten.map { |message| message[:headers]["pelton.id"] }.uniq.size
    assert_equal 0, row.count
    assert_equal [2, 2, 1], events("published").map { |event| event[:count] }
  end

  def test_a_refused_row_holds_its_key_back_and_no_other
    %w[a b a c].each_with_index { |key, i| write(key: key, payload: "#{key}#{i}") }
    write(payload: "none")
    relay(session = Session.new { |message, _| refusal if message[:payload] == "a0" })
    assert_equal %w[b1 c3 none], session.payloads
    assert_equal %w[a0 a2], row.order(:id).map(&:payload)
    event = events("refused").first
    assert_equal ["orders", 1, 1], [event[:topic], event[:attempts], event[:due_in]]
    assert_includes row.first.error, "UNKNOWN_TOPIC_OR_PART"
  end

  def test_a_refused_row_is_tried_again_and_then_its_key_goes_on_in_order
    write(key: "a", payload: "1")
    write(key: "a", payload: "2")
    relay(Session.new { |message, _| refusal if message[:payload] == "1" })
    row.where("attempts > 0").update_all(retry_at: Time.now.utc - 1)
    relay(session = Session.new)
    assert_equal %w[1 2], session.payloads
  end

  def test_the_pause_before_a_refused_row_doubles_up_to_five_minutes
    write
    refused = row.first
    assert_equal [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300], Array.new(11) { refused.refuse(refusal) }
  end

  # Ten rows in one request: Kafka does not say which one is too large.
  def test_the_row_to_blame_for_a_refused_request_is_found
    10.times { |i| write(key: "k#{i}", payload: i.to_s) }
    relay(session = Session.new do |_, rows|
      refusal(:MSG_SIZE_TOO_LARGE) if rows.any? { |row| row.payload == "6" }
    end)
    assert_equal %w[0 1 2 3 4 5 7 8 9], session.payloads
    assert_equal ["6"], row.pluck(:payload)
    assert_operator row.first.attempts, :>=, 1 # once more after each second that this takes
  end

  def test_the_order_of_a_key_is_per_topic_and_a_partition_key_counts_as_the_key
    keys = [{ key: "a" }, { key: "a", topic: "paid" }, { key: "b", partition_key: "a" }, { partition: 1 }, {}]
    keys.each { |more| write(**more) }
    order = row.order(:id).pluck(:order_key)
    assert_equal [3, order[0], nil], [order.compact.uniq.size, order[2], order[4]]
  end

  def test_stats_count_rows_age_and_refused_ones
    assert_equal({ rows: 0, seconds: 0.0, refused: 0 }, Pelton::Outbox.stats)
    write
    row.update_all(created_at: Time.now.utc - 60)
    row.first.refuse(refusal)
    write
    stats = Pelton::Outbox.stats
    assert_equal [2, 1], stats.values_at(:rows, :refused)
    assert_includes 60..(60 + (60 * Guard::PATIENCE)), stats[:seconds]
  end

  def test_messages_that_wait_are_listed_oldest_first
    3.times { |i| write(key: "k", payload: i.to_s) }
    assert_equal [%w[orders k 0], %w[orders k 1]],
                 Pelton::Outbox.waiting(limit: 2).map { |message| message.values_at(:topic, :key, :payload) }
  end

  def test_refused_rows_are_listed_and_tried_again_or_deleted
    2.times { |i| write(key: "k", payload: i.to_s) }
    first, second = row.order(:id).to_a
    first.refuse(refusal)
    facts = Pelton::Outbox.refused
    assert_equal [[first.id, "orders", "k", 1]], facts.map { |fact| fact.values_at(:id, :topic, :key, :attempts) }
    assert_equal 1, Pelton::Outbox.retry_refused
    assert_equal [first.id, second.id], row.due(10).map(&:id)
    assert_equal [false, true, 1],
                 [Pelton::Outbox.delete_refused(second.id), Pelton::Outbox.delete_refused(first.id), row.count]
  end

  def test_wrong_options_of_the_relay_are_refused
    [{ batch: 0 }, { batch: "many" }, { poll: 0 }].each do |wrong|
      error = assert_raises(Pelton::ConfigError) { Pelton::Outbox.relay_with_server(**wrong) }
      assert_equal wrong.keys.first.to_s, error.key
    end
  end

  def test_a_session_that_cannot_begin_closes_its_producer
    closed = without_kafka do
      error = assert_raises(KeyError) { Pelton::Outbox::Session.new(@app, "id") }
      assert_equal "no Kafka", error.message
    end
    assert_equal [0], closed
  end

  # Rows waited, and no alert on their age fired: a relay measured only after Kafka had answered it.
  def test_the_outbox_is_measured_whenever_a_relay_begins_also_while_kafka_is_away
    write
    relay = Pelton::Outbox::Relay.new(@app, batch: 500, poll: 0.1)
    without_kafka { 2.times { assert_raises(KeyError) { relay.run(Pelton::Background::Stop.new) } } }
    assert_equal %w[outbox.relaying outbox.measured outbox.released] * 2, @events.map(&:name)
    assert_equal [1, 1], events("measured").map { |event| event[:rows] }
  end

  # Runs the block with a producer that gets no answer. Returns with which timeouts it was closed.
  def without_kafka
    closed = []
    producer = Object.new
    producer.define_singleton_method(:init_transactions) { raise KeyError, "no Kafka" }
    producer.define_singleton_method(:close) { |timeout:| closed << timeout }
    require "pelton/outbox/session"
    Pelton::Producer.define_singleton_method(:new) { |*, **| producer }
    yield
    closed
  ensure
    Pelton::Producer.singleton_class.remove_method(:new)
  end

  # --- the lock of a database without advisory locks ---

  def test_one_lease_at_a_time
    first, second = Array.new(2) { Pelton::Outbox::Locks.for(row.connection) }
    assert_equal [true, false, true], [first.acquire, second.acquire, first.held?]
    first.release
    assert_equal [true, false], [second.acquire, first.acquire]
  end

  def test_a_lease_that_was_not_renewed_is_taken_over
    first, second = Array.new(2) { Pelton::Outbox::Locks.for(row.connection) }
    assert first.acquire
    Pelton::Outbox::Locks::RelayRow.update_all(held_until: Time.now.utc - 1)
    assert second.acquire
    first.instance_variable_set(:@renewed, -Float::INFINITY)
    refute first.held?
  end

  def test_all_relays_have_one_transactional_id
    ids = Array.new(2) { Pelton::Outbox::Locks::RelayRow.only.transactional_id }
    assert_equal 1, ids.uniq.size
    assert_match(/\Apelton\.outbox\.\h{8}-/, ids.first)
  end
end
