# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/testing/minitest"

# Failures that a test would not see: of code that logs, and of hooks at the end of a test.
class TestingFailuresTest < Minitest::Test
  class OrdersConsumer < Pelton::Consumer
    def process(message) = Pelton.config.logger.info("order") && message.payload.fetch("id")
  end

  class ClicksConsumer < Pelton::Consumer
    def consume = nil
  end

  def setup
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => "nowhere:1" }
      config.group_id = "billing"
    end
    Pelton.routes do
      topic("orders", to: OrdersConsumer) { decode :json }
      topic("clicks", to: ClicksConsumer)
    end
  end

  class DispatchingConsumer < Pelton::Consumer
    def process(message) = dispatch_to_dead_letters(message, reason: message.raw_payload)
  end

  def dispatching
    Pelton.routes { topic("odd", to: DispatchingConsumer) { dead_letters "odd.dead", retries: :unlimited } }
  end

  def test_a_failure_hits_letters_that_the_consumer_sends
    dispatching
    fail_next(:TOPIC_AUTHORIZATION_FAILED, topic: "odd.dead")
    produce("odd", "x")
    assert_failed("odd", error: Pelton::DeliveryError, count: 1)
    refute_dead_lettered("odd")
    travel 1
    assert_dead_lettered("odd", error: "x", count: 1)
  end

  def test_a_failure_hits_copies_of_failed_messages
    Pelton.routes do
      topic("odd", to: OrdersConsumer) do
        retry_in 60
        dead_letters "odd.dead"
      end
    end
    fail_next(:INVALID_RECORD, topic: "odd.retry.60")
    fail_next(:INVALID_RECORD, topic: "odd.dead")
    produce("odd", "{}")
    assert_equal [0, [["", "INVALID_RECORD"]]],
                 [produced_messages("odd.retry.60").size, produced_messages("odd.dead").map do |letter|
                   [letter.raw_payload, letter.origin.payload_omitted]
                 end]
  end

  # The refusal of the whole copy, which Pelton reports itself, came first: consumer_errors was empty.
  def test_an_error_that_a_consumer_raised_after_a_reported_one_was_missing
    dispatching
    fail_next(:INVALID_RECORD, topic: "odd.dead", times: 2) # with and without the payload
    produce("odd", "x")
    assert_equal %i[INVALID_RECORD], consumer_errors.map(&:name)
    travel 1
    assert_equal [1, 1], [produced_messages("odd.dead").size, committed_offset("odd")]
  end

  # config.logger was nil in a test, so `info` raised NoMethodError there and nowhere else.
  def test_a_consumer_that_logs_failed_in_a_test
    _, err = capture_io { produce("orders", { "id" => 1 }) && produce("orders", {}) }
    assert_equal ["", [KeyError]], [err, consumer_errors.map(&:class)]
    assert_consumed("orders", count: 1)
    assert(%i[debug info warn error].all? { |level| Pelton.config.logger.public_send(level) { "block" } })
  end

  def test_a_logger_that_was_turned_off_stays_nil
    Pelton.config.logger = nil
    consumer_for("orders")
    assert_nil Pelton.config.logger
  end

  # The error was in an event, after the last assertion: the test passed.
  def test_a_shutdown_that_raises_at_the_end_of_a_test_stayed_invisible
    ended = false
    consumer_for("clicks").define_singleton_method(:shutdown) { raise ArgumentError, "at the end" }
    consumer_for("orders").define_singleton_method(:shutdown) { ended = true }
    session = Pelton::Testing::Session.current
    assert_equal "at the end", assert_raises(ArgumentError) { session.close }.message
    assert ended && session.closed?
  end

  def test_a_shutdown_that_raises_in_a_test_can_be_asserted
    consumer_for("orders").define_singleton_method(:shutdown) { raise KeyError, "asserted" }
    stop_consumers
    assert_equal ["asserted"], consumer_errors.map(&:message)
    assert_failed("orders", error: KeyError, kind: :shutdown)
  end
end
