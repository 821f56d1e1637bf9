# frozen_string_literal: true

require_relative "../test_helper"
begin
  require "pelton/outbox/session"
rescue LoadError
  nil # no Active Record for this Ruby: the tests say so
end

# A batch of the outbox's rows: which row is to blame if Kafka does not take it, and when nobody is.
class OutboxSessionTest < Minitest::Test
  # A producer whose batch has this delivery. counts: {"orders" => 4, or an error}.
  class Producer
    attr_reader :committed, :aborted
    attr_accessor :counts, :delivery

    def initialize
      @counts = Hash.new(4)
      @committed = @aborted = 0
    end

    def partition_count(topic, timeout:) = raises(@counts[topic], timeout)

    def transaction
      yield self
      @committed += 1
      true
    rescue Pelton::AbortTransaction
      @aborted += 1
      nil
    rescue StandardError
      @aborted += 1
      raise
    end

    def produce_many_async(messages) = raises(@delivery, messages)

    private

    def raises(given, _) = given.is_a?(Exception) ? raise(given) : given
  end

  # waits: what each wait does. reports: as of Delivery.
  Delivery = Struct.new(:waits, :error, :reports) do
    def wait(timeout:)
      raise Pelton::WaitTimeout.new("delivery", "orders", timeout) if waits.shift == :late
      raise error if error
    end
  end

  Row = Struct.new(:id, :topic, :message)

  def setup
    skip "no gem activerecord for Ruby #{RUBY_VERSION}" unless defined?(ActiveRecord::Base)

    @producer = Producer.new
    @session = Pelton::Outbox::Session.allocate
    @session.instance_variable_set(:@producer, @producer)
    @rows = %w[orders paid orders].each_with_index.map { |topic, id| Row.new(id, topic, { topic: topic }) }
  end

  def delivery(*waits, error: nil, errors: [nil] * 3)
    @producer.delivery = Delivery.new(waits, error, errors.map { |failure| ["orders", 0, -1, failure] })
  end

  def error(name, fatal: false, code: 3) = Pelton::DeliveryError.new(code, name, "refused", fatal)
  def publish(&go_on) = @session.publish(@rows, &go_on || -> { flunk "it did not wait" })
  def ends = [@producer.committed, @producer.aborted]

  def test_a_batch_that_arrives_is_committed
    delivery
    assert_equal [{}, [1, 0]], [publish, ends]
  end

  def test_a_slow_batch_is_awaited_as_long_as_the_relay_goes_on
    delivery(:late, :late)
    asked = 0
    assert_equal [{}, 2, [1, 0]], [publish { asked += 1 }, asked, ends]
  end

  def test_a_relay_that_stops_meanwhile_sends_nothing
    delivery(:late, :late)
    answers = [true, false]
    assert_nil publish { answers.shift }
    assert_equal [0, 1], ends
  end

  # The others are dropped with the transaction, for which they are not to blame.
  def test_a_refused_message_of_a_slow_batch_is_to_blame_at_once
    late = delivery(:late, errors: [nil, error(:MSG_SIZE_TOO_LARGE), error(:_PURGE_QUEUE, code: -152)])
    found = publish { late.error = error(:MSG_SIZE_TOO_LARGE) }
    assert_equal [[@rows[1]], [0, 1]], [found.keys, ends]
    assert_equal :MSG_SIZE_TOO_LARGE, found.values.first.name
  end

  def test_an_error_that_says_nothing_about_a_message_blames_no_row
    %i[_MSG_TIMED_OUT NOT_ENOUGH_REPLICAS].each do |name|
      delivery(error: error(name), errors: [error(name)] * 3)
      assert_equal name, assert_raises(Pelton::KafkaError) { publish }.name
    end
    delivery(error: error(:UNKNOWN, fatal: true), errors: [error(:UNKNOWN, fatal: true)] * 3)
    assert_raises(Pelton::KafkaError) { publish }
  end

  def test_a_message_that_the_producer_refuses_is_the_row_to_blame
    refusal = Pelton::InvalidMessageError.new(:headers, [], "a Hash")
    @producer.delivery = refusal.at(1)
    assert_equal({ @rows[1] => @producer.delivery }, publish)
    @producer.delivery = refusal
    assert_same refusal, assert_raises(Pelton::InvalidMessageError) { publish }
  end

  # librdkafka would wait 30 s for it, and all other rows with it.
  def test_rows_of_a_topic_that_does_not_exist_are_refused_before_anything_is_sent
    @producer.counts["orders"] = missing = error(:UNKNOWN_TOPIC_OR_PART)
    assert_equal [{ @rows[0] => missing, @rows[2] => missing }, [0, 0]], [publish, ends]
    @producer.counts["orders"] = error(:_TRANSPORT)
    assert_equal :_TRANSPORT, assert_raises(Pelton::DeliveryError) { publish }.name
  end
end
