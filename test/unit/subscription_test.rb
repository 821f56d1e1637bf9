# frozen_string_literal: true

require_relative "../test_helper"
require "support/fakes"

# What a subscription refuses, or makes of it, before Kafka is asked.
class SubscriptionArgumentsTest < Minitest::Test
  def setup
    @native = Fakes::Native.new
    @module = @native.to_module
    @config = Pelton::Config.new
  end

  def test_subscription_errors_name_invalid_formats_and_positions
    [{ "format" => :json }, { format: :json, foo: 1 }, { format: :bytes, freeze: true }, :xml].each do |format|
      error = assert_raises(Pelton::ConfigError, format.inspect) do
        Pelton::Subscription.new(@config, group_id: "g", decode: { "orders" => format }, native: @module)
      end
      assert_match(/\Adecode = .*expected `:json`/, error.message)
    end
    subscription = Pelton::Subscription.new(@config, group_id: "g", decode: { "*" => nil }, native: @module)
    error = assert_raises(Pelton::InvalidMessageError) { subscription.assign([["orders", 0, -5000]]) }
    assert_match(/-5000/, error.message)
    subscription.assign([["orders", 0, :committed]])
  ensure
    subscription&.close(1)
  end

  def test_a_time_before_1970_is_no_command_to_kafka
    subscription = Pelton::Subscription.new(@config, group_id: "g", native: @module)
    asked = []
    @native.subscriptions.last.define_singleton_method(:offsets_for_times) { |rows, _| asked.concat(rows) && [7] }
    [Time.utc(1960), Time.at(Rational(-2, 1000)), Time.at(1)].each do |time|
      subscription.offsets_for_times([["orders", 0, time]])
    end
    assert_equal [0, 0, 1000], asked.map(&:last)
    error = assert_raises(Pelton::InvalidMessageError) { subscription.seek("orders", 0, Time.utc(400_000_000)) }
    assert_match(/time: .*a Time/, error.message)
  ensure
    subscription&.close(1)
  end
end
