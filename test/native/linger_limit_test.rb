# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"

# With a linger.ms that is not below message.timeout.ms, librdkafka refuses every topic. The error was that the topic's
# name has wrong letters.
class LingerLimitTest < Minitest::Test
  def producer(**kafka)
    @app = Pelton::App.new.configure do |config|
      config.logger = nil
      config.kafka = { "bootstrap.servers" => "127.0.0.1:1", **kafka.transform_keys(&:to_s) }
    end
    @app.producer
  end

  def teardown
    @app&.close(timeout: 0)
    super
  end

  def test_linger_above_the_default_message_timeout_names_both_options
    slow = producer("linger.ms": 900_000)
    error = assert_raises(Pelton::ConfigError) { slow.produce_async(topic: "t", payload: "x") }
    assert_equal ["linger.ms", "900000"], [error.key, error.value]
    assert_includes error.message, "expected less than message.timeout.ms (150000)"
  end

  def test_other_names_of_the_options_count_as_well
    options = { "queue.buffering.max.ms": 2000, "delivery.timeout.ms": 2000 }
    error = assert_raises(Pelton::ConfigError) { producer(**options).produce_async(topic: "t", payload: "x") }
    assert_equal "queue.buffering.max.ms", error.key
    assert_includes error.message, "delivery.timeout.ms (2000)"
  end

  # Where librdkafka draws the line.
  def test_linger_below_the_timeout_or_without_a_timeout_is_taken
    allowed = [{ "linger.ms": 1999, "delivery.timeout.ms": 2000 }, { "linger.ms": 900_000, "message.timeout.ms": 0 }]
    allowed.each do |options|
      assert_kind_of Pelton::Delivery, producer(**options).produce_async(topic: "t", payload: "x")
      @app.close(timeout: 0)
    end
  end
end
