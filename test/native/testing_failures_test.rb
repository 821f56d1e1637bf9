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
