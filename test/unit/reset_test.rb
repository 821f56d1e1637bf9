# frozen_string_literal: true

require_relative "../test_helper"
require "logger"
require "stringio"
require "support/server_kit"

# App#reset!, after which settings and routes can be changed again.
class ResetTest < Minitest::Test
  include ServerKit

  def test_reset_stops_closes_and_unfreezes_but_keeps_what_was_declared
    seen = []
    app.subscribe("producer.closed") { |event| seen << event.name }
    start
    producer = app.producer
    producer.produce_async(topic: "orders", payload: "x")
    assert_raises(Pelton::ConfigError) { app.configure { |config| config.group_id = "other" } }
    assert_same app, app.reset!
    assert_equal [true, ["producer.closed"], nil], [producer.closed?, seen, app.server]
    assert_equal "g", app.config.group_id
    app.configure { |config| config.group_id = "other" }
    app.config.polling.max_time = 7
    app.routes { topic("payments", to: Class.new(Pelton::Consumer) { def consume = nil }) }
    assert_equal [%w[orders payments]], app.routes.groups(app.config).map { |group| group.topics.keys }
    refute_same producer, app.producer
    assert_equal "#{app.config.client_id}.producer", app.producer.name[/.*(?=#)/]
  end

  def test_reset_forgets_routes_if_asked_to
    app.routes { topic("payments", to: Class.new(Pelton::Consumer) { def consume = nil }) }
    refute_empty app.routes
    assert_empty app.reset!(routes: true).routes
  end

  def test_failures_go_to_the_logger_that_was_set_after_the_reset
    log = StringIO.new
    app.producer
    app.reset!
    app.configure { |config| config.logger = Logger.new(log) }
    app.notifications.publish("error.occurred", error: RuntimeError.new("broken"), source: "test")
    assert_match(/broken/, log.string)
  end
end
