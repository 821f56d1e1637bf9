# frozen_string_literal: true

require_relative "../test_helper"
require "support/fake_transactional"
require "pelton/dead_letters"

# The right to redrive letters: when it is taken, what ends it, and what happens to records of letters that are gone.
class DeadLettersSessionTest < Minitest::Test
  include FakeTransactions

  # What the session asks about topics.
  class Topics
    attr_reader :asked
    attr_writer :oldest

    def initialize(steps)
      @steps = steps
      @asked = []
      @oldest = {}
    end

    def create_status_topic(topic) = @steps << [:create, topic]
    def oldest(_topic) = @oldest
    def await_visible(*place) = @asked << place
  end

  def setup
    super
    @steps = []
    @topics = Topics.new(@steps)
    # Messages of the status topic, one more Array for each time that it is read.
    @logs = [[]]
    @native.prepare = lambda do |made|
      made.on_step = ->(name, count) { @steps << name if name == :begin && count == 1 }
    end
  end

  def teardown
    @session&.close
    super
  end

  def session
    @session ||= Pelton::DeadLetters::Session.new("dead", @config, @topics, bus: @bus, native: @module,
                                                                            kafka: { "acks" => 1 }) do
      @steps << :read
      Pelton::DeadLetters::StatusLog.new(@logs.size > 1 ? @logs.shift : @logs.first)
    end
  end

  def record(place) = Fakes::Message.new("dead.status", 0, 0, "{}", key: place)
  def row(key = "0/0") = { topic: "dead.status", key: key, payload: "{}" }

  # Otherwise another run could record something between the reading and the fence.
  def test_log_is_read_after_the_fence
    session.start
    assert_equal [[:create, "dead"], :begin, :read], @steps
    assert_equal [["pelton.dead-letters.dead", "all", "true"]],
                 (@native.producers.map do |producer|
                    producer.config.values_at("transactional.id", "acks", "enable.idempotence")
                  end)
  end

  def test_messages_of_a_commit_are_one_transaction_and_readers_are_awaited
    session.start
    session.await_readers
    assert_empty @topics.asked, "nothing was committed"
    @native.producers.last.on_send = lambda do |rows, delivery|
      delivery.reports = rows.map.with_index { |row, offset| [row[:topic], 0, offset, nil] }
    end
    session.commit([{ topic: "orders", payload: "x" }, row])
    assert_equal [%w[x {}], ["dead.status", 0, 1]], [fake.committed, (session.await_readers && @topics.asked.last)]
  end

  FENCED = Pelton::KafkaError.new(-144, :_FENCED, "fenced", true)

  # The client ends with this error at its next commit.
  def die_at_commit(error)
    client = fake
    client.on_step = lambda do |name, _|
      next unless name == :commit

      client.on_step = nil
      raise client.fatal_error = error
    end
  end

  def test_session_that_another_one_fenced_ends_whatever_the_config_says
    @config.reload_fenced = true
    @config.reload_attempts = 9
    session.start
    die_at_commit(FENCED)
    error = assert_raises(Pelton::DeadLettersFenced) { session.commit([row]) }
    assert_equal ["dead", true], [error.topic, error.message.include?("nothing is sent twice")]
    assert_raises(Pelton::DeadLettersFenced) { session.commit([row]) }
    assert_equal 1, @native.producers.size, "no other client takes the right back"
  end

  def test_session_that_is_fenced_at_its_start_ends
    @native.prepare = ->(made) { made.on_step = ->(*) { raise FENCED } }
    assert_raises(Pelton::DeadLettersFenced) { session.start }
  end

  def test_client_with_a_fatal_error_is_not_replaced_behind_the_log
    @config.reload_attempts = 9
    session.start
    die_at_commit(Pelton::KafkaError.new(45, :OUT_OF_ORDER_SEQUENCE_NUMBER, "x", true))
    2.times { assert_raises(Pelton::KafkaError) { session.commit([row]) } }
    assert_equal [1, 1], [@native.producers.size, @steps.count(:read)]
    @steps.clear
    session.reopen
    assert_equal %i[begin read], @steps, "a new client, then the log"
    assert_equal 2, @native.producers.size
  end

  # "Purged in queue" would not help.
  def test_reason_of_a_dropped_message_is_that_of_its_transaction
    session.start
    fake.on_send = lambda do |_, delivery|
      purged = Pelton::DeliveryError.new(-152, :_PURGE_QUEUE, "Purged in queue", false, false, "orders", 0)
      delivery.define_singleton_method(:wait) { |**| raise purged }
    end
    refused = Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "not allowed")
    fake.on_step = ->(name, _) { raise refused if name == :commit }
    assert_equal :TOPIC_AUTHORIZATION_FAILED, assert_raises(Pelton::KafkaError) { session.commit([row]) }.name
  end

  def test_records_of_letters_that_kafka_deleted_get_tombstones_a_thousand_at_a_time
    @logs = [Array.new(2_500) { |offset| record("0/#{offset}") } + [record("1/0")]]
    @topics.oldest = { 0 => 2_300, 1 => 0 }
    session.start
    assert_equal [2_300, [nil]], [fake.committed.size, fake.committed.uniq]
    assert_equal [1_000, 1_000, 300], (fake.calls.select { |call| call.first == :many }.map { |call| call[1].size })
    rows = fake.calls.select { |call| call.first == :many }.flat_map { |call| call[1] }
    assert_equal ["dead.status", "0/0", "0/2299"], [rows.first[:topic], rows.first[:key], rows.last[:key]]
  end
end
