# frozen_string_literal: true

require_relative "../test_helper"
require "minitest/mock"
require "pelton/config"
require "pelton/dead_letters"

# What a redrive asks Kafka about topics, and how it waits until all of Kafka knows a change.
class DeadLettersTopicsTest < Minitest::Test
  MISSING = Pelton::KafkaError.new(3, :UNKNOWN_TOPIC_OR_PART, "no such topic")
  EXISTS = Pelton::KafkaError.new(36, :TOPIC_ALREADY_EXISTS, "exists")
  DENIED = Pelton::KafkaError.new(29, :TOPIC_AUTHORIZATION_FAILED, "no right")

  # A client that answers these one after the other, the last one for good.
  class Client
    attr_reader :closed
    attr_accessor :counts, :ends

    def partition_count(_topic) = answer(@counts)
    def watermarks(_topic, _partition) = [0, answer(@ends)]
    def close(_timeout) = @closed = true

    private

    def answer(list)
      found = list.size > 1 ? list.shift : list.first
      found.is_a?(Exception) ? raise(found) : found
    end
  end

  # An administrator; error: raised by create_topic.
  class Admin
    attr_reader :created, :closed
    attr_writer :error

    def topics(name)
      partition = Struct.new(:replicas).new([1, 2, 3])
      { name => Struct.new(:partitions).new([partition]) }
    end

    def create_topic(*facts, **options)
      raise @error if @error

      @created = [facts, options]
    end

    def close = @closed = true
  end

  def setup
    @client = Client.new
    @admin = Admin.new
    @topics = Pelton::DeadLetters::Topics.new(Pelton::Config.new, bus: nil, native: nil, kafka: {})
  end

  def asking(&block)
    Pelton::Subscription.stub(:new, @client) { Pelton::Admin.stub(:new, @admin, &block) }
  end

  # No time is left for a second look.
  def late(&block) = Pelton::Clock.stub(:left, 0.0) { asking(&block) }

  def test_a_topic_that_is_new_is_awaited_until_brokers_know_it
    @client.counts = [MISSING, MISSING, MISSING, 1]
    asking { @topics.create_status_topic("dead") }
    (name,), options = @admin.created
    assert_equal ["dead.status", { partitions: 1, replicas: 3, config: { "cleanup.policy" => "compact" } }],
                 [name, options]
    assert @admin.closed
    assert_equal 1, asking { @topics.partitions("dead.status") }
  end

  def test_a_topic_that_exists_is_not_created
    @client.counts = [1]
    asking { @topics.create_status_topic("dead") }
    assert_nil @admin.created
  end

  # Another run was faster.
  def test_a_topic_that_another_process_creates_meanwhile_is_no_error
    @client.counts = [MISSING, 1]
    @admin.error = EXISTS
    asking { @topics.create_status_topic("dead") }
    assert @admin.closed
  end

  def test_a_topic_that_may_not_be_created_is_named
    @client.counts = [MISSING]
    @admin.error = DENIED
    error = assert_raises(Pelton::KafkaError) { asking { @topics.create_status_topic("dead") } }
    assert_equal :TOPIC_AUTHORIZATION_FAILED, error.name
    assert_includes error.message, "dead.status"
    assert @admin.closed
  end

  def test_a_topic_that_no_broker_learns_about_is_an_error
    @client.counts = [MISSING]
    error = assert_raises(Pelton::WaitTimeout) { late { @topics.create_status_topic("dead") } }
    assert_match(/the creation of a topic.*dead\.status.*30 s/, error.message)
  end

  def test_readers_are_awaited_until_they_see_the_message
    @client.ends = [42, 42, 43]
    asking { @topics.await_visible("dead.status", 0, 42) }
    assert_equal [43], @client.ends
    @client.ends = [42]
    error = assert_raises(Pelton::WaitTimeout) { late { @topics.await_visible("dead.status", 0, 42) } }
    assert_includes error.message, "the end of a transaction"
  end

  def test_other_errors_are_raised_and_a_name_that_no_topic_has_is_no_topic
    @client.counts = [DENIED]
    assert_same DENIED, assert_raises(Pelton::KafkaError) { asking { @topics.partitions("orders") } }
    @client.counts = [Pelton::InvalidMessageError.new(:topic, "a b", "a name")]
    assert_nil(asking { @topics.partitions("a b") })
  end

  def test_its_client_is_closed
    @client.counts = [4]
    2.times { assert_equal 4, asking { @topics.partitions("orders") } }
    asking { @topics.close }
    assert @client.closed
  end
end
