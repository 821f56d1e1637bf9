# frozen_string_literal: true

{
  "context.slice" => { after: -> { assert_equal 1, @errors.size and @errors.clear } },
  "Errors.new(:sentry)" => {
    before: -> { define("module Sentry; def self.capture_exception(error, **) = SEEN << error.message; end") },
    after: lambda do
      Pelton.app.notifications.publish("error.occurred", error: IOError.new("full"), source: "consumer.consume")
      assert_equal "full", SEEN.pop
      @errors.clear
    end
  },
  "config.logger = Logger.new" => {
    after: lambda do
      Pelton.config.logger.info("charged")
      line = JSON.parse($stdout.string.lines.last)
      assert_equal ["INFO", Process.pid, "charged"], line.values_at("level", "pid", "message")
      assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/, line["time"])
    end
  },
  "Reporters::Log.new" => {
    after: lambda do
      define("class OrdersConsumer < Pelton::Consumer; end")
      serve_orders
      assert_includes $stdout.string, "assigned guide orders/0"
    end
  }
}
