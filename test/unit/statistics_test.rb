# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/runtime/notifications"
require "pelton/runtime/statistics"

class StatisticsTest < Minitest::Test
  def setup
    @bus = Pelton::Notifications.new
    @seen = []
    Pelton::Statistics::EVENTS.each { |name| @bus.subscribe(name) { |event| @seen << event } }
    @statistics = Pelton::Statistics.new
  end

  def publish(client = "p", **values)
    @seen.clear
    @statistics.publish(@bus, client, "billing", values.transform_keys(&:to_s))
    @seen.map(&:payload)
  end

  def brokers(**states) = states.to_h { |name, state| [name.to_s, { "state" => state }] }

  def test_rates_are_per_second_since_the_statistics_before
    assert_equal({}, publish(ts: 1_000_000, txmsgs: 100).first[:rates])
    rates = publish(ts: 3_000_000, txmsgs: 150, rx_bytes: 10).first[:rates]
    assert_in_delta 25.0, rates["txmsgs"]
    assert_in_delta 5.0, rates["rx_bytes"]
    assert_equal({}, publish("other", ts: 4_000_000, txmsgs: 9).first[:rates])
  end

  def test_subscribers_cannot_change_what_others_get
    payload = publish(ts: 1, brokers: brokers(a: "UP")).first
    nested = payload[:statistics]["brokers"]["a"]
    assert [payload[:statistics], nested, nested["state"], payload[:rates]].all?(&:frozen?)
  end

  def test_statistics_name_the_group
    assert_equal %w[p billing], publish(ts: 1).first.values_at(:client, :group)
  end

  def test_a_client_that_was_closed_begins_again
    publish(ts: 1_000_000)
    @statistics.delete("p")
    assert_equal({}, publish(ts: 2_000_000).first[:rates])
  end

  def test_a_client_that_was_replaced_has_no_negative_rates
    publish(ts: 1_000_000, txmsgs: 500, tx: 20)
    assert_equal({}, publish(ts: 2_000_000, txmsgs: 3, tx: 30).first[:rates])
    assert_in_delta 2.0, publish(ts: 3_000_000, txmsgs: 5, tx: 31).first[:rates]["txmsgs"]
  end

  def test_each_change_of_a_broker_once
    changes = ->(*all) { all.drop(1).map { |event| event.values_at(:broker, :from, :to) } }
    assert_equal [["a", nil, "UP"], ["b", nil, "INIT"]],
                 changes.call(*publish(ts: 1, brokers: brokers(a: "UP", b: "INIT")))
    assert_empty changes.call(*publish(ts: 2, brokers: brokers(a: "UP", b: "INIT")))
    assert_equal [%w[a UP DOWN]], changes.call(*publish(ts: 3, brokers: brokers(a: "DOWN", b: "INIT")))
  end
end
